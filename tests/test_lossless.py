"""An index without slices: documents keep every token, however many, and stay whole through every change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from denslice import Index, IndexFormatError, open_index
from denslice.index.upgrade import upgrade
from denslice.store import manifest as manifests
from denslice.store.folder import Folder
from denslice.store.snapshot import Snapshot

PLAIN = {"language": "none", "stop_words": [], "average_length": 10.0}
MANY = [f"word{number}" for number in range(2_000)]


def made(path: Path, **settings: Any) -> Index:
    return Index.create(path, "bm25", options=PLAIN, **settings)


def doc(id: str, words: list[str]) -> dict[str, str]:
    return {"id": id, "text": " ".join(words)}


def found(index: Index, words: list[str]) -> set[tuple[str, ...]]:
    """The ids that each word finds."""
    return {tuple(sorted(ranking.ids)) for ranking in index.search_batch(words)}


def test_a_document_of_two_thousand_words_is_found_by_every_one_of_them(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")
    index.add([doc("long", MANY), doc("other", ["another"])])
    assert found(index, MANY) == {("long",)}
    assert index.info()["weights"] == 2_001
    assert index.explain(" ".join(MANY), "long").lost == ()
    assert len(index.explain(" ".join(MANY), "long").terms) == 2_000


def test_with_slices_the_same_document_is_not_found_by_every_word(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx", slices=768)
    index.add([doc("long", MANY)])
    why = index.explain(" ".join(MANY), "long")
    assert (len(why.terms), len(why.lost)) == (768, 2_000 - 768)


def test_words_that_come_with_later_documents_are_found(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")
    index.add([doc("first", MANY[:10])])
    index.add([doc("second", MANY[5:1_500])])
    index.add([doc("third", MANY[1_400:])])
    assert found(index, MANY[:5]) == {("first",)}
    assert found(index, MANY[5:10]) == {("first", "second")}
    assert found(index, MANY[10:1_400]) == {("second",)}
    assert found(index, MANY[1_500:]) == {("third",)}


def test_an_index_opened_again_and_one_that_is_merged_find_the_same(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")
    for number in range(5):
        index.add([doc(f"d{number}", MANY[number * 300 : number * 300 + 900])])
    index.delete(["d3"])
    before = index.search_batch(MANY, 10)
    assert open_index(index.path).search_batch(MANY, 10) == before
    assert index.merge() == 4
    assert index.search_batch(MANY, 10) == before
    assert open_index(index.path).search_batch(MANY, 10) == before
    index.verify()


def test_two_writers_that_overlap_both_keep_every_word(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")

    def slowly() -> Iterator[dict[str, str]]:
        yield doc("slow", MANY[500:])
        open_index(index.path).add([doc("quick", MANY[:1_200])])

    assert index.add(slowly()) == 1
    assert found(index, MANY[:500]) == {("quick",)}
    assert found(index, MANY[500:1_200]) == {("quick", "slow")}
    assert found(index, MANY[1_200:]) == {("slow",)}
    assert found(open_index(index.path), MANY[1_200:]) == {("slow",)}


def test_there_is_no_slicing_to_decide_and_no_file_of_it(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")
    index.add([doc("1", MANY[:3])])
    entry = manifests.read(Folder(index.path)).slicing
    assert (entry.kind, entry.slices, entry.vocab, entry.places) == (None, None, None, None)
    assert Snapshot(index.path).slicing is None
    assert len(list((index.path / "vocabulary").iterdir())) == 1  # the words


def test_no_sample_is_gathered_before_the_first_document_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("denslice.index.doc_batches.BATCH", 1)
    index, read, stored = made(tmp_path / "my.idx"), list[str](), list[int]()

    def docs() -> Iterator[dict[str, str]]:
        for id in ("1", "2"):
            read.append(id)
            yield doc(id, MANY[:3])

    monkeypatch.setattr("denslice.index.writer.Writer._store", lambda *_: stored.append(len(read)))
    index.add(docs())
    assert stored == [1, 2]


def test_tokens_below_skip_are_left_out(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "vectors", vocab=4, skip=2)
    index.add_vectors(["a"], [[1, 2, 3, 4]])
    why = index.explain_vectors([[1, 1, 1, 1]], "a")
    assert (why.score, [term.token for term in why.terms], why.lost) == (7, ["3", "2"], ())


@pytest.mark.parametrize("slices", [None, 768])
def test_only_an_index_without_slices_asks_for_a_reader_that_knows_it(tmp_path: Path, slices: int | None) -> None:
    index = made(tmp_path / "my.idx", slices=slices)
    index.add([doc("1", MANY[:3])])
    index.merge()
    stored = json.loads((index.path / "manifest.json").read_bytes())["index"]
    assert ("lossless" in stored["needs"]) == (slices is None)
    assert stored["slicing"]["slices"] == slices


def test_an_older_version_refuses_an_index_without_slices_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = made(tmp_path / "my.idx")
    monkeypatch.setattr("denslice.store.manifest.FEATURES", frozenset[str]())
    with pytest.raises(IndexFormatError, match="needs lossless, which this version lacks; upgrade denslice"):
        open_index(index.path)


def test_an_upgrade_to_the_embedded_model_as_it_is_now_keeps_every_token(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx")
    index.add([doc("long", MANY)])
    manifest = manifests.read(Folder(index.path))
    options = {**manifest.encoder_options, "fingerprint": "of other weights"}
    manifests.write(index.path, manifest.next_generation(encoder_options=options))
    assert "encoded again" in upgrade(index.path).reason
    upgraded = open_index(index.path)
    assert (upgraded.info()["slices"], upgraded.info()["weights"]) == (None, index.info()["weights"])
    assert "lossless" in manifests.read(Folder(index.path)).needs


@pytest.mark.parametrize("encoder", ["bm25", "mini"])
def test_an_index_without_documents_finds_nothing(tmp_path: Path, encoder: str) -> None:
    assert Index.create(tmp_path / "my.idx", encoder).search("word1 word2").ids == ()
