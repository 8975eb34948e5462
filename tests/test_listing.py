"""What an index holds, without a search: its documents, and the places of their passages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from denslice import Index, InputError
from denslice.corpus.passages import cut
from denslice.index.listing import ListedDoc
from denslice.index.reader import BATCH
from denslice.records import Doc, Place
from denslice.store.docs_sqlite import Documents

LONG = "The harbour lay quiet under the evening sky and nobody spoke of the storm. " * 30


def test_places_are_those_of_the_passages(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add([{"id": "long", "text": LONG}, {"id": 7, "text": "short"}])
    assert index.places("long") == cut(LONG)
    assert len(cut(LONG)) > 1
    assert index.places(7) == [Place(0, 5)]
    assert index.places("none") is None


def test_a_place_of_an_index_without_long_documents_is_the_whole_text(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add([{"id": "a", "text": "short"}])
    assert index.places("a") == [Place(0, 5)]


def test_documents_are_listed_in_the_order_of_adding_without_those_deleted(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add([{"id": "b", "text": LONG}, {"id": "gone", "text": "x"}, {"id": "a", "title": "A", "text": "nul\0 too"}])
    index.add([{"id": "0", "text": "later"}])
    index.delete(["gone"])
    listed = list(index.list_docs())
    assert listed == [
        ListedDoc("b", "", len(cut(LONG)), len(LONG)),
        ListedDoc("a", "A", 1, 8),
        ListedDoc("0", "", 1, 5),
    ]


def test_a_list_has_only_documents_that_pass_the_filter(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25", filterable=["year"])
    index.add([{"id": str(year), "text": "x", "year": year, "odd": year % 2 == 1} for year in range(2018, 2024)])
    listed = index.list_docs({"year": {"gte": 2020}, "odd": True})
    assert [doc.id for doc in listed] == ["2021", "2023"]
    with pytest.raises(InputError, match="unknown operator"):
        list(index.list_docs({"year": {"near": 2020}}))


def test_a_list_reads_no_more_documents_than_a_batch_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add([{"id": str(number), "text": "x"} for number in range(3 * BATCH)])
    fetched: list[int] = []
    fetch = Documents.fetch

    def counted(self: Documents, rows: Sequence[int]) -> dict[int, Doc]:
        fetched.append(len(rows))
        return fetch(self, rows)

    monkeypatch.setattr(Documents, "fetch", counted)
    listed = index.list_docs()
    assert next(listed).id == "0"
    assert fetched == [BATCH]
    assert len(list(listed)) == 3 * BATCH - 1
