"""An index as a LangChain retriever, `DensliceRetriever(index=ds.open_index("my.idx"), k=5)`, and as a vector store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, Unpack
from uuid import uuid4

from denslice.errors import InputError, MissingExtraError

try:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import run_in_executor
    from langchain_core.vectorstores import VectorStore
    from pydantic import model_validator
except ModuleNotFoundError as error:
    raise MissingExtraError("the LangChain adapter", "langchain") from error

from denslice.adapters.hit_metadata import metadata, unique_id
from denslice.adapters.stored_docs import given_metadata, stored_doc
from denslice.cluster.cluster import Cluster
from denslice.index.index import Index
from denslice.options import PAGE_OPTIONS, MoreIndexKeywords, SearchKeywords, SearchOptions, shown
from denslice.rankings import Hit
from denslice.records import Doc, checked_docs, checked_ids


class DensliceRetriever(BaseRetriever):
    """Retrieves the k best passages of an index, or documents if `group` is true.

    The metadata also contain the document's id, its title, the scores and the place of the passage. `invoke` takes
    another `k` and `where` for one query.
    """

    index: Index | Cluster
    k: int = SearchOptions.k
    theta: float = SearchOptions.theta
    candidates: int = SearchOptions.candidates
    mode: str | None = SearchOptions.mode
    lam: float | None = SearchOptions.lam
    candidates_from: str = SearchOptions.candidates_from
    pruning: float | None = SearchOptions.pruning
    where: Mapping[str, Any] | None = SearchOptions.where
    fuzzy: bool = SearchOptions.fuzzy
    min_score: float | None = SearchOptions.min_score
    group: bool = False  # what is retrieved is for a model to read

    @model_validator(mode="before")
    @classmethod
    def _checked(cls, given: dict[str, Any]) -> dict[str, Any]:
        chosen = {one.name: given[one.name] for one in shown(SearchOptions) if one.name in given}
        checked = SearchOptions(**chosen).keywords()
        return given | {name: checked[name] for name in chosen}

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[Document]:
        names = (one.name for one in shown(SearchOptions) if one.name not in PAGE_OPTIONS)
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        options |= {name: value for name, value in (("k", k), ("where", where)) if value is not None}
        return [_found_document(hit, self.group) for hit in self.index.search(query, **options)]

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[Document]:
        run = run_manager.get_sync()
        return await run_in_executor(None, self._get_relevant_documents, query, run_manager=run, k=k, where=where)


class DensliceVectorStore(VectorStore):
    """The documents of an index as a vector store, which returns them as they were added.

    The encoder of the index reads documents and queries, so no embeddings are needed, and none can be given. Other
    options of a search are taken by name, such as `mode` and `min_score`.
    """

    def __init__(self, index: Index | Cluster) -> None:
        self.index = index

    @classmethod
    def from_texts(  # type: ignore[override]  # the folder has to be named
        cls,
        texts: Iterable[str],
        embedding: Embeddings | None = None,
        metadatas: Sequence[dict[str, Any]] | None = None,
        *,
        path: str | Path,
        ids: Sequence[str | None] | None = None,
        encoder: str = "mini",
        **options: Unpack[MoreIndexKeywords],
    ) -> Self:
        """Create an index in a new folder, with the options of `Index.create`, and add the texts."""
        given = list(texts)
        fields = [{} for _ in given] if metadatas is None else metadatas
        docs = [Document(text, metadata=some) for text, some in zip(given, fields, strict=True)]
        return cls.from_documents(docs, embedding, path=path, ids=ids, encoder=encoder, **options)

    @classmethod
    def from_documents(  # type: ignore[override]
        cls,
        documents: Iterable[Document],
        embedding: Embeddings | None = None,
        *,
        path: str | Path,
        ids: Sequence[str | None] | None = None,
        encoder: str = "mini",
        **options: Unpack[MoreIndexKeywords],
    ) -> Self:
        """Create an index in a new folder, with the options of `Index.create`, and add the documents."""
        if embedding is not None:
            found = type(embedding).__name__
            raise InputError(f"embedding is {found}, expected None: the encoder of the index, {encoder}, reads texts")
        docs = list(checked_docs(_docs_to_store(documents, ids)))  # before there is a folder
        index = Index.create(path, encoder, **options)
        index.add(docs)
        return cls(index)

    def add_documents(  # type: ignore[override]
        self, documents: Iterable[Document], *, ids: Sequence[str | None] | None = None, batch_size: int | None = None
    ) -> list[str]:
        """Add documents in one commit and return their ids. A document replaces the one with its id.

        A document without an id is given a random one. `batch_size`, which LangChain's indexing gives, has no effect.
        """
        docs = _docs_to_store(documents, ids)
        self.index.add(docs)
        return [doc.id for doc in docs]

    def delete(self, ids: Sequence[str] | None = None) -> bool:  # type: ignore[override]
        """Delete the documents with these ids, or all without ids, in one commit. Ids may be unknown."""
        self.index.delete([doc.id for doc in self.index.docs()] if ids is None else ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids that there are, each once."""
        found = [doc for id in checked_ids(ids) if (doc := self.index.get(id)) is not None]
        return [_stored_document(doc) for doc in found]

    def similarity_search(  # type: ignore[override]
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **options: Unpack[SearchKeywords]
    ) -> list[Document]:
        """Return the k best documents that pass the filter, which has the syntax of denslice's `where`."""
        return [document for document, _ in self.similarity_search_with_score(query, k, filter, **options)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **options: Unpack[SearchKeywords]
    ) -> list[tuple[Document, float]]:
        """Return the k best documents with their scores: higher is better, and there is no highest score."""
        if filter is not None:
            options["where"] = filter
        return [(_stored_document(hit), hit.score) for hit in self.index.search(query, k, **options)]


def _docs_to_store(documents: Iterable[Document], ids: Sequence[str | None] | None) -> list[Doc]:
    given = list(documents)
    chosen = [None] * len(given) if ids is None else ids
    if len(chosen) != len(given):
        raise InputError(f"{len(given)} documents and {len(chosen)} ids; give one id for each document, or no ids")
    both = zip(given, chosen, strict=True)
    return [stored_doc(id or one.id or str(uuid4()), one.page_content, one.metadata) for one, id in both]


def _stored_document(stored: Doc | Hit) -> Document:
    return Document(id=stored.id, page_content=stored.text, metadata=given_metadata(stored))


def _found_document(hit: Hit, group: bool) -> Document:
    described = {**metadata(hit, group), "score": hit.score}
    return Document(id=unique_id(hit, group), page_content=hit.text, metadata=described)
