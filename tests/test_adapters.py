"""The adapters, each against the real library it is for."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read as it is imported: tests tell nobody anything

from denslice import Index, InputError

DOCS: list[dict[str, Any]] = [
    {"id": "cats", "title": "On cats", "text": "Cats sleep all day.", "year": 2020, "lang": "en"},
    {"id": "dogs", "text": "Dogs chase cats.", "year": 2021, "lang": "de"},
    {"id": "owls", "text": "Owls and cats see at night.", "lang": "en"},
]
FILTERS: list[dict[str, Any]] = [
    {"field": "meta.year", "operator": "==", "value": 2020},
    {"field": "year", "operator": "!=", "value": 2020},
    {"field": "meta.year", "operator": ">=", "value": 2021},
    {"field": "meta.year", "operator": "<", "value": 2021},
    {"field": "meta.lang", "operator": "in", "value": ["de", "fr"]},
    {"field": "meta.lang", "operator": "not in", "value": ["de", "fr"]},
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
    made = Index.create(tmp_path_factory.mktemp("adapters") / "a.idx", "bm25")
    made.add(DOCS)
    return made


# --- LangChain


def test_a_langchain_retriever_finds_what_the_index_finds(index: Index) -> None:
    pytest.importorskip("langchain_core", reason="the LangChain adapter needs the extra langchain")
    from langchain_core.runnables import RunnableLambda

    from denslice.adapters.langchain import DensliceRetriever

    retriever = DensliceRetriever(index=index, k=2)
    hits = list(index.search("sleeping cats", 2))
    found = retriever.invoke("sleeping cats")
    assert [(doc.id, doc.page_content) for doc in found] == [(hit.id, hit.text) for hit in hits]
    assert found[0].metadata["score"] == hits[0].score
    assert found[0].metadata["year"] == 2020
    assert found[0].metadata["title"] == "On cats"
    filtered = DensliceRetriever(index=index, where={"lang": "de"})
    assert [doc.id for doc in filtered.invoke("cats")] == ["dogs"]
    ids: RunnableLambda[Any, Any] = RunnableLambda(lambda docs: [doc.id for doc in docs])
    chain = retriever | ids
    assert chain.batch(["cats", "owls"]) == [list(index.search(query, 2).ids) for query in ("cats", "owls")]


NOT_A_K = [True, 0, 1.5, "2", float("nan")]


@pytest.mark.parametrize("k", NOT_A_K, ids=repr)
def test_a_langchain_retriever_refuses_what_is_no_number_of_documents(index: Index, k: Any) -> None:
    pytest.importorskip("langchain_core", reason="the LangChain adapter needs the extra langchain")
    from denslice.adapters.langchain import DensliceRetriever

    with pytest.raises(InputError, match="k must be a whole number of at least 1"):
        DensliceRetriever(index=index, k=k)
    with pytest.raises(InputError, match="theta must be a number of 0 or more, not True"):
        DensliceRetriever(index=index, theta=True)
    with pytest.raises(InputError, match="lam must be a number of 0 or more, not nan"):
        DensliceRetriever(index=index, lam=float("nan"))


def test_a_langchain_retriever_takes_numpys_numbers_and_dates(index: Index) -> None:
    pytest.importorskip("langchain_core", reason="the LangChain adapter needs the extra langchain")
    from denslice.adapters.langchain import DensliceRetriever

    where = {"or": [{"year": np.int64(2020)}, {"lang": {"gt": date(2020, 1, 1)}}]}
    numbers: dict[str, Any] = {"k": np.int64(2), "lam": np.float32(1)}
    retriever = DensliceRetriever(index=index, where=where, **numbers)
    assert [doc.id for doc in retriever.invoke("cats")] == list(index.search("cats", 2).ids)
    with pytest.raises(InputError, match="which JSON cannot hold"):
        DensliceRetriever(index=index, where={"year": float("nan")}).invoke("cats")


# --- Haystack


@pytest.mark.parametrize("k", NOT_A_K, ids=repr)
def test_a_haystack_component_refuses_what_is_no_number_of_documents(index: Index, k: Any) -> None:
    pytest.importorskip("haystack", reason="the Haystack adapter needs the extra haystack")
    from denslice.adapters.haystack import DensliceRetriever

    with pytest.raises(InputError, match="top_k must be a whole number of at least 1"):
        DensliceRetriever(str(index.path), top_k=k)
    with pytest.raises(InputError, match="top_k must be a whole number of at least 1"):
        DensliceRetriever(str(index.path)).run("cats", top_k=k)


def test_a_haystack_component_keeps_numpys_numbers_and_dates_in_its_file(index: Index) -> None:
    pytest.importorskip("haystack", reason="the Haystack adapter needs the extra haystack")
    from haystack import Pipeline

    from denslice.adapters.haystack import DensliceRetriever

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


def test_a_haystack_component_runs_in_a_pipeline_and_is_kept_in_its_file(index: Index) -> None:
    pytest.importorskip("haystack", reason="the Haystack adapter needs the extra haystack")
    from haystack import Pipeline

    from denslice.adapters.haystack import DensliceRetriever

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


@pytest.mark.parametrize("filters", FILTERS, ids=range(len(FILTERS)))
def test_haystack_filters_mean_what_they_mean_in_haystack(index: Index, filters: dict[str, Any]) -> None:
    pytest.importorskip("haystack", reason="the Haystack adapter needs the extra haystack")
    from haystack import Document
    from haystack.utils.filters import document_matches_filter

    from denslice.adapters.haystack import DensliceRetriever

    found = DensliceRetriever(str(index.path)).run("cats", filters=filters)["documents"]
    named = [Document(id=doc["id"], meta={name: doc[name] for name in ("year", "lang") if name in doc}) for doc in DOCS]
    expected = {doc.id for doc in named if document_matches_filter(filters=filters, document=doc)}
    assert {doc.id for doc in found} == expected


def test_an_unknown_haystack_operator_is_told() -> None:
    pytest.importorskip("haystack", reason="the Haystack adapter needs the extra haystack")
    from denslice.adapters.haystack import where_of

    with pytest.raises(InputError, match="unknown operator 'like'"):
        where_of({"field": "meta.year", "operator": "like", "value": 1})


# --- passages

WILD = "# Wild\n\n" + "Foxes run through the wood. " * 30
TAME = "# Tame\n\n" + "The old cat sleeps on a warm sofa. " * 30
BOOK: dict[str, Any] = {"id": "book", "title": "Animals", "text": f"{WILD}\n\n{TAME}", "year": 2020}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Index:
    made = Index.create(tmp_path_factory.mktemp("library") / "l.idx", "bm25")
    made.add([BOOK, {"id": "note", "text": "A sofa."}])
    return made


def test_a_langchain_retriever_returns_passages_with_their_places(library: Index) -> None:
    pytest.importorskip("langchain_core", reason="the LangChain adapter needs the extra langchain")
    from denslice.adapters.langchain import DensliceRetriever

    found = DensliceRetriever(index=library).invoke("cat sofa")
    hits = list(library.search("cat sofa", group=False))
    assert [(doc.page_content, doc.metadata["score"]) for doc in found] == [(hit.text, hit.score) for hit in hits]
    _check_passages({doc.id: (doc.page_content, doc.metadata) for doc in found})
    [book, note] = DensliceRetriever(index=library, group=True).invoke("cat sofa")
    assert {book.id, note.id} == {"book", "note"}
    assert BOOK["text"] in (book.page_content, note.page_content)


def test_a_haystack_component_returns_passages_with_their_places(library: Index) -> None:
    pytest.importorskip("haystack", reason="the Haystack adapter needs the extra haystack")
    from haystack import Pipeline

    from denslice.adapters.haystack import DensliceRetriever

    found = DensliceRetriever(str(library.path)).run("cat sofa")["documents"]
    hits = list(library.search("cat sofa", group=False))
    assert [(doc.content, doc.score) for doc in found] == [(hit.text, hit.score) for hit in hits]
    _check_passages({doc.id: (doc.content, doc.meta) for doc in found})
    pipeline = Pipeline()
    pipeline.add_component("retriever", DensliceRetriever(str(library.path), group=True))
    again = Pipeline.loads(pipeline.dumps(), unsafe=True)
    docs = again.run({"retriever": {"query": "cat sofa"}})["retriever"]["documents"]
    assert {doc.id: doc.content for doc in docs} == {"book": BOOK["text"], "note": "A sofa."}


def _check_passages(found: dict[str, tuple[str, dict[str, Any]]]) -> None:
    """Check ids, texts and metadata of what was found for "cat sofa"."""
    assert found.keys() == {"book#1", "note"}  # a document of one passage has its own id
    text, meta = found["book#1"]
    assert (meta["document_id"], meta["title"], meta["year"], meta["heading"]) == ("book", "Animals", 2020, "Tame")
    assert (meta["page"], meta["lexical"] > 0, meta["dense"]) == (None, True, 0.0)
    assert text == BOOK["text"][meta["start"] : meta["end"]]


# --- without them


@pytest.mark.parametrize(("module", "needs"), [("langchain", "langchain_core"), ("haystack", "haystack")])
def test_a_missing_library_is_named_with_its_extra(module: str, needs: str, tmp_path: Path) -> None:
    code = f"import sys; sys.modules[{needs!r}] = None; import denslice.adapters.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path.cwd())
    assert f"pip install 'denslice[{module}]'" in done.stderr
