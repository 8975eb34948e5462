"""An index as a LangChain retriever: `DensliceRetriever(index=ds.open_index("my.idx"), k=5)`."""

from __future__ import annotations

from typing import Annotated, Any

from denslice.errors import MissingExtraError

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import BeforeValidator
except ModuleNotFoundError as error:
    raise MissingExtraError("the LangChain adapter", "langchain") from error

from denslice.cluster.cluster import Cluster
from denslice.index.index import Index
from denslice.records import Hit
from denslice.scalars import number, whole_number


class DensliceRetriever(BaseRetriever):
    """The k best documents of an index. Title and scores stand in a document's metadata, beside its own."""

    index: Index | Cluster
    k: Annotated[int, BeforeValidator(lambda given: whole_number("k", given, 1))] = 10
    mode: str | None = None
    lam: Annotated[float | None, BeforeValidator(lambda given: None if given is None else number("lam", given, 0))] = (
        None
    )
    theta: Annotated[float, BeforeValidator(lambda given: number("theta", given, 0))] = 0.0
    where: dict[str, Any] | None = None

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        hits = self.index.search(query, self.k, mode=self.mode, lam=self.lam, theta=self.theta, where=self.where)
        return [_document(hit) for hit in hits]


def _document(hit: Hit) -> Document:
    scores = {"score": hit.score, "lexical": hit.lexical, "dense": hit.dense}
    return Document(id=hit.id, page_content=hit.text, metadata={**hit.meta, "title": hit.title, **scores})
