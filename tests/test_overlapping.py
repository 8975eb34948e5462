"""Writers that overlap: whoever commits later ends where it would have, had it begun after the other was done."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from denslice import Index, InputError, open_index
from denslice.index.doc_batches import ready_batches
from denslice.index.writer import Overtaken, Writer
from denslice.store import lock, tiers
from denslice.store.manifest import Manifest
from denslice.store.snapshot import Snapshot

PLAIN = {"language": "none", "stop_words": [], "average_length": 10.0}
WORDS = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen")
QUESTIONS = (*WORDS, "ant bee cat dog elk fox gnu hen", "dog dog elk")
Pairs = list[tuple[str, float]]
Work = Callable[[Writer], int]


@pytest.fixture(scope="module", autouse=True)
def _small_segments() -> Iterator[None]:
    """Segments of 4 documents, so that a few make several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("denslice.index.create.Manifest", partial(Manifest, block=64))
        patch.setattr("denslice.index.doc_batches.BATCH", 2)
        patch.setattr("denslice.store.tiers.SEGMENT_DOCS", 4)
        yield


def made(
    path: Path, texts: dict[str, str] | None = None, slices: int | None = 4096, slicing: str | None = "stride"
) -> Index:
    index = Index.create(path, "bm25", slicing=slicing, slices=slices, options=PLAIN)
    index.add(docs(texts or {}))
    return index


def docs(texts: dict[str, str]) -> list[dict[str, str]]:
    return [{"id": id, "text": text} for id, text in texts.items()]


def adding(texts: dict[str, str]) -> Work:
    return lambda build: build.add_docs(docs(texts))


def deleting(*ids: str) -> Work:
    return lambda build: build.delete(ids)


def merging(build: Writer) -> int:
    return build.merge(tiers.worn(build.base.manifest.segments))


def overlapped(index: Index, work: Work, meanwhile: Callable[[Index], object]) -> int:
    """Do the work on the last commit, have another Index change the folder meanwhile, then commit the work."""

    def both(build: Writer) -> int:
        done = work(build)
        meanwhile(open_index(index.path))
        return done

    return index.commit_only(both, lock.WAIT_SECONDS)


def state(index: Index) -> tuple[dict[str, str], list[Pairs], int]:
    """What the index holds, what it finds, and how many words it knows, which it must say after opening it again."""
    shown, opened = _state(index), _state(open_index(index.path))
    assert shown == opened
    return shown


def _state(index: Index) -> tuple[dict[str, str], list[Pairs], int]:
    held = [(doc.id, doc.text) for doc in index.docs()]
    assert len(held) == len(dict(held)) == len(index)
    index.verify()
    found = [index.search(text, 100) for text in QUESTIONS]
    rankings = [list(zip(ranking.ids, ranking.scores, strict=True)) for ranking in found]
    return dict(held), rankings, index.info()["vocabulary"]


def leftovers(index: Index) -> list[Path]:
    """What lies in the folder of uncommitted segments."""
    return list((index.path / "writing").iterdir())


# Words


def test_two_writers_that_bring_new_words_agree_on_their_ids(tmp_path: Path) -> None:
    index, after = (made(tmp_path / name, {"1": "ant bee"}) for name in ("overlapped", "after"))
    overlapped(index, adding({"2": "cat dog bee", "3": "elk"}), lambda other: other.add(docs({"4": "elk fox cat"})))
    after.add(docs({"4": "elk fox cat"}))
    after.add(docs({"2": "cat dog bee", "3": "elk"}))
    assert state(index) == state(after)
    assert index.search("elk").ids == ("3", "4")
    words = Snapshot(index.path).words
    stems = [word for word in map(words.word, range(len(words))) if not word.startswith("=")]
    assert stems == ["ant", "bee", "elk", "fox", "cat", "dog"]
    assert leftovers(index) == []


def test_a_text_read_while_another_writer_commits_is_added_on_top(tmp_path: Path) -> None:
    index = made(tmp_path / "index", {"1": "ant"})

    def source() -> Iterator[dict[str, str]]:
        yield from docs({"2": "bee", "3": "cat"})
        open_index(index.path).add(docs({"3": "dog elk", "4": "cat"}))
        yield from docs({"5": "dog"})

    assert index.add(source()) == 3
    assert state(index)[0] == {"1": "ant", "2": "bee", "3": "cat", "4": "cat", "5": "dog"}
    assert (index.search("elk").ids, index.search("cat").ids, index.search("dog").ids) == ((), ("3", "4"), ("5",))


