"""A living index: replacing, deleting, merging and moving on change what is found, and nothing else."""

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from denslice import Doc, Index, InputError, Query, Ranking, open_index
from denslice.store import manifest as manifests
from denslice.store.files import NEW, replace_file
from denslice.store.folder import Folder
from denslice.store.manifest import Manifest
from denslice.store.snapshot import file_names

PLAIN = {"language": "none", "stop_words": [], "average_length": 10.0}  # words as they stand, weights fixed for good
WORDS = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen")
QUESTIONS = ("ant", "bee cat", "dog dog elk", "ant bee cat dog elk fox gnu hen", "yak")
K1, B, LENGTH = 0.9, 0.4, 10.0
Pairs = list[tuple[str, float]]


@pytest.fixture(scope="module", autouse=True)
def _small_segments() -> Iterator[None]:
    """Segments of 4 documents and blocks of 64, so that a few documents make a merge."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("denslice.index.create.Manifest", partial(Manifest, block=64))
        patch.setattr("denslice.index.doc_batches.BATCH", 2)
        patch.setattr("denslice.store.tiers.SEGMENT_DOCS", 4)
        yield


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """Six documents in three commits: segments of 1, 1 and 4 documents."""
    index = made(tmp_path / "six")
    index.add([doc("1", "ant bee")])
    index.add([doc("2", "bee cat")])
    index.add([doc("3", "cat cat"), doc("4", "dog"), doc("5", "ant dog elk"), doc("6", "elk")])
    return index


def made(path: Path, slicing: str = "stride", slices: int = 4096, **settings: Any) -> Index:
    return Index.create(path, "bm25", slicing=slicing, slices=slices, options=PLAIN, **settings)


def doc(id: str, text: str) -> dict[str, str]:
    return {"id": id, "text": text}


def pairs(ranking: Ranking) -> Pairs:
    return list(zip(ranking.ids, ranking.scores, strict=True))


def rankings(index: Index) -> list[Pairs]:
    """Every document found for each question, ids and scores."""
    return [pairs(index.search(text, 1000)) for text in QUESTIONS]


def texts(index: Index) -> dict[str, str]:
    """What the index says it holds, which every way of asking must agree on."""
    held = {doc.id: doc.text for doc in index.docs()}
    assert len(index) == index.info()["documents"] == len(list(index.docs())) == len(held)
    assert {id: index.get(id) for id in held} == {doc.id: doc for doc in index.docs()}
    return held


def stray_files(path: Path) -> set[str]:
    """Files in an index's folder that its last commit does not name, and those it names that are not there."""
    named = {manifests.MANIFEST_FILE, "lock", "lock.next", *file_names(manifests.read(Folder(path)))}
    return {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()} ^ named


def commit_of(index: Index) -> tuple[int, int]:
    """What changes whenever a manifest is put in place, even one that says the same."""
    stat = (index.path / manifests.MANIFEST_FILE).stat()
    return stat.st_ino, stat.st_mtime_ns


# Adding and replacing


def test_a_document_takes_the_place_of_the_one_with_its_id(index: Index) -> None:
    assert index.add([doc("2", "fox"), doc("7", "fox fox")]) == 2

    assert texts(index) == {
        "1": "ant bee", "2": "fox", "3": "cat cat", "4": "dog", "5": "ant dog elk", "6": "elk", "7": "fox fox"
    }  # fmt: skip
    assert index.search("bee").ids == ("1",)
    assert index.search("fox").ids == ("7", "2")
    assert index.get("2") == Doc("2", "fox")


def test_an_add_is_one_commit_whatever_it_replaces_and_however_many_segments_it_writes(index: Index) -> None:
    before = index.info()["generation"]
    index.add([doc(str(n), "gnu") for n in range(1, 13)])
    info = index.info()
    assert (info["generation"], info["documents"], info["deleted"], info["segments"]) == (before + 1, 12, 0, 3)


def test_a_replaced_document_can_be_replaced_again_and_again(index: Index) -> None:
    for text in ("fox", "gnu", "hen", "bee"):
        index.add([doc("3", text)])
        assert "3" in index.search(text).ids
    assert texts(index)["3"] == "bee"
    assert index.search("cat fox gnu hen").ids == ("2",)


