"""An index as a LangChain retriever: `DensliceRetriever(index=ds.open_index("my.idx"), k=5)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from denslice.errors import MissingExtraError

try:
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import model_validator
except ModuleNotFoundError as error:
    raise MissingExtraError("the LangChain adapter", "langchain") from error

from denslice.adapters.hit_metadata import metadata, unique_id
from denslice.cluster.cluster import Cluster
from denslice.index.index import Index
from denslice.options import PAGE_OPTIONS, SearchOptions, shown
from denslice.rankings import Hit


class DensliceRetriever(BaseRetriever):
    """Retrieves the k best passages of an index, or documents if `group` is true.

    The metadata also contain the document's id, its title, the scores and the place of the passage.
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

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        names = (one.name for one in shown(SearchOptions) if one.name not in PAGE_OPTIONS)
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        return [_document(hit, self.group) for hit in self.index.search(query, **options)]


def _document(hit: Hit, group: bool) -> Document:
    described = {**metadata(hit, group), "score": hit.score}
    return Document(id=unique_id(hit, group), page_content=hit.text, metadata=described)