# The slicing


@pytest.mark.parametrize("slicing", ["stride", "learned", "random", "contiguous"])
def test_of_two_first_writers_the_one_that_commits_first_settles_the_slicing(tmp_path: Path, slicing: str) -> None:
    index, after = (made(tmp_path / name, slices=2, slicing=slicing) for name in ("overlapped", "after"))
    first, second = {"1": "ant bee cat", "2": "ant ant dog"}, {"3": "cat dog elk fox", "4": "gnu ant ant"}
    overlapped(index, adding(second), lambda other: other.add(docs(first)))
    after.add(docs(first))
    settled = Snapshot(after.path).manifest.slicing.vocab
    after.add(docs(second))
    assert Snapshot(index.path).manifest.slicing.vocab == settled
    ours, expected = Snapshot(index.path).slicing, Snapshot(after.path).slicing
    assert ours is not None
    assert expected is not None
    np.testing.assert_array_equal(ours.slice_of, expected.slice_of)
    assert state(index) == state(after)


def ready(seed: int, count: int) -> sp.csr_array:
    return sp.csr_array(np.random.default_rng(seed).integers(0, 3, (count, 5)).astype(np.float32))


def test_of_two_first_writers_the_later_is_refused_if_its_dense_vectors_are_of_another_width(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "index", "vectors", vocab=5)
    batches = ready_batches(["a", "b"], ready(1, 2), None, np.ones((2, 3), np.float32))
    with pytest.raises(InputError, match="dense vectors of 3 dimensions do not fit an index with 2"):
        overlapped(
            index,
            lambda build: build.add_encoded(batches),
            lambda other: other.add_vectors(["c"], ready(2, 1), dense=np.ones((1, 2))),
        )
    index.refresh()
    assert [doc.id for doc in index.docs()] == ["c"]
    assert (index.info()["dimensions"], leftovers(index)) == (2, [])


@pytest.mark.parametrize("width", [None, 3])
def test_an_index_that_was_emptied_takes_the_width_of_the_next_documents_whoever_emptied_it(
    tmp_path: Path, width: int | None
) -> None:
    index = Index.create(tmp_path / "index", "vectors", vocab=5)
    index.add_vectors(["c"], ready(2, 1), dense=np.ones((1, 2)))
    index.delete(["c"])
    dense = None if width is None else np.ones((2, width), np.float32)

    def comes_and_goes(other: Index) -> None:
        other.add_vectors(["d"], ready(2, 1), dense=np.ones((1, 2)))
        other.delete(["d"])

    overlapped(
        index, lambda build: build.add_encoded(ready_batches(["a", "b"], ready(1, 2), None, dense)), comes_and_goes
    )
    assert index.info()["dimensions"] == width
    index.verify()
    given = None if width is None else np.ones(width)
    assert set(index.search_vectors(np.ones((1, 5)), dense=given).ids) == {"a", "b"}


# Merges


def test_a_document_deleted_or_replaced_while_a_merge_rewrites_it_stays_so(tmp_path: Path) -> None:
    texts = {str(n): WORDS[n] for n in range(7)}
    index = made(tmp_path / "index")
    for one in texts:
        index.add(docs({one: texts[one]}))

    def change(other: Index) -> None:
        other.delete(["1", "6"])
        other.add(docs({"3": "yak yak", "8": "yak"}))

    assert overlapped(index, merging, change) == 7
    kept = {id: texts[id] for id in "0245"}
    assert state(index)[0] == {**kept, "3": "yak yak", "8": "yak"}
    assert [index.search(word).ids for word in ("bee", "gnu", "dog", "yak")] == [(), (), (), ("3", "8")]
    after = made(tmp_path / "after", {**kept, "3": "yak yak", "8": "yak"})
    assert state(index)[1] == state(after)[1]


