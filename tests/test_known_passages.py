"""A document that changes: only its new passages are encoded, and it is stored as if all of it were encoded."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from denslice import Doc, Index, InputError
from denslice.corpus.passages import cut
from denslice.grouping import documents_of
from denslice.index.doc_batches import CutDoc, cut_docs, encode_batches
from denslice.index.writer import Writer
from denslice.records import Place
from denslice.store.segment import Segment
from denslice.vectors import Encoded, Passages, lexical_csr

HERON = "A heron stood in the canal behind the brewery."
LAMP = "The lighthouse was painted green in 1911."
GLASS = "Nobody could repair the old telescope."
BREAD = "Knead the dough, let it rise, then bake the loaf."
CELL = "Mitochondria make the energy that a cell lives on."
SENTENCES = (HERON, LAMP, GLASS, BREAD, CELL)
QUESTIONS = ("green lighthouse", "energy of a cell", "broken instrument", "heron")
Counts = tuple[int, int]  # of passages that were encoded and reused


def parts(id: str, *sentences: str, title: str = "", heading: str = "") -> CutDoc:
    """A document whose sentences are its passages, under a heading."""
    places, start = [], 0
    for sentence in sentences:
        places.append(Place(start, start + len(sentence), heading))
        start += len(sentence) + 1
    return CutDoc(Doc(id, " ".join(sentences), title), places)


def made(folder: Path, encoder: str = "mini", slices: int | None = None) -> Index:
    return Index.create(folder, encoder, slices=slices)


def add(index: Index, *docs: CutDoc, before: Mapping[str, str] | None = None) -> Counts:
    """Adds documents with what is known of them."""
    found: list[Counts] = []

    def work(writer: Writer) -> int:
        added = writer.add_cut(docs, before or {})
        found.append((writer.encoded_passages, writer.reused_passages))
        return added

    assert index.commit_only(work, 10.0) == len(docs)
    return found[0]


def add_whole(index: Index, *docs: CutDoc, change: Callable[[Encoded], Encoded] = lambda encoded: encoded) -> None:
    """Adds documents all of whose passages are encoded."""

    def work(writer: Writer) -> int:
        batches = encode_batches(docs, writer._encoder())
        return writer.add_encoded((some, change(encoded)) for some, encoded in batches)

    index.commit_only(work, 10.0)


def without_weights(encoded: Encoded) -> Encoded:
    """Documents as they were before the weights of passages were stored."""
    assert encoded.passages is not None
    return replace(encoded, passages=encoded.passages.unweighed())


def checksums(index: Index) -> list[dict[str, str]]:
    """The checksum of each array of each segment."""
    containers = [one for segment in index.reader.snapshot.segments for one in (segment.words, segment.vectors) if one]
    return [{name: section.sha256 for name, section in one.sections.items()} for one in containers]


def places(index: Index) -> dict[str, list[Place] | None]:
    return {doc.id: index.places(doc.id) for doc in index.docs()}


def scores(index: Index) -> list[list[tuple[str, float, float]]]:
    return [[(hit.id, hit.lexical, hit.dense) for hit in index.search(text, 100)] for text in QUESTIONS]


def by_word(index: Index) -> dict[str, tuple[dict[str, float], list[dict[str, float]], list[list[float]]]]:
    """The weights of each document, those of its passages, and their dense vectors."""
    found = {}
    for segment in index.reader.snapshot.segments:
        for batch in segment.live_batches(1):
            passages = batch.passages or Passages.single(1)
            own = [named(index, passages.tokens, row) for row in range(passages.tokens.shape[0])]
            assert batch.dense is not None
            found[batch.docs[0].id] = named(index, batch.kept, 0), own, batch.dense.tolist()
    return found


def named(index: Index, weights: object, row: int) -> dict[str, float]:
    one = lexical_csr(weights)[[row]]
    words = index.reader.snapshot.words
    return {words.word(int(id)): float(weight) for id, weight in zip(one.indices, one.data, strict=True)}


def has_weights(index: Index) -> list[bool]:
    return ["passage_weights" in segment.words for segment in index.reader.snapshot.segments]


# --- the law


LISTS = st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=5)


@given(LISTS, LISTS, st.sampled_from(["", "Notes"]))
@settings(max_examples=12, deadline=None)
def test_a_changed_document_is_stored_as_if_all_of_it_were_encoded(
    old: Sequence[str], new: Sequence[str], title: str
) -> None:
    beside, before, after = parts("other", LAMP, BREAD), parts("1", *old, title=title), parts("1", *new, title=title)
    with tempfile.TemporaryDirectory() as folder:
        reusing, whole, fresh = (made(Path(folder, name)) for name in ("reusing", "whole", "fresh"))
        for index in (reusing, whole):
            add(index, before, beside)
        fresh_sentences = [sentence for sentence in new if sentence not in old]
        assert add(reusing, after) == (len(fresh_sentences), len(new) - len(fresh_sentences))
        add_whole(whole, after)
        add_whole(fresh, after, beside)
        assert checksums(reusing) == checksums(whole)
        assert (places(reusing), scores(reusing)) == (places(whole), scores(whole))
        assert by_word(reusing) == by_word(fresh)
        reusing.verify()


def test_an_edit_within_a_long_text_encodes_the_passages_around_it(tmp_path: Path) -> None:
    paragraphs = [f"{' '.join(SENTENCES)} Note {n} of the committee, read and agreed.\n\n" * 2 for n in range(12)]
    old = Doc("log", "".join(paragraphs), "The log")
    new = replace(old, text=old.text.replace("Note 5 of", "Remark 5 of"))
    reusing, whole = made(tmp_path / "reusing"), made(tmp_path / "whole")
    for index in (reusing, whole):
        add(index, *cut_docs([old], do_cut=True))
    encoded, reused = add(reusing, *cut_docs([new], do_cut=True))
    add_whole(whole, *cut_docs([new], do_cut=True))
    assert 0 < encoded < reused == len(cut(new.text)) - encoded
    assert checksums(reusing) == checksums(whole)


# --- what is known


def test_a_document_that_is_added_again_unchanged_is_not_encoded(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")
    assert add(index, parts("1", HERON, LAMP), parts("2", GLASS)) == (3, 0)
    assert add(index, parts("1", HERON, LAMP), parts("2", GLASS)) == (0, 3)


def test_a_document_with_another_id_is_made_of_the_one_that_is_named(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")
    add(index, parts("old.txt", HERON, LAMP), parts("copied.txt", HERON))
    assert add(index, parts("new.txt", LAMP, HERON)) == (2, 0)
    before = {"newer.txt": "old.txt", "copy.txt": "copied.txt", "lost.txt": "deleted.txt"}
    docs = (parts("newer.txt", LAMP, HERON), parts("copy.txt", GLASS, HERON), parts("lost.txt", LAMP))
    assert add(index, *docs, before=before) == (2, 3)
    assert {doc.id for doc in index.docs()} == {"old.txt", "copied.txt", "new.txt", *before}


def test_a_document_becomes_a_passage_and_a_passage_a_document(tmp_path: Path) -> None:
    reusing, whole = made(tmp_path / "reusing"), made(tmp_path / "whole")
    for index in (reusing, whole):
        add(index, parts("1", HERON), parts("2", LAMP, GLASS))
    assert add(reusing, parts("1", BREAD, HERON), parts("2", GLASS)) == (1, 2)
    add_whole(whole, parts("1", BREAD, HERON), parts("2", GLASS))
    assert checksums(reusing) == checksums(whole)


def test_passages_under_another_title_are_encoded_again(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")
    add(index, parts("1", HERON, LAMP, title="Birds"))
    assert add(index, parts("1", HERON, LAMP, title="Canals")) == (2, 0)


def test_passages_under_another_heading_are_encoded_again(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")
    add(index, parts("1", HERON, LAMP, heading="Birds"))
    assert add(index, parts("1", HERON, LAMP, heading="Birds")) == (0, 2)
    assert add(index, parts("1", HERON, LAMP, heading="Canals")) == (2, 0)


def test_a_passage_without_words_is_encoded_again(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")
    add(index, parts("1", HERON, "?!"))
    assert add(index, parts("1", "?!", HERON)) == (1, 1)


def test_passages_of_deleted_documents_are_not_known(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")
    add(index, parts("1", HERON, LAMP), parts("2", GLASS))
    index.delete(["1"])
    assert add(index, parts("1", HERON, LAMP)) == (2, 0)


@pytest.mark.parametrize(("encoder", "slices"), [("bm25", None), ("mini", 64)])
def test_nothing_is_known_without_a_model_or_with_slices(tmp_path: Path, encoder: str, slices: int | None) -> None:
    index = made(tmp_path / "my.idx", encoder, slices)
    add(index, parts("1", HERON, LAMP))
    assert has_weights(index) == [slices is None]
    assert add(index, parts("1", HERON, LAMP)) == (2, 0)


def test_documents_are_checked_as_those_of_add_are(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx", "bm25")
    with pytest.raises(InputError, match=r"document 1 \(id ' '\): the id is empty"):
        add(index, parts("1", HERON), parts(" ", LAMP))
    with pytest.raises(InputError, match="'1' is given twice"):
        add(index, parts("1", HERON), parts("1", LAMP))
    assert len(index) == 0


# --- what stays known


def test_passages_stay_known_after_merges_updates_and_backups(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")
    add(index, parts("1", HERON, LAMP))
    add(index, parts("2", GLASS, BREAD), parts("3", CELL))
    index.merge()
    index.update("1", {"year": 1911})
    index.backup(tmp_path / "copy.idx")
    copy = Index.open(tmp_path / "copy.idx")
    docs = parts("1", HERON, LAMP), parts("2", BREAD, GLASS), parts("3", CELL, HERON)
    assert add(copy, *docs) == (1, 5)
    fresh = made(tmp_path / "fresh")
    add(fresh, *docs)
    assert by_word(copy) == by_word(fresh)


def test_documents_of_earlier_versions_are_encoded_once_and_then_known(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")
    add_whole(index, parts("1", HERON, LAMP), parts("2", GLASS), change=without_weights)
    assert has_weights(index) == [False]
    assert add(index, parts("1", HERON, LAMP), parts("2", GLASS)) == (2, 1)
    assert add(index, parts("1", HERON, LAMP), parts("2", GLASS)) == (0, 3)


def test_a_merge_with_documents_of_earlier_versions_keeps_what_is_known(tmp_path: Path) -> None:
    index = made(tmp_path / "my.idx")
    add_whole(index, parts("1", HERON, LAMP), change=without_weights)
    add(index, parts("2", GLASS, BREAD))
    before = scores(index)
    index.merge()
    assert (has_weights(index), scores(index)) == ([True], before)
    assert add(index, parts("1", HERON, LAMP), parts("2", GLASS, BREAD)) == (2, 2)


def test_a_commit_in_between_changes_nothing_that_is_reused(tmp_path: Path) -> None:
    index, fresh = made(tmp_path / "my.idx"), made(tmp_path / "fresh")
    add(index, parts("1", HERON, LAMP))
    docs = parts("1", HERON, GLASS, LAMP), parts("2", CELL, BREAD)

    def work(writer: Writer) -> int:
        added = writer.add_cut(docs[:1], {})
        assert (writer.encoded_passages, writer.reused_passages) == (1, 2)
        with Index.open(index.path) as other:  # its new words take the ids of this writer's
            add(other, docs[1], parts("1", BREAD))
        return added

    index.commit_only(work, 10.0)
    add(fresh, *docs)
    assert by_word(index) == by_word(fresh)
    assert add(index, *docs) == (0, 5)


# --- what is stored


def ready(folder: Path, weights: Sequence[Sequence[float]], passages: int, skip: int = 0) -> Segment:
    """A segment of documents with so many passages each, whose weights are given."""
    index = Index.create(folder / "my.idx", "vectors", vocab=4, skip=skip)
    rows = lexical_csr(np.array(weights, np.float32))
    docs = [Doc(str(at), "x" * passages) for at in range(rows.shape[0] // passages)]
    cut_alike = [[Place(at, at + 1) for at in range(passages)]] * len(docs)
    index.commit_only(lambda writer: writer.add_encoded([(docs, documents_of(Encoded(rows), cut_alike))]), 10.0)
    return index.reader.snapshot.segments[0]


def stored_weights(segment: Segment) -> list[list[float]]:
    """The weights of passages as the segment returns them: of 0 beside tokens that are there, if they are not known."""
    (batch,) = segment.live_batches(100)
    assert batch.passages is not None
    tokens = batch.passages.tokens
    return [tokens.data[start:end].tolist() for start, end in zip(tokens.indptr, tokens.indptr[1:], strict=False)]


def test_the_weights_of_passages_are_stored_in_float16(tmp_path: Path) -> None:
    segment = ready(tmp_path, [[0.1, 0.0, 0.5, 0.0], [0.0, 0.7, 0.3, 0.0]], passages=2)
    assert stored_weights(segment) == np.array([[0.1, 0.5], [0.7, 0.3]], np.float16).tolist()
    assert segment.words.array("passage_weights", "float16", 4).dtype == np.float16


def test_a_passage_with_a_weight_too_small_for_its_document_is_not_known(tmp_path: Path) -> None:
    smallest = 2.0**-24  # of float16: its mean over 200 passages is less than half of it
    rows = [[0.5, smallest, 0.0, 0.0], *[[0.25, 0.0, 0.0, 0.0]] * 199]
    weights = stored_weights(ready(tmp_path, rows, passages=200))
    assert weights[:2] == [[0.0], [0.25]]


def test_tokens_that_no_document_keeps_leave_a_passage_known(tmp_path: Path) -> None:
    segment = ready(tmp_path, [[9.0, 0.5, 0.0, 0.0], [9.0, 0.0, 0.25, 0.0]], passages=2, skip=1)
    assert stored_weights(segment) == [[0.5], [0.25]]
