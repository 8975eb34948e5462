"""The Haystack adapter: the standard tests that Haystack has for document stores, and what they leave open."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapted import BOOK, CATS, NOT_A_K, NOTE, check_passages, index_of

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read as it is imported: tests tell nobody anything
pytest.importorskip("haystack", reason="the Haystack adapter needs the extra haystack")

from haystack import Document, Pipeline
from haystack.components.writers import DocumentWriter
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DocumentStore, DuplicatePolicy
from haystack.errors import FilterError
from haystack.testing.document_store import DeleteAllTest, DeleteByFilterTest, DocumentStoreBaseTests
from haystack.utils.filters import document_matches_filter

from denslice import Index, InputError
from denslice.adapters.haystack import DensliceDocumentStore, DensliceRetriever, where_of

FILTERS: list[dict[str, Any]] = [
    {"field": "meta.year", "operator": "==", "value": 2020},
    {"field": "year", "operator": "!=", "value": 2020},
    {"field": "meta.year", "operator": "==", "value": None},
    {"field": "meta.year", "operator": "!=", "value": None},
    {"field": "meta.year", "operator": ">=", "value": 2021},
    {"field": "meta.year", "operator": "<", "value": 2021},
    {"field": "meta.year", "operator": ">", "value": None},
    {"field": "meta.lang", "operator": "in", "value": ["de", "fr"]},
    {"field": "meta.lang", "operator": "not in", "value": ["de", "fr"]},
    {"field": "meta.year", "operator": "in", "value": [2020, None]},
    {"field": "meta.year", "operator": "not in", "value": [2020, None]},
    {"field": "id", "operator": "in", "value": ["cats", "owls"]},
    {
        "operator": "AND",
        "conditions": [
            {"field": "meta.lang", "operator": "==", "value": "en"},
            {"operator": "NOT", "conditions": [{"field": "meta.year", "operator": "==", "value": 2020}]},
        ],
    },
    {
        "operator": "OR",
        "conditions": [
            {"field": "meta.year", "operator": ">", "value": 2020},
            {"field": "meta.year", "operator": "<=", "value": 2020},
        ],
    },
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return index_of(CATS, tmp_path_factory.mktemp("haystack") / "c.idx")


class TestStandardDocumentStore(DocumentStoreBaseTests, DeleteAllTest, DeleteByFilterTest):
    @pytest.fixture
    def document_store(self, tmp_path: Path) -> DensliceDocumentStore:
        return DensliceDocumentStore(str(tmp_path / "d.idx"), encoder="bm25")

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        """The index has vectors of its own, and does not keep those of documents."""
        without = [Document(id=one.id, content=one.content, meta=one.meta) for one in expected]
        assert received == without

    def test_write_documents(self, document_store: DocumentStore) -> None:
        """Which policy is the default is up to each store."""
        twice = [Document(id="1", content="One."), Document(id="1", content="Two.")]
        with pytest.raises(DuplicateDocumentError, match="there is a document with the id '1' already"):
            document_store.write_documents(twice)
        assert document_store.write_documents(twice[:1]) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents(twice[1:])
        assert document_store.write_documents(twice, DuplicatePolicy.SKIP) == 0
        assert document_store.write_documents(twice, DuplicatePolicy.OVERWRITE) == 1
        self.assert_documents_are_equal(document_store.filter_documents(), twice[1:])


# --- the document store


def test_a_store_is_written_read_and_searched_by_pipelines_and_kept_in_their_files(tmp_path: Path) -> None:
    store = DensliceDocumentStore(str(tmp_path / "p.idx"), encoder="bm25", filterable=["year"], language="en")
    assert store.count_documents() == 0
    writing, reading = Pipeline(), Pipeline()
    writing.add_component("writer", DocumentWriter(store))
    reading.add_component("retriever", DensliceRetriever(store, top_k=1, group=True))
    writing, reading = (Pipeline.loads(one.dumps(), unsafe=True) for one in (writing, reading))
    with pytest.raises(InputError, match=r"p\.idx: there is no index; write documents to the store first"):
        DensliceRetriever(store).run("cats")
    for day in ("One", "Two"):  # the second is seen by what was opened before
        document = Document(id=day, content=f"{day} cat.", meta={"title": f"Day {day}", "year": 2020, "of": {"a": [1]}})
        writing.run({"writer": {"documents": [document]}})
        [found] = reading.run({"retriever": {"query": f"day {day}"}})["retriever"]["documents"]
        assert (found.id, found.content, found.meta["title"]) == (day, document.content, f"Day {day}")
        assert document in store.filter_documents()
    info = Index.open(store.folder).info()
    assert (info.encoder, info.filterable) == ("bm25", ("year",))
    assert [hit.id for hit in Index.open(store.folder).search("title:two")] == ["Two"]


def test_a_document_without_a_text_cannot_be_written(tmp_path: Path) -> None:
    store = DensliceDocumentStore(str(tmp_path / "t.idx"), encoder="bm25")
    with pytest.raises(InputError, match="document '1' has no text"):
        store.write_documents([Document(id="1", meta={"year": 2020})])
    assert not (tmp_path / "t.idx").exists()


def test_a_store_without_a_folder_is_empty(tmp_path: Path) -> None:
    store = DensliceDocumentStore(str(tmp_path / "none.idx"))
    store.delete_documents(["1"])
    store.delete_all_documents()
    assert (store.count_documents(), store.filter_documents()) == (0, [])
    assert not (tmp_path / "none.idx").exists()


# --- the retriever


@pytest.mark.parametrize("k", NOT_A_K, ids=repr)
def test_a_component_refuses_what_is_no_number_of_documents(index: Index, k: Any) -> None:
    with pytest.raises(InputError, match="top_k must be a whole number of at least 1"):
        DensliceRetriever(str(index.path), top_k=k)
    with pytest.raises(InputError, match="top_k must be a whole number of at least 1"):
        DensliceRetriever(str(index.path)).run("cats", top_k=k)


def test_a_component_keeps_numpys_numbers_and_dates_in_its_file(index: Index) -> None:
    filters = {"field": "year", "operator": "in", "value": [np.int64(2021), date(2020, 1, 1)]}
    top_k: Any = np.int64(2)
    pipeline = Pipeline()
    pipeline.add_component("retriever", DensliceRetriever(str(index.path), top_k=top_k, filters=filters))
    again = Pipeline.loads(pipeline.dumps(), unsafe=True)
    assert [doc.id for doc in again.run({"retriever": {"query": "cats"}})["retriever"]["documents"]] == ["dogs"]
    everything = again.run({"retriever": {"query": "cats", "filters": {}}})["retriever"]["documents"]
    assert [doc.id for doc in everything] == list(index.search("cats", 2).ids)
    with pytest.raises(InputError, match="which JSON cannot hold"):
        DensliceRetriever(str(index.path), filters={"field": "year", "operator": "==", "value": float("nan")})


def test_a_component_runs_in_a_pipeline_and_is_kept_in_its_file(index: Index) -> None:
    pipeline = Pipeline()
    pipeline.add_component("retriever", DensliceRetriever(str(index.path), top_k=2))
    again = Pipeline.loads(pipeline.dumps(), unsafe=True)
    for one in (pipeline, again):
        found = one.run({"retriever": {"query": "sleeping cats"}})["retriever"]["documents"]
        hits = list(index.search("sleeping cats", 2))
        assert [(doc.id, doc.content, doc.score) for doc in found] == [(hit.id, hit.text, hit.score) for hit in hits]
        meta = found[0].meta
        assert (meta["year"], meta["lang"], meta["title"], meta["document_id"]) == (2020, "en", "On cats", "cats")
    one_only = pipeline.run({"retriever": {"query": "cats", "top_k": 1}})["retriever"]["documents"]
    assert len(one_only) == 1


def test_a_component_returns_passages_with_their_places(tmp_path: Path) -> None:
    library = index_of([BOOK, NOTE], tmp_path / "l.idx")
    found = DensliceRetriever(str(library.path)).run("cat sofa")["documents"]
    hits = list(library.search("cat sofa", group=False))
    assert [(doc.content, doc.score) for doc in found] == [(hit.text, hit.score) for hit in hits]
    check_passages({doc.id: (doc.content, doc.meta) for doc in found})
    pipeline = Pipeline()
    pipeline.add_component("retriever", DensliceRetriever(str(library.path), group=True))
    again = Pipeline.loads(pipeline.dumps(), unsafe=True)
    docs = again.run({"retriever": {"query": "cat sofa"}})["retriever"]["documents"]
    assert {doc.id: doc.content for doc in docs} == {"book": BOOK["text"], "note": "A sofa."}


# --- filters


@pytest.mark.parametrize("filters", FILTERS, ids=range(len(FILTERS)))
def test_filters_mean_what_they_mean_in_haystack(index: Index, filters: dict[str, Any]) -> None:
    store = DensliceDocumentStore(str(index.path))
    named = [Document(id=doc["id"], meta={name: doc[name] for name in ("year", "lang") if name in doc}) for doc in CATS]
    expected = {doc.id for doc in named if document_matches_filter(filters=filters, document=doc)}
    found = DensliceRetriever(store).run("cats", filters=filters)["documents"]
    assert {doc.id for doc in found} == expected
    assert {doc.id for doc in store.filter_documents(filters)} == expected


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ({"field": "meta.year", "operator": "like", "value": 1}, "unknown operator 'like'"),
        ({"field": "meta.year", "operator": "AND", "value": 1}, "unknown operator 'AND'"),
        ({"operator": "XOR", "conditions": []}, "unknown operator 'XOR'"),
        ({"field": "meta.year", "operator": ">", "value": True}, "takes a number or a date in ISO 8601, not True"),
        ({"field": "content", "operator": "==", "value": "a"}, "the field 'content', expected `id`"),
        ({"field": "meta.id", "operator": "==", "value": "a"}, "the field 'meta.id', expected `id`"),
    ],
)
def test_a_filter_that_cannot_be_used_is_told(filters: dict[str, Any], told: str) -> None:
    with pytest.raises(FilterError, match=told):
        where_of(filters)