def test_a_merge_most_of_whose_documents_were_replaced_meanwhile_is_given_up(tmp_path: Path) -> None:
    index = made(tmp_path / "index", {"1": "ant"})
    index.add(docs({"2": "bee"}))
    index.add(docs({"3": "cat"}))
    with pytest.raises(Overtaken):
        overlapped(index, merging, lambda other: other.add(docs({"1": "dog", "2": "dog"})))
    index.refresh()
    assert state(index)[0] == {"1": "dog", "2": "dog", "3": "cat"}
    assert leftovers(index) == []


def test_a_merge_overtaken_by_another_merge_changes_nothing(tmp_path: Path) -> None:
    index = made(tmp_path / "index", {"1": "ant"})
    index.add(docs({"2": "bee"}))
    with pytest.raises(Overtaken):
        overlapped(index, merging, lambda other: other.merge())
    index.refresh()
    assert [index.info()[name] for name in ("generation", "segments", "documents")] == [3, 1, 2]
    assert (state(index)[0], leftovers(index)) == ({"1": "ant", "2": "bee"}, [])


def test_a_merge_goes_on_without_a_segment_that_was_deleted_or_merged_elsewhere(tmp_path: Path) -> None:
    index = made(tmp_path / "index")
    for n in range(5):
        index.add(docs({str(n): WORDS[n]}))

    def change(other: Index) -> None:
        other.delete(["1"])
        other.commit_only(lambda build: build.merge(build.base.manifest.segments[:1]), lock.WAIT_SECONDS)

    assert overlapped(index, merging, change) == 5
    assert state(index)[0] == {"0": "ant", "2": "cat", "3": "dog", "4": "elk"}
    assert [index.info()[name] for name in ("segments", "deleted")] == [3, 2]


def test_a_delete_finds_its_documents_in_the_segment_that_a_merge_put_them_in_meanwhile(tmp_path: Path) -> None:
    index = made(tmp_path / "index", {"1": "ant"})
    index.add(docs({"2": "ant bee"}))
    index.add(docs({"3": "ant cat"}))
    overlapped(index, deleting("2"), lambda other: other.merge())
    assert state(index)[0] == {"1": "ant", "3": "ant cat"}
    overlapped(index, adding({"3": "dog"}), lambda other: other.merge())
    assert state(index)[0] == {"1": "ant", "3": "dog"}
    assert index.search("ant").ids == ("1",)


# The law

IDS = st.sampled_from([f"d{n}" for n in range(8)])
TEXTS = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
CHANGES = st.one_of(
    st.tuples(st.just("add"), st.dictionaries(IDS, TEXTS, min_size=1, max_size=6)),
    st.tuples(st.just("delete"), st.lists(IDS, min_size=1, max_size=4)),
    st.tuples(st.just("merge"), st.none()),
)


def work_of(change: tuple[str, Any]) -> Work:
    name, given = change
    works: dict[str, Callable[[], Work]] = {
        "add": lambda: adding(given),
        "delete": lambda: deleting(*given),
        "merge": lambda: merging,
    }
    return works[name]()


def do(index: Index, changes: Sequence[tuple[str, Any]]) -> None:
    """Do one change after the other, each in a commit of its own, without the merges that come by themselves."""
    for change in changes:
        index.commit_only(work_of(change), lock.WAIT_SECONDS)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(CHANGES, max_size=3),
    CHANGES,
    st.lists(CHANGES, min_size=1, max_size=3),
    st.sampled_from([(2, "stride"), (2, "learned"), (4096, "stride"), (4096, "learned"), (None, None)]),
)
def test_overlapping_changes_end_where_the_later_one_would_have_ended_had_it_waited(
    before: Sequence[tuple[str, Any]],
    slow: tuple[str, Any],
    meanwhile: Sequence[tuple[str, Any]],
    sliced: tuple[int | None, str | None],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index, after = (made(Path(folder, name), None, *sliced) for name in ("overlapped", "after"))
        for one in (index, after):
            do(one, before)
        with suppress(Overtaken):  # only a merge can be, and a merge changes no result
            overlapped(index, work_of(slow), lambda other: do(other, meanwhile))
        index.refresh()
        do(after, [*meanwhile, slow])
        assert state(index) == state(after)
        assert leftovers(index) == []
