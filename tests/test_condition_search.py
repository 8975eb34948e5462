"""Tests of search/condition_search.py: however few documents are read at a time, the hits are those of reading all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import denslice as ds
from denslice.analysis.analyzer import Analyzer
from denslice.search import condition_rows, condition_search
from denslice.search.conditions import HeldWords, hold_each, holds, in_a_row
from denslice.store.docs_sqlite import Documents

WORDS = ["the", "of", "in", "a", "fox", "Fox,", "wolf", "day", "parseDate", "über", "狐狸"]
PHRASES = [
    "of the",
    "in a",
    "the fox",
    "fox wolf",
    "wolf day",
    "parse date",
    "über the",
    "狐狸",
    "the the of",
    "absent",
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> ds.Index:
    """Documents whose ids and rows have different orders, in two segments, some of them deleted."""
    chance = random.Random(21)
    index = ds.Index.create(tmp_path_factory.mktemp("phrases") / "i", "bm25", language="english")
    docs = [{"id": str(at), "text": " ".join(chance.choices(WORDS, k=chance.randrange(9)))} for at in range(300)]
    index.add(docs[:200])
    index.add(docs[200:])
    index.delete([str(at) for at in range(0, 300, 7)])
    return index


def every_hit(index: ds.Index, text: str, phrase: str) -> list[tuple[str, float]]:
    """All documents that hold the phrase, best first: the definition."""
    analyzer = Analyzer("english")
    test = HeldWords(in_a_row(analyzer.spans(phrase)))
    every = index.search(ds.Query(text=text), k=1_000)
    scores = dict(zip(every.ids, every.scores, strict=True))
    holding = [(doc.id, scores.get(doc.id, 0.0)) for doc in index.docs() if holds(test, doc, analyzer)]
    return sorted(holding, key=lambda hit: (-hit[1], hit[0]))


@settings(max_examples=40, deadline=None)
@given(
    text=st.sampled_from(["", "fox", "wolf day", "the"]),
    phrase=st.sampled_from(PHRASES),
    k=st.sampled_from([1, 2, 10, 300]),
    read=st.sampled_from([1, 3, 256]),
    looked_at=st.sampled_from([0, 6, 40, 4_096]),
    first=st.sampled_from([1, 5, 64]),
)
def test_hits_are_the_best_of_all_that_hold_the_phrase(
    index: ds.Index, text: str, phrase: str, k: int, read: int, looked_at: int, first: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(condition_rows, "READ", read)
        patch.setattr(condition_search, "READ", read)
        patch.setattr(condition_search, "LOOKED_AT", looked_at)
        patch.setattr(condition_search, "FIRST", first)
        patch.setattr(condition_search, "MORE", 2)
        found = index.search(ds.Query(text=text, phrases=[phrase]), k=k)
    assert list(zip(found.ids, found.scores, strict=True)) == every_hit(index, text, phrase)[:k]


def test_few_documents_are_read_if_many_hold_a_phrase_of_stop_words(
    index: ds.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (condition_rows, condition_search):
        monkeypatch.setattr(module, "READ", 8)
    monkeypatch.setattr(condition_search, "FIRST", 1)
    read: list[int] = []

    def texts(documents: Documents, rows: Sequence[int]) -> list[tuple[str, str]]:
        read.extend(rows)
        return [(doc.title, doc.text) for doc in documents.fetch(rows).values()]

    monkeypatch.setattr(Documents, "texts", texts)
    monkeypatch.setattr(condition_search, "LOOKED_AT", 200)
    assert len(index.search('"of the"', k=2)) == 2
    assert 0 < len(read) < len(index) / 2


@given(
    texts=st.lists(st.tuples(*[st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)] * 2), max_size=5),
    phrase=st.sampled_from(PHRASES),
    form=st.sampled_from(["exact", "stemmed", "prefix"]),
    field=st.sampled_from(["", "title"]),
)
def test_many_documents_are_told_what_each_is_told(
    texts: list[tuple[str, str]], phrase: str, form: str, field: str
) -> None:
    analyzer = Analyzer("english")
    test = HeldWords(in_a_row(analyzer.spans(phrase)), form, field)
    expected = [holds(test, ds.Doc("d", text, title), analyzer) for title, text in texts]
    assert hold_each(test, texts, analyzer) == expected


def test_texts_and_ids_are_read_in_their_order(tmp_path: Path) -> None:
    index = ds.Index.create(tmp_path / "i", "bm25")
    index.add([{"id": id, "title": f"T{id}", "text": f"text {id}"} for id in ["b", "é", "a", "10", "9"]])
    (segment,) = index.reader.snapshot.segments
    assert segment.documents.texts([1, 2, 3]) == [("Té", "text é"), ("Ta", "text a"), ("T10", "text 10")]
    assert segment.documents.texts([0, 4]) == [("Tb", "text b"), ("T9", "text 9")]
    assert segment.documents.texts([]) == []
    assert segment.documents.ids_after("", 3) == [("10", 3), ("9", 4), ("a", 2)]
    assert segment.documents.ids_after("a", 3) == [("b", 0), ("é", 1)]
    assert segment.documents.ids_after("é", 3) == []