def test_an_id_given_twice_in_one_add_leaves_the_index_as_it_was(index: Index) -> None:
    before = texts(index)
    for ids in (["7", "7"], ["7", *"abcdefgh", "7"], ["1", "2", "1"]):
        with pytest.raises(InputError, match=rf"{ids[-1]}' is given twice"):
            index.add([doc(id, "ant") for id in ids])
        assert texts(index) == texts(open_index(index.path)) == before


def test_an_add_that_fails_midway_replaces_nothing(index: Index) -> None:
    before, ranked = index.info(), rankings(index)

    def failing() -> Iterator[dict[str, Any]]:
        yield from (doc(str(n), "hen") for n in range(1, 7))
        yield {"id": 7.5, "text": "an id that is no string"}

    with pytest.raises(InputError, match=r"7\.5 is float, expected a string or a whole number"):
        index.add(failing())
    assert rankings(index) == rankings(open_index(index.path)) == ranked
    assert index.info() == open_index(index.path).info() == before


def test_adding_nothing_makes_no_commit(index: Index) -> None:
    before, commit = index.info(), commit_of(index)
    assert index.add([]) == 0
    assert (index.info(), commit_of(index)) == (before, commit)


@pytest.mark.parametrize("bad", ["", " ", "a\0b", "a\nb", "\ud800"])
def test_a_doc_with_an_id_that_is_none_is_refused_like_a_dict_with_one(index: Index, bad: str) -> None:
    before = texts(index)
    for one in (Doc(bad, "ant"), doc(bad, "ant")):
        with pytest.raises(InputError, match="id"):
            index.add([one])
    assert texts(index) == before


# Deleting


def test_delete_says_how_many_documents_it_removed(index: Index) -> None:
    assert index.delete(["2", "5", "3"]) == 3
    assert set(texts(index)) == {"1", "4", "6"}
    assert index.get("2") is None
    assert index.search("ant bee cat dog elk").ids == ("1", "4", "6")
    assert index.search("cat").ids == ()


def test_delete_counts_an_id_once_and_unknown_ones_not_at_all(index: Index) -> None:
    assert index.delete(["2", "no such id", "2", "6", "2"]) == 2
    assert index.delete(["2", "6", "1"]) == 1
    assert index.delete(["2", "6", "1"]) == 0


def test_a_delete_over_several_segments_is_one_commit_and_a_delete_of_nothing_is_none(index: Index) -> None:
    before = index.info()["generation"]
    index.delete(["1", "2", "3"])
    assert index.info()["generation"] == before + 1
    commit = commit_of(index)
    assert index.delete(["1", "zebra"]) == index.delete([]) == 0
    assert (index.info()["generation"], commit_of(index)) == (before + 1, commit)


def test_a_delete_leaves_nothing_of_the_delete_before_it(index: Index) -> None:
    for id in ("3", "5", "4"):  # of one segment
        index.delete([id])
        assert stray_files(index.path) == set()


def test_deleted_rows_are_counted_until_their_segment_goes(index: Index) -> None:
    index.delete(["3", "5"])
    assert [index.info()[name] for name in ("documents", "deleted", "segments")] == [4, 2, 3]
    index.delete(["1"])
    assert [index.info()[name] for name in ("documents", "deleted", "segments")] == [3, 2, 2]
    index.merge()
    assert [index.info()[name] for name in ("documents", "deleted", "segments")] == [3, 0, 1]


def test_delete_takes_any_iterable_and_one_that_fails_deletes_nothing(index: Index) -> None:
    def failing() -> Iterator[str]:
        yield "1"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        index.delete(failing())
    assert len(index) == 6
    assert index.delete(id for id in ("1", "2")) == 2


@pytest.mark.parametrize("bad", ["12", [1.0], [True], [None], [["1"]]])
def test_delete_refuses_what_is_no_list_of_ids(index: Index, bad: Any) -> None:
    with pytest.raises(InputError):
        index.delete(bad)
    assert len(index) == 6


