"""An index as a LlamaIndex retriever, `DensliceRetriever(ds.open_index("my.idx"), similarity_top_k=5)`, and a store."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import Sequence
from typing import Any, Unpack

from denslice.errors import InputError, MissingExtraError

try:
    from llama_index.core.base.base_retriever import BaseRetriever
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.schema import (
        BaseNode,
        MetadataMode,
        NodeRelationship,
        NodeWithScore,
        QueryBundle,
        RelatedNodeInfo,
        TextNode,
    )
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        FilterCondition,
        FilterOperator,
        MetadataFilter,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
except ModuleNotFoundError as error:
    raise MissingExtraError("the LlamaIndex adapter", "llama-index") from error

from denslice.adapters.hit_metadata import metadata, unique_id
from denslice.adapters.stored_docs import given_metadata, passing_docs, stored_doc
from denslice.cluster.cluster import Cluster
from denslice.index.index import Index
from denslice.options import PAGE_OPTIONS, RetrieverKeywords, SearchOptions, takes
from denslice.rankings import Hit
from denslice.records import Doc
from denslice.scalars import whole_number

QUERY_MODES = {
    VectorStoreQueryMode.DEFAULT: None,  # hybrid, if the index has dense vectors
    VectorStoreQueryMode.HYBRID: "hybrid",
    VectorStoreQueryMode.SEMANTIC_HYBRID: "hybrid",
    VectorStoreQueryMode.SPARSE: "lexical",
    VectorStoreQueryMode.TEXT_SEARCH: "lexical",
}
WHOLE_NODE = ("_node_content", "_node_type")  # how LlamaIndex keeps a node in metadata
# Metadata that a node does not show to the model that reads it.
NOT_TO_READ = ("document_id", "doc_id", "ref_doc_id", "lexical", "dense", "start", "end")


class DensliceRetriever(BaseRetriever):
    """Retrieves the best passages of an index, or documents if `group` is true, as nodes.

    The metadata also contain the document's id, its title, the scores and the place of the passage.
    """

    @takes(SearchOptions, but_for=("k", "where", *PAGE_OPTIONS))
    def __init__(
        self,
        index: Index | Cluster,
        similarity_top_k: int = 10,
        filters: MetadataFilters | None = None,
        *,
        group: bool = False,  # what is retrieved is for a model to read
        **options: Unpack[RetrieverKeywords],
    ) -> None:
        k, where = whole_number("similarity_top_k", similarity_top_k, 1), where_from(filters)
        self._index, self._options = index, SearchOptions(k, where=where, group=group, **options)
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._index.search(query_bundle.query_str, **self._options.keywords())
        return [NodeWithScore(node=_found_node(hit, self._options.group), score=hit.score) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await to_thread(self._retrieve, query_bundle)


class DensliceVectorStore(BasePydanticVectorStore):
    """The documents of an index as a vector store, which returns nodes as they were added.

    The encoder of the index reads nodes and queries, so embeddings are not needed, and are left aside if given. A query
    takes options of a search by name, which `as_retriever` calls `vector_store_kwargs`.
    """

    stores_text: bool = True
    is_embedding_query: bool = False
    _index: Index | Cluster = PrivateAttr()

    def __init__(self, index: Index | Cluster) -> None:
        super().__init__(stores_text=True)
        self._index = index

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex keeps the class."""
        return "DensliceVectorStore"

    @property
    def client(self) -> Index | Cluster:
        """The index."""
        return self._index

    def add(self, nodes: Sequence[BaseNode]) -> list[str]:  # type: ignore[override]
        """Add nodes in one commit and return their ids. A node replaces the one with its id."""
        self._index.add([_node_to_store(node) for node in nodes])
        return [node.node_id for node in nodes]

    async def async_add(self, nodes: Sequence[BaseNode]) -> list[str]:  # type: ignore[override]
        """Add nodes as `add` does, in a thread."""
        return await to_thread(self.add, nodes)

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Return the nodes with these ids, of any id without, that pass the filters."""
        return [_stored_node(doc) for doc in passing_docs(self._index, where_from(filters) or {}, node_ids)]

    def delete(self, ref_doc_id: str) -> None:  # type: ignore[override]
        """Delete the nodes of a document of LlamaIndex in one commit."""
        self._delete({"ref_doc_id": ref_doc_id})

    async def adelete(self, ref_doc_id: str) -> None:  # type: ignore[override]
        """Delete nodes as `delete` does, in a thread."""
        await to_thread(self.delete, ref_doc_id)

    def delete_nodes(  # type: ignore[override]
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> None:
        """Delete the nodes with these ids, of any id without, that pass the filters."""
        self._delete(where_from(filters) or {}, node_ids)

    def clear(self) -> None:
        """Delete all nodes."""
        self._delete({})

    def _delete(self, where: dict[str, Any], node_ids: list[str] | None = None) -> None:
        self._index.delete([doc.id for doc in passing_docs(self._index, where, node_ids)])

    def query(  # type: ignore[override]
        self, query: VectorStoreQuery, **options: Unpack[RetrieverKeywords]
    ) -> VectorStoreQueryResult:
        """Return the best nodes for the text of a query, with their scores: higher is better."""
        if query.query_str is None or query.mode not in QUERY_MODES or query.alpha is not None:
            raise InputError(_unsupported(query))
        k, where = query.hybrid_top_k or query.similarity_top_k, _where_of_query(query)
        given: RetrieverKeywords = {"mode": QUERY_MODES[query.mode], **options}
        hits = self._index.search(query.query_str, k, where=where, **given)
        return VectorStoreQueryResult([_stored_node(hit) for hit in hits], list(hits.scores), list(hits.ids))

    async def aquery(  # type: ignore[override]
        self, query: VectorStoreQuery, **options: Unpack[RetrieverKeywords]
    ) -> VectorStoreQueryResult:
        """Return what `query` returns, searched in a thread."""
        return await to_thread(self.query, query, **options)


# --- nodes


def _node_to_store(node: BaseNode) -> Doc:
    kept = node_to_metadata_dict(node, remove_text=True)
    return stored_doc(node.node_id, node.get_content(MetadataMode.NONE), kept)


def _stored_node(stored: Doc | Hit) -> BaseNode:
    """Return the node that was added, or a new one for a document that LlamaIndex did not add."""
    if WHOLE_NODE[0] in stored.meta:
        return metadata_dict_to_node(dict(stored.meta), stored.text)
    return TextNode(id_=stored.id, text=stored.text, metadata=given_metadata(stored))


def _found_node(hit: Hit, group: bool) -> TextNode:
    described = {name: value for name, value in metadata(hit, group).items() if name not in WHOLE_NODE}
    return TextNode(
        id_=unique_id(hit, group),
        text=hit.text,
        metadata=described,
        excluded_llm_metadata_keys=list(NOT_TO_READ),
        excluded_embed_metadata_keys=list(NOT_TO_READ),
        relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=hit.id)},
        start_char_idx=described.get("start"),
        end_char_idx=described.get("end"),
    )


# --- queries and filters


def _unsupported(query: VectorStoreQuery) -> str:
    """Return why a query cannot be searched, and what to do."""
    if query.query_str is None:
        return "the query has no text (query_str), and an index reads texts; its own encoder makes the vector"
    if query.mode not in QUERY_MODES:
        return f"query mode {query.mode.value!r} is not one of {', '.join(mode.value for mode in QUERY_MODES)}"
    return f"alpha is {query.alpha}, expected None; weigh the dense score by vector_store_kwargs={{'lam': …}}"


def _where_of_query(query: VectorStoreQuery) -> dict[str, Any] | None:
    ids = {"id": query.node_ids, "ref_doc_id": query.doc_ids}
    parts = [{field: {"in": some}} for field, some in ids.items() if some]
    filters = where_from(query.filters)
    return {"and": [*parts, filters or {}]} if parts or filters else None


def where_from(filters: MetadataFilters | None) -> dict[str, Any] | None:
    """Return filters of LlamaIndex as denslice takes them."""
    if filters is None:
        return None
    parts = [where_from(one) if isinstance(one, MetadataFilters) else _condition(one) for one in filters.filters]
    if filters.condition == FilterCondition.NOT:
        return {"not": {"or": parts}}
    return {"or" if filters.condition == FilterCondition.OR else "and": parts}


def _condition(one: MetadataFilter) -> dict[str, Any]:
    field, value = one.key, one.value
    match one.operator:
        case FilterOperator.NIN:
            return {"not": {field: {"in": value}}}
        case FilterOperator.ANY:
            return {field: {"in": value}}
        case FilterOperator.ALL:
            return {"and": [{field: item} for item in (value if isinstance(value, list) else [value])]}
        case FilterOperator.CONTAINS:
            return {field: {"eq": value}}
        case FilterOperator.IS_EMPTY:
            return {"or": [{field: {"exists": False}}, {field: None}, {field: ""}, {field: []}]}
        case FilterOperator.TEXT_MATCH | FilterOperator.TEXT_MATCH_INSENSITIVE:
            raise InputError(f"filter {one.operator.value!r} on {field!r}: write it in the query, as {field}:word")
        case _:
            return {field: {one.operator.name.lower(): value}}
