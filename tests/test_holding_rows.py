"""Tests of search/holding_rows.py: which rows hold a token."""

from pathlib import Path

import numpy as np
import pytest

import denslice as ds
from denslice.search.holding_rows import rows_with

DOCS = [{"id": str(at), "text": text} for at, text in enumerate(["red fox", "grey wolf", "red wolf", ""])]


@pytest.mark.parametrize("slices", [None, 1])
def test_rows_with_a_token_are_those_whose_text_has_it(tmp_path: Path, slices: int | None) -> None:
    index = ds.Index.create(tmp_path / "words.idx", encoder="bm25", slices=slices)
    index.add(DOCS)
    find = index.reader.snapshot.words.find
    (segment,) = index.reader.snapshot.segments

    def rows(*words: str) -> list[int]:
        return np.flatnonzero(rows_with(segment, np.array([find(word) for word in words], dtype=np.int64))).tolist()

    assert rows("red") == [0, 2]
    assert rows("wolf", "fox") == [0, 1, 2]
    assert rows("lynx") == []
    assert rows() == []


def test_rows_with_a_token_are_found_in_every_block(tmp_path: Path) -> None:
    index = ds.Index.create(tmp_path / "blocks.idx", encoder="bm25")
    index.add({"id": str(at), "text": "rare" if at % 40_000 == 7 else "usual"} for at in range(80_100))
    index.merge()
    find = index.reader.snapshot.words.find
    found = sum(int(rows_with(segment, np.array([find("rare")])).sum()) for segment in index.reader.snapshot.segments)
    assert found == 3