def test_an_index_emptied_by_deletes_finds_nothing_and_can_be_filled_again(index: Index) -> None:
    assert index.delete(doc.id for doc in index.docs()) == 6
    assert (len(index), list(index.docs()), index.get("1")) == (0, [], None)
    assert [index.info()[name] for name in ("documents", "deleted", "segments")] == [0, 0, 0]
    assert rankings(index) == [[]] * len(QUESTIONS)
    assert index.search("ant", where={"year": 1}).ids == ()
    assert index.merge() == 0

    index.add([doc("1", "bee yak"), doc("9", "ant")])
    assert texts(index) == {"1": "bee yak", "9": "ant"}
    assert index.search("yak ant").ids == ("9", "1")


def test_an_index_that_never_had_a_document_finds_nothing(tmp_path: Path) -> None:
    index = made(tmp_path / "empty")
    assert rankings(index) == [[]] * len(QUESTIONS)
    assert (len(index), list(index.docs()), index.get("1"), index.merge(), index.delete(["1"])) == (0, [], None, 0, 0)


@pytest.mark.parametrize("id", ["1\0", "\0", "", "\ud800", "1\ud800", "'; DROP TABLE docs; --", '1"', "01"])
def test_get_of_an_id_that_is_not_there_is_none(index: Index, id: str) -> None:
    assert index.get(id) is None
    assert len(texts(index)) == 6


def test_ids_may_hold_quotes_sql_and_any_script(tmp_path: Path) -> None:
    ids = ["'; DROP TABLE docs; --", '"', "\\", "ключ", "鍵 1", "😀", "[1]", "%", "?", "null"]
    index = made(tmp_path / "odd")
    index.add([doc(id, "ant") for id in ids])
    assert index.search("ant", 100).ids == tuple(sorted(ids))
    assert index.delete(ids[:3]) == 3
    assert set(texts(index)) == set(ids[3:])


# Document frequencies


def test_document_frequencies_follow_adds_replacements_and_deletes(tmp_path: Path) -> None:
    index = made(tmp_path / "df")
    index.add([doc("1", "ant"), doc("2", "ant"), doc("3", "bee")])

    def idf_of_ant() -> float:
        return index.explain("ant", "1").terms[0].query_weight

    assert idf_of_ant() == pytest.approx(math.log(1 + 1.5 / 2.5))  # 2 of 3
    index.add([doc("4", "ant"), doc("5", "cat")])
    assert idf_of_ant() == pytest.approx(math.log(1 + 2.5 / 3.5))  # 3 of 5
    index.add([doc("2", "cat cat")])
    assert idf_of_ant() == pytest.approx(math.log(1 + 3.5 / 2.5))  # 2 of 5
    index.delete(["3", "4"])
    assert idf_of_ant() == pytest.approx(math.log(1 + 2.5 / 1.5))  # 1 of 3
    index.merge()
    assert idf_of_ant() == pytest.approx(math.log(1 + 2.5 / 1.5))


def test_words_the_slicing_dropped_count_in_document_frequencies_and_stop_when_deleted(tmp_path: Path) -> None:
    index = made(tmp_path / "one", slices=1)
    index.add([doc("1", "ant"), doc("2", "ant bee bee")])  # of 2 only bee is kept

    def idf_of_ant() -> float:
        return index.explain("ant", "1").terms[0].query_weight

    assert index.search("ant").ids == ("1",)
    assert idf_of_ant() == pytest.approx(math.log(1 + 0.5 / 2.5))  # 2 of 2
    index.add([doc("3", "cat"), doc("2", "cat")])
    assert idf_of_ant() == pytest.approx(math.log(1 + 2.5 / 1.5))  # 1 of 3
    index.merge()
    assert idf_of_ant() == pytest.approx(math.log(1 + 2.5 / 1.5))


# Merging


def test_merge_rewrites_small_and_much_deleted_segments_and_says_how_many(index: Index) -> None:
    before = texts(index)
    assert index.merge() == 2  # those of one document; the full one stays
    assert index.info()["segments"] == 2
    assert texts(index) == before

    index.delete(["4"])  # a quarter of the full one
    assert index.merge() == 1
    assert texts(index) == {id: text for id, text in before.items() if id != "4"}
    assert index.info()["deleted"] == 0


