"""The LlamaIndex adapter, with nodes, indexes, retrievers and filters of the real library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapted import BOOK, CATS, NOT_A_K, NOTE, check_passages, index_of

pytest.importorskip("llama_index.core", reason="the LlamaIndex adapter needs the extra llama-index")

from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import MetadataMode, NodeRelationship, NodeWithScore, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.core.vector_stores.utils import build_metadata_filter_fn

from denslice import Index, InputError
from denslice.adapters.llama_index import DensliceRetriever, DensliceVectorStore, where_from

NODES: dict[str, dict[str, Any]] = {
    "cats": {"year": 2020, "lang": "en", "tags": ["calm"], "title": "On cats"},
    "dogs": {"year": 2021, "lang": "de", "tags": ["fast", "loud"]},
    "owls": {"lang": "en", "tags": []},
}
FILTERS = [
    ("year", "==", 2020),
    ("year", "!=", 2020),
    ("year", ">", 2020),
    ("year", ">=", 2020),
    ("year", "<", 2021),
    ("year", "<=", 2021),
    ("lang", "in", ["de", "fr"]),
    ("lang", "nin", ["de", "fr"]),
    ("tags", "contains", "loud"),
    ("tags", "any", ["loud", "calm"]),
    ("tags", "all", ["loud", "fast"]),
    ("tags", "is_empty", None),
    ("year", "is_empty", None),
    ("title", "==", "On cats"),
]


def ids(found: list[NodeWithScore]) -> list[str]:
    return [one.node.node_id for one in found]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> DensliceVectorStore:
    made = DensliceVectorStore(Index.create(tmp_path_factory.mktemp("llama") / "s.idx", "bm25"))
    made.add([TextNode(id_=id, text=f"{id} and cats", metadata=fields) for id, fields in NODES.items()])
    return made


# --- the vector store


def test_documents_become_nodes_that_are_found_updated_and_deleted(tmp_path: Path) -> None:
    store = DensliceVectorStore(Index.create(tmp_path / "v.idx", "bm25"))
    docs = [Document(doc_id=one["id"], text=one["text"], metadata={"title": one["id"]}) for one in CATS]
    splitter = SentenceSplitter(chunk_size=20, chunk_overlap=0)
    context = StorageContext.from_defaults(vector_store=store)
    made = VectorStoreIndex.from_documents(
        docs, context, embed_model=MockEmbedding(embed_dim=1), transformations=[splitter]
    )
    [found] = made.as_retriever(similarity_top_k=5).retrieve("sleep")
    assert (found.node.ref_doc_id, found.node.get_content(), found.node.metadata) == (
        "cats",
        "Cats sleep all day.",
        {"title": "cats"},
    )
    assert found.score == store.client.search("sleep").scores[0]
    source: Any = found.node.relationships[NodeRelationship.SOURCE]
    assert source.hash == docs[0].hash
    made.delete_ref_doc("cats")
    assert made.as_retriever().retrieve("sleep") == []
    assert len(store.get_nodes()) == 2
    opened = VectorStoreIndex.from_vector_store(store, embed_model=MockEmbedding(embed_dim=1))
    opened.insert(docs[0])
    assert [one.node.ref_doc_id for one in opened.as_retriever().retrieve("sleep")] == ["cats"]


def test_nodes_are_stored_as_they_are(store: DensliceVectorStore) -> None:
    [node] = store.get_nodes(["cats", "none"])
    assert node == TextNode(id_="cats", text="cats and cats", metadata=NODES["cats"])
    assert store.client.search("title:cats").ids == ("cats",)


def test_nodes_are_deleted_by_id_by_filter_or_all(tmp_path: Path) -> None:
    store = DensliceVectorStore(Index.create(tmp_path / "d.idx", "bm25"))
    store.add([TextNode(id_=id, text="a cat", metadata=fields) for id, fields in NODES.items()])
    store.delete_nodes(["cats", "none"])
    assert {node.node_id for node in store.get_nodes()} == {"dogs", "owls"}
    store.delete_nodes(filters=MetadataFilters(filters=[MetadataFilter(key="lang", value="de")]))
    assert {node.node_id for node in store.get_nodes()} == {"owls"}
    store.clear()
    assert store.get_nodes() == []


@pytest.mark.anyio
async def test_a_store_is_awaited(tmp_path: Path) -> None:
    store = DensliceVectorStore(Index.create(tmp_path / "a.idx", "bm25"))
    made = VectorStoreIndex.from_vector_store(store, embed_model=MockEmbedding(embed_dim=1))
    await made.ainsert(Document(doc_id="one", text="One cat."))
    assert [one.node.ref_doc_id for one in await made.as_retriever().aretrieve("cat")] == ["one"]
    await made.adelete_ref_doc("one")
    assert await made.as_retriever().aretrieve("cat") == []


def test_modes_are_those_of_the_index_and_options_of_a_search_are_taken(store: DensliceVectorStore) -> None:
    made = VectorStoreIndex.from_vector_store(store, embed_model=MockEmbedding(embed_dim=1))
    for mode in ("default", "sparse", "text_search"):
        assert len(made.as_retriever(similarity_top_k=2, vector_store_query_mode=mode).retrieve("cats")) == 2
    best = store.client.search("cats").scores[0]
    only = made.as_retriever(similarity_top_k=3, vector_store_kwargs={"min_score": best}).retrieve("cats")
    assert ids(only) == ["cats"]
    assert ids(made.as_retriever(similarity_top_k=3, doc_ids=["None"]).retrieve("owls")) == ["owls"]
    with pytest.raises(InputError, match="mode hybrid needs dense vectors"):
        made.as_retriever(vector_store_query_mode="hybrid").retrieve("cats")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (VectorStoreQuery(query_embedding=[1.0]), r"the query has no text \(query_str\)"),
        (VectorStoreQuery(query_str="a", mode=VectorStoreQueryMode.MMR), "query mode 'mmr' is not one of default, hyb"),
        (VectorStoreQuery(query_str="a", alpha=0.5), "alpha is 0.5, expected None; weigh the dense score by"),
    ],
)
def test_a_query_that_cannot_be_searched_is_told(store: DensliceVectorStore, query: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        store.query(query)


# --- filters


@pytest.mark.parametrize(("key", "operator", "value"), FILTERS)
def test_filters_mean_what_they_mean_in_llama_index(
    store: DensliceVectorStore, key: str, operator: str, value: Any
) -> None:
    one = MetadataFilter(key=key, operator=FilterOperator(operator), value=value)
    for condition in FilterCondition:
        filters = MetadataFilters(filters=[one, MetadataFilter(key="lang", value="en")], condition=condition)
        passes = build_metadata_filter_fn(NODES.__getitem__, filters)
        expected = {id for id in NODES if passes(id)}
        assert {node.node_id for node in store.get_nodes(filters=filters)} == expected
        found = store.query(VectorStoreQuery(query_str="cats", similarity_top_k=3, filters=filters))
        assert set(found.ids or ()) == expected


def test_filters_nest_and_texts_are_not_matched_by_filters() -> None:
    inner = MetadataFilters(filters=[MetadataFilter(key="year", value=2020)], condition=FilterCondition.NOT)
    assert where_from(MetadataFilters(filters=[inner])) == {"and": [{"not": {"or": [{"year": {"eq": 2020}}]}}]}
    with pytest.raises(InputError, match="filter 'text_match' on 'note': write it in the query, as note:word"):
        where_from(MetadataFilters(filters=[MetadataFilter(key="note", value="a", operator=FilterOperator.TEXT_MATCH)]))


# --- the retriever


@pytest.mark.anyio
async def test_a_retriever_returns_passages_with_their_places(tmp_path: Path) -> None:
    library = index_of([BOOK, NOTE], tmp_path / "l.idx")
    found = DensliceRetriever(library).retrieve("cat sofa")
    hits = list(library.search("cat sofa", group=False))
    assert [(one.text, one.score) for one in found] == [(hit.text, hit.score) for hit in hits]
    check_passages({one.node.node_id: (one.text, one.metadata) for one in found})
    [book] = [one.node for one in found if one.node.ref_doc_id == "book"]
    shown = book.get_content(MetadataMode.LLM)
    assert "year: 2020\ntitle: Animals\n" in shown
    assert "lexical" not in shown
    assert ids(await DensliceRetriever(library, group=True).aretrieve("cat sofa")) == list(
        library.search("cat sofa").ids
    )


def test_a_retriever_takes_filters_and_the_options_of_a_search(store: DensliceVectorStore) -> None:
    filters = MetadataFilters(filters=[MetadataFilter(key="lang", value="en")])
    [found] = DensliceRetriever(store.client, 1, filters, mode="lexical").retrieve("cats")
    assert found.node.node_id == "cats"
    assert found.node.metadata.keys() >= {"year", "lang", "title"}
    assert "_node_content" not in found.node.metadata
    with pytest.raises(InputError, match="mode must be one of"):
        DensliceRetriever(store.client, mode="fast")


@pytest.mark.parametrize("k", NOT_A_K, ids=repr)
def test_a_retriever_refuses_what_is_no_number_of_nodes(store: DensliceVectorStore, k: Any) -> None:
    with pytest.raises(InputError, match="similarity_top_k must be a whole number of at least 1"):
        DensliceRetriever(store.client, similarity_top_k=k)
