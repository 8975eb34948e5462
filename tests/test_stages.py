"""How long stages take: told to whoever asks, and to nobody else."""

from pathlib import Path

import pytest

from denslice import Index
from denslice.stage_timers import stage, timed


def test_stages_are_told_to_the_record_that_is_open() -> None:
    with timed() as seconds:
        with stage("one"):
            pass
        with stage("one"), stage("two"):
            pass
        with timed() as inner, stage("three"):
            pass
    with stage("four"):
        pass
    assert (set(seconds), set(inner)) == ({"one", "two"}, {"three"})
    assert all(taken >= 0 for taken in (*seconds.values(), *inner.values()))


def test_a_stage_that_fails_is_told_too() -> None:
    with timed() as seconds, pytest.raises(ValueError, match="no"), stage("one"):
        raise ValueError("no")
    assert set(seconds) == {"one"}


def test_a_search_tells_its_stages(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "s.idx", "bm25")
    index.add([{"id": "1", "text": "cats sleep"}])
    with timed() as seconds:
        hits = list(index.search_batch(["cats"], where={"year": {"exists": False}})[0])
    assert [hit.id for hit in hits] == ["1"]
    assert set(seconds) == {"encode", "filter", "search", "documents"}