def test_a_merge_of_nothing_is_none_and_makes_no_commit(index: Index) -> None:
    index.merge()
    before, commit = index.info(), commit_of(index)
    assert (index.merge(), index.merge()) == (0, 0)
    assert index.info() == open_index(index.path).info() == before
    assert commit_of(index) == commit


def test_one_small_segment_has_nothing_to_merge_with_and_stays(tmp_path: Path) -> None:
    index = made(tmp_path / "index")
    index.add([doc("1", "ant")])
    commit = commit_of(index)
    assert (index.merge(), commit_of(index)) == (0, commit)


def test_a_merge_is_one_commit_and_a_second_finds_nothing_to_do(tmp_path: Path) -> None:
    index = made(tmp_path / "ones")
    for n in range(7):
        index.add([doc(str(n), f"ant {WORDS[n]}")])
    assert index.merge() == 7
    assert (index.info()["segments"], index.info()["generation"]) == (2, 8)
    assert index.merge() == 0


def test_an_add_that_makes_the_eighth_small_segment_merges_them_in_a_commit_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("denslice.store.tiers.SEGMENT_DOCS", 100)
    index = made(tmp_path / "index")
    for n in range(7):
        index.add([doc(str(n), "ant")])
    index.add([doc("1", "bee")])  # of the old 1 nothing is left
    assert [index.info()[name] for name in ("segments", "generation")] == [7, 8]
    assert index.add([doc("7", "cat"), doc("8", "cat")]) == 2
    assert [index.info()[name] for name in ("segments", "generation", "deleted")] == [1, 10, 0]
    assert texts(index) == {"0": "ant", "1": "bee", **dict.fromkeys("23456", "ant"), "7": "cat", "8": "cat"}
    assert open_index(index.path).info() == index.info()
    assert stray_files(index.path) == set()


def test_docs_come_in_the_order_they_were_added(index: Index) -> None:
    assert [doc.id for doc in index.docs()] == ["1", "2", "3", "4", "5", "6"]
    index.add([doc("2", "hen"), doc("0", "hen")])
    assert [doc.id for doc in index.docs()] == ["1", "3", "4", "5", "6", "2", "0"]


@pytest.mark.parametrize("slicing", ["stride", "learned", "random", "contiguous"])
@pytest.mark.parametrize("query", ["full", "sliced"])
def test_a_merge_keeps_every_id_and_score_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slicing: str, query: str
) -> None:
    monkeypatch.setattr("denslice.store.tiers.SEGMENT_DOCS", 200)  # four blocks
    monkeypatch.setattr("denslice.index.doc_batches.BATCH", 50)
    rng = np.random.default_rng(5)
    words = [f"w{n}" for n in range(60)]
    index = made(tmp_path / "many", slicing, slices=6, query=query)
    for start in range(0, 360, 60):
        index.add(doc(f"d{n}", " ".join(rng.choice(words, rng.integers(1, 12)))) for n in range(start, start + 60))
        words += [f"new{start + n}" for n in range(20)]
    index.delete([f"d{n}" for n in range(0, 360, 7)])
    asked = [" ".join(rng.choice(words, 5)) for _ in range(10)]
    before = [[pairs(ranking) for ranking in index.search_batch(asked, k)] for k in (3, 1000)]
    why = index.explain(asked[0], before[0][0][0][0])

    assert index.merge() == 6
    assert [[pairs(ranking) for ranking in index.search_batch(asked, k)] for k in (3, 1000)] == before
    assert index.explain(asked[0], before[0][0][0][0]) == why
    assert (index.info()["segments"], index.info()["deleted"]) == (2, 0)
    index.verify()


def test_a_merge_keeps_titles_metadata_and_filterable_fields(tmp_path: Path) -> None:
    held = [
        Doc("1", "ant", "bee", {"year": 1999, "tags": ["x", 1, None], "deep": {"a": [1.5, True]}}),
        Doc("2", "ant", "", {"year": "1999", "lang": "en"}),
        Doc("3", "ant", "cat", {}),
    ]
    index = made(tmp_path / "meta", filterable=["year", "tags"])
    for one in held:
        index.add([one])
    wheres: list[dict[str, Any]] = [{"year": 1999}, {"tags": "x"}, {"lang": "en"}, {"year": {"exists": False}}]
    before = [index.search("ant", where=where).ids for where in wheres]
    assert before == [("1",), ("1",), ("2",), ("3",)]
    assert index.merge() == 3
    assert list(index.docs()) == held
    assert [index.search("ant", where=where).ids for where in wheres] == before


