"""An index as a Haystack component: `DensliceRetriever("my.idx", top_k=5)`, with the filters of Haystack."""

from __future__ import annotations

from typing import Any, Unpack

from denslice.errors import InputError, MissingExtraError

try:
    from haystack import Document, component, default_from_dict, default_to_dict
except ModuleNotFoundError as error:
    raise MissingExtraError("the Haystack adapter", "haystack") from error

from denslice.adapters.hit_metadata import metadata, unique_id
from denslice.index.index import Index
from denslice.options import PAGE_OPTIONS, OpenOptions, RetrieverKeywords, SearchOptions, shown, takes
from denslice.rankings import Hit
from denslice.records import json_object
from denslice.scalars import whole_number

COMPARISONS = {"==": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte", "in": "in"}


@component
class DensliceRetriever:
    """Retrieves the top_k best passages of an index, or documents if `group` is true. The first run opens the index."""

    @takes(OpenOptions)
    @takes(SearchOptions, but_for=("k", "where", *PAGE_OPTIONS))
    def __init__(
        self,
        folder: str,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        *,
        group: bool = False,  # what is retrieved is for a model to read
        **options: Unpack[RetrieverKeywords],
    ) -> None:
        self.folder, self.top_k = folder, whole_number("top_k", top_k, 1)
        self.filters = None if filters is None else json_object(filters, "filters")  # as a pipeline is saved
        given: dict[str, Any] = {**options}
        on = {one.name: given.pop(one.name) for one in shown(OpenOptions) if one.name in given}
        self.on, self.options = OpenOptions(**on), SearchOptions(self.top_k, group=group, **given)
        self._index: Index | None = None

    def warm_up(self) -> None:
        """Open the index."""
        self._index = self._index or Index.open(self.folder, **vars(self.on))

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the passages or documents found. `top_k` and `filters` replace those of the component."""
        self.warm_up()
        assert self._index is not None
        where = where_of(self.filters if filters is None else filters)
        k = self.top_k if top_k is None else whole_number("top_k", top_k, 1)
        options = self.options.keywords() | {"k": k, "where": where}
        return {"documents": [_document(hit, self.options.group) for hit in self._index.search(query, **options)]}

    def to_dict(self) -> dict[str, Any]:
        """Return the component as a pipeline is saved."""
        others = ("k", "where", *PAGE_OPTIONS)
        options = {name: value for name, value in self.options.keywords().items() if name not in others}
        on = vars(self.on) | {"leave_out": list(self.on.leave_out)}
        kept: dict[str, Any] = default_to_dict(
            self, folder=self.folder, top_k=self.top_k, filters=self.filters, **options, **on
        )
        return kept

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> DensliceRetriever:
        """Return the component of a saved pipeline."""
        made: DensliceRetriever = default_from_dict(cls, kept)
        return made


def where_of(filters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return filters of Haystack as denslice takes them. Field names may begin with `meta.` or not."""
    if not filters:
        return None
    operator = filters.get("operator")
    if operator in ("AND", "OR", "NOT"):
        parts = [where_of(part) for part in filters.get("conditions", [])]
        return {"not": {"and": parts}} if operator == "NOT" else {str(operator).lower(): parts}
    field = str(filters.get("field", "")).removeprefix("meta.")
    if operator == "not in":
        return {"not": {field: {"in": filters.get("value")}}}
    if operator not in COMPARISONS:
        raise InputError(
            f"unknown operator {operator!r} in filters; known: AND, OR, NOT, not in, {', '.join(COMPARISONS)}"
        )
    return {field: {COMPARISONS[operator]: filters.get("value")}}


def _document(hit: Hit, group: bool) -> Document:
    return Document(id=unique_id(hit, group), content=hit.text, meta=metadata(hit, group), score=hit.score)