def interrupted(calls: int, real: Callable[..., Any]) -> Callable[..., Any]:
    """The function, raising KeyboardInterrupt in place of its nth call."""
    count = Counter[str]()

    def function(*given: Any, **named: Any) -> Any:
        count["calls"] += 1
        if count["calls"] == calls:
            raise KeyboardInterrupt
        return real(*given, **named)

    return function


@pytest.mark.parametrize(
    ("place", "calls"),
    [
        ("denslice.store.segment.Segment.live_batches", 1),
        ("denslice.store.segment.Segment.live_batches", 2),
        ("denslice.store.docs_sqlite.DocumentsWriter.add", 2),
        ("denslice.store.docs_sqlite.DocumentsWriter.finish", 1),
        ("denslice.store.segment_writer.SegmentWriter.add", 3),
        ("denslice.store.segment_writer.SegmentWriter.finish", 1),
        ("denslice.store.segment_writer.SegmentWriter.finish", 2),
        ("denslice.store.segment_writer.write_container", 1),
        ("denslice.store.segment_writer.write_container", 2),
        ("denslice.store.segment_writer.sync_folder", 2),
        ("denslice.index.writer.Writer.finish", 1),
        ("denslice.index.writer.Path.rename", 1),
        ("denslice.index.writer.Path.rename", 2),
        ("denslice.index.writer.sync_folder", 1),
        ("denslice.store.manifest.write", 1),
        ("denslice.store.manifest.replace_file", 1),
        ("denslice.store.files.Path.replace", 1),
    ],
)
def test_an_interrupted_merge_leaves_the_index_as_it_was_and_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, calls: int
) -> None:
    index = made(tmp_path / "index")
    for n in range(7):
        index.add([doc(str(n), f"ant {WORDS[n]}")])
    before, ranked = index.info(), rankings(index)

    with monkeypatch.context() as patch:
        patch.setattr(place, interrupted(calls, resolve_name(place)))
        with pytest.raises(KeyboardInterrupt):
            index.merge()
    assert stray_files(index.path) <= {manifests.MANIFEST_FILE + NEW}  # which the next commit overwrites
    for one in (index, open_index(index.path)):
        one.verify()
        assert one.info() == before
        assert rankings(one) == ranked

    assert index.merge() == 7
    assert rankings(index) == ranked
    assert stray_files(index.path) == set()


@pytest.mark.parametrize("work", ["add", "delete"])
def test_an_interrupted_add_or_delete_leaves_the_index_as_it_was(
    index: Index, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    before, ranked = index.info(), rankings(index)
    run = {"add": lambda: index.add([doc("3", "yak"), doc("8", "yak")]), "delete": lambda: index.delete(["3", "1"])}
    with monkeypatch.context() as patch:
        patch.setattr("denslice.store.manifest.replace_file", interrupted(1, replace_file))
        with pytest.raises(KeyboardInterrupt):
            run[work]()
    assert index.info() == open_index(index.path).info() == before
    assert rankings(index) == ranked
    run[work]()
    assert "3" in texts(index) or work == "delete"
    assert stray_files(index.path) == set()


@pytest.mark.parametrize("error", [KeyboardInterrupt, partial(OSError, 5, "Input/output error")])
@pytest.mark.parametrize("work", ["add", "delete", "merge"])
def test_an_interrupt_just_after_the_commit_leaves_the_commit_whole(
    index: Index, monkeypatch: pytest.MonkeyPatch, work: str, error: Callable[[], BaseException]
) -> None:
    run: dict[str, Callable[[], object]] = {
        "add": lambda: index.add([doc("3", "yak"), doc("8", "yak")]),
        "delete": lambda: index.delete(["3", "1"]),
        "merge": index.merge,
    }

    def failing(folder: Path) -> None:  # called once the new manifest is in place, to force its name to disk
        raise error()

    with monkeypatch.context() as patch:
        patch.setattr("denslice.store.files.sync_folder", failing)
        with pytest.raises((KeyboardInterrupt, InputError)):
            run[work]()
    now = open_index(index.path)
    now.verify()
    index.refresh()
    assert (rankings(index), texts(index)) == (rankings(now), texts(now))
    run[work]()
    assert stray_files(index.path) == set()


def test_what_a_commit_took_the_place_of_goes_at_once_and_who_reads_it_reads_on(index: Index) -> None:
    index.delete(["3"])
    reader = open_index(index.path)
    ranked, held = rankings(reader), texts(reader)
    changes = (partial(index.delete, ["4"]), partial(index.add, [doc("2", "fox")]), index.merge)
    for change in changes:
        change()
        assert stray_files(index.path) == set()
        assert (rankings(reader), texts(reader)) == (ranked, held)
        reader.verify()


# Moving on


def test_refresh_says_whether_there_was_a_newer_commit(index: Index) -> None:
    reader = open_index(index.path)
    assert reader.refresh() is False
    index.add([doc("7", "ant")])
    assert (reader.refresh(), reader.refresh()) == (True, False)
    index.delete(["7"])
    index.merge()
    assert (reader.refresh(), reader.refresh()) == (True, False)
    assert index.refresh() is False  # it shows its own commits already


def test_a_backup_put_back_in_the_place_of_later_commits_is_shown_by_refresh_and_by_the_next_write(
    index: Index, tmp_path: Path
) -> None:
    index.backup(tmp_path / "backup")
    held = texts(index)
    index.delete(["1", "2"])
    index.add([doc("7", "yak")])
    reader, writer = open_index(index.path), open_index(index.path)
    index.path.rename(tmp_path / "later")
    (tmp_path / "backup").rename(index.path)

    assert (reader.refresh(), reader.refresh()) == (True, False)
    assert texts(reader) == texts(open_index(index.path)) == held
    writer.add([doc("8", "yak")])
    assert texts(writer) == texts(open_index(index.path)) == {**held, "8": "yak"}


def test_another_index_object_sees_commits_only_after_refresh(index: Index) -> None:
    reader = open_index(index.path)
    ranked, held, told = rankings(reader), texts(reader), reader.info()
    index.add([doc("7", "yak"), doc("1", "yak yak")])
    index.delete(["2"])
    index.merge()
    assert (rankings(reader), texts(reader), reader.info()) == (ranked, held, told)
    assert reader.search("yak").ids == ()

    reader.refresh()
    assert (rankings(reader), texts(reader), reader.info()) == (rankings(index), texts(index), index.info())
    assert reader.search("yak").ids == ("1", "7")


def test_a_writer_begins_from_the_last_commit_even_if_it_shows_an_older_one(index: Index) -> None:
    other = open_index(index.path)
    index.add([doc("7", "yak")])
    index.delete(["1"])
    assert other.add([doc("8", "yak")]) == 1
    assert other.search("yak").ids == ("7", "8")
    assert other.get("1") is None


def test_rankings_taken_before_a_merge_still_load_their_texts(index: Index) -> None:
    ranking = index.search("ant bee cat")
    index.add([doc("1", "changed")])
    index.delete(["2", "3"])
    index.merge()
    index.merge()
    expected = [("1", "ant bee"), ("2", "bee cat"), ("3", "cat cat"), ("5", "ant dog elk")]
    assert [(hit.id, hit.text) for hit in ranking] == expected


def test_documents_can_be_read_through_to_the_end_while_the_index_moves_on(index: Index) -> None:
    read = []
    for one in index.docs():
        read.append(one.text)
        index.merge()
        index.delete([one.id])
    assert read == ["ant bee", "bee cat", "cat cat", "dog", "ant dog elk", "elk"]
    assert len(index) == 0


def test_a_run_goes_on_with_its_own_documents_while_the_index_moves_on(index: Index) -> None:
    run = index.rank([Query(str(n), "ant bee cat") for n in range(3)])
    expected = [("1", "ant bee"), ("2", "bee cat"), ("3", "cat cat"), ("5", "ant dog elk")]
    assert [(hit.id, hit.text) for hit in next(run)] == expected
    index.add([doc("1", "changed"), doc("9", "changed")])
    index.delete(["2", "3"])
    index.merge()
    for ranking in run:  # of the batch that was searched before
        assert list(ranking.ids) == [id for id, _ in expected]
        assert [(hit.id, hit.text) for hit in ranking] == expected


# Laws


def plain_bm25(docs: Mapping[str, str], text: str) -> dict[str, float]:
    """The scores of documents that have a word of the text, by BM25's definition, weights rounded to float16."""
    counts = {id: Counter(held.split()) for id, held in docs.items()}
    scores = dict.fromkeys(docs, 0.0)
    for word in text.split():
        df = sum(word in count for count in counts.values())
        idf = math.log(1 + (len(docs) - df + 0.5) / (df + 0.5))
        for id, count in counts.items():
            norm = K1 * (1 - B + B * count.total() / LENGTH)
            scores[id] += idf * float(np.float16(count[word] / (count[word] + norm)))
    return {id: score for id, score in scores.items() if score > 0}


def assert_same(found: Pairs, expected: Mapping[str, float]) -> None:
    """The same documents with scores equal to 1e-6, best first, equal ones by id."""
    assert dict(found) == pytest.approx(expected, rel=1e-6)
    assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))
    assert len(found) == len(expected)


def apply(index: Index, docs: dict[str, str], operation: tuple[str, Any]) -> None:
    """Does one thing to the index, and to the documents it should hold."""
    name, given = operation
    if name == "add":
        assert index.add([doc(id, text) for id, text in given.items()]) == len(given)
        docs.update(given)
    elif name == "delete":
        assert index.delete(given) == len([docs.pop(id) for id in set(given) if id in docs])
    else:
        segments = index.info()["segments"]
        assert 0 <= index.merge() <= segments


IDS = st.sampled_from([f"d{n}" for n in range(12)])
TEXTS = st.lists(st.sampled_from(WORDS), min_size=0, max_size=6).map(" ".join)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.dictionaries(IDS, TEXTS, min_size=1, max_size=7)),
        st.tuples(st.just("delete"), st.lists(IDS, min_size=1, max_size=6)),
        st.tuples(st.just("merge"), st.none()),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=30, deadline=None)
@given(OPERATIONS, st.sampled_from(["stride", "learned", "random"]), st.sampled_from([2, 8]))
def test_whatever_it_lived_through_an_index_scores_as_the_definition_and_as_a_new_one(
    operations: Sequence[tuple[str, Any]], slicing: str, fanout: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr("denslice.store.tiers.FANOUT", fanout)
        index, docs = made(Path(folder, "old"), slicing), dict[str, str]()
        for operation in operations:
            apply(index, docs, operation)
            for text in QUESTIONS:
                assert_same(pairs(index.search(text, 100)), plain_bm25(docs, text))
        assert texts(index) == docs

        new = made(Path(folder, "new"), slicing)
        new.add([doc(id, text) for id, text in docs.items()])
        for text in QUESTIONS:
            assert_same(pairs(index.search(text, 100)), dict(pairs(new.search(text, 100))))
            assert index.search(text, 2).ids == index.search(text, 100).ids[:2]
        before = rankings(index)
        index.merge()
        assert rankings(index) == before
        index.verify()
        assert stray_files(index.path) == set()


@settings(max_examples=15, deadline=None)
@given(OPERATIONS, st.sampled_from([1, 2, 5]), st.sampled_from(["full", "sliced"]))
def test_a_merge_changes_no_ranking_where_the_slicing_drops_words(
    operations: Sequence[tuple[str, Any]], slices: int, query: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index, docs = made(Path(folder, "index"), slices=slices, query=query), dict[str, str]()
        for operation in operations:
            before = rankings(index)
            apply(index, docs, operation)
            assert operation[0] != "merge" or rankings(index) == before
        before = rankings(index)
        index.merge()
        assert rankings(index) == before
        assert texts(index) == docs
