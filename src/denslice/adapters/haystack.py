"""An index as a Haystack document store, `DensliceDocumentStore("my.idx")`, its retriever, and the filters of both."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Unpack

from denslice.errors import InputError, MissingExtraError

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy
    from haystack.errors import FilterError
except ModuleNotFoundError as error:
    raise MissingExtraError("the Haystack adapter", "haystack") from error

from denslice.adapters.hit_metadata import metadata, unique_id
from denslice.adapters.stored_docs import given_metadata, passing_docs, stored_doc
from denslice.index.index import Index
from denslice.options import (
    PAGE_OPTIONS,
    IndexOptions,
    MoreIndexKeywords,
    OpenOptions,
    RetrieverKeywords,
    SearchOptions,
    shown,
    takes,
)
from denslice.rankings import Hit
from denslice.records import Doc, checked_ids, json_object
from denslice.scalars import whole_number

ORDERS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
COMPARISONS = ("==", "!=", "in", "not in", *ORDERS)
LOGIC = ("AND", "OR", "NOT")
NOT_FILTERED = ("content", "blob", "score", "embedding", "sparse_embedding", "meta.id")  # `id` is the document's own


class StoreKeywords(MoreIndexKeywords, total=False):
    """The options of creating and of opening the index of a store."""

    device: str
    leave_out: Sequence[str]
    queries: str


class DensliceDocumentStore:
    """The documents of an index. The first write creates the folder, with the options of `Index.create`.

    The encoder of the index reads texts and queries: embeddings of documents are not stored. Each call sees the last
    commit of any process.
    """

    @takes(OpenOptions)
    @takes(IndexOptions)
    def __init__(self, folder: str, encoder: str = "mini", **options: Unpack[StoreKeywords]) -> None:
        given: dict[str, Any] = {**options}
        on = {one.name: given.pop(one.name) for one in shown(OpenOptions) if one.name in given}
        self.folder, self.on, self.options = folder, OpenOptions(**on), IndexOptions(encoder, **given)
        self._index: Index | None = None

    def index(self) -> Index | None:
        """Return the index at its last commit, or None if nothing was written yet."""
        if self._index is not None:
            self._index.refresh()
        elif Path(self.folder).exists():
            self._index = Index.open(self.folder, **vars(self.on))
        return self._index

    def count_documents(self) -> int:
        """Return how many documents there are."""
        return len(self.index() or ())

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return every document that passes the filters, without a score."""
        index, where = self.index(), where_of(filters) or {}
        docs = () if index is None else passing_docs(index, where)
        return [Document(id=doc.id, content=doc.text, meta=given_metadata(doc)) for doc in docs]

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Write documents in one commit and return how many; by default, as with FAIL, their ids must be new."""
        if not isinstance(documents, list) or not all(isinstance(one, Document) for one in documents):
            raise ValueError("write_documents takes a list of Documents of Haystack")
        docs = [_doc_to_store(one) for one in documents]
        if (index := self.index()) is None:
            Index.create(self.folder, **vars(self.options)).close()
            return self.write_documents(documents, policy)
        chosen = _chosen(docs, policy, index)
        return index.add(chosen) if chosen else 0

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete the documents with these ids. Ids may be unknown."""
        ids = checked_ids(document_ids)
        if (index := self.index()) is not None:
            index.delete(ids)

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the documents that pass the filters, and return how many."""
        index, where = self.index(), where_of(filters) or {}
        return 0 if index is None else index.delete([doc.id for doc in passing_docs(index, where)])

    def delete_all_documents(self) -> None:
        """Delete every document. The index stays."""
        self.delete_by_filter({})

    def to_dict(self) -> dict[str, Any]:
        """Return the store as a pipeline is saved."""
        on, options = vars(self.on), vars(self.options)
        lists = {name: list(both[name]) for both, name in ((on, "leave_out"), (options, "filterable"))}
        kept: dict[str, Any] = default_to_dict(self, folder=self.folder, **(on | options | lists))
        return kept

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> DensliceDocumentStore:
        """Return the store of a saved pipeline."""
        made: DensliceDocumentStore = default_from_dict(cls, kept)
        return made


@component
class DensliceRetriever:
    """Retrieves the top_k best passages of a store, or of the index in a folder; documents if `group` is true."""

    @takes(SearchOptions, but_for=("k", "where", *PAGE_OPTIONS))
    def __init__(
        self,
        document_store: DensliceDocumentStore | str,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        *,
        group: bool = False,  # what is retrieved is for a model to read
        **options: Unpack[RetrieverKeywords],
    ) -> None:
        given = document_store
        self.document_store = DensliceDocumentStore(given) if isinstance(given, str) else given
        self.top_k = whole_number("top_k", top_k, 1)
        self.filters = None if filters is None else json_object(filters, "filters")  # as a pipeline is saved
        self.options = SearchOptions(self.top_k, group=group, **options)

    def warm_up(self) -> None:
        """Open the index, if there is one."""
        self.document_store.index()

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the passages or documents found. `top_k` and `filters` replace those of the component."""
        index = self.document_store.index()
        if index is None:
            raise InputError(f"{self.document_store.folder}: there is no index; write documents to the store first")
        where = where_of(self.filters if filters is None else filters)
        k = self.top_k if top_k is None else whole_number("top_k", top_k, 1)
        options = self.options.keywords() | {"k": k, "where": where}
        return {"documents": [_document(hit, self.options.group) for hit in index.search(query, **options)]}

    def to_dict(self) -> dict[str, Any]:
        """Return the component as a pipeline is saved."""
        others = ("k", "where", *PAGE_OPTIONS)
        options = {name: value for name, value in self.options.keywords().items() if name not in others}
        store = self.document_store.to_dict()
        kept: dict[str, Any] = default_to_dict(
            self, document_store=store, top_k=self.top_k, filters=self.filters, **options
        )
        return kept

    @classmethod
    def from_dict(cls, kept: dict[str, Any]) -> DensliceRetriever:
        """Return the component of a saved pipeline."""
        given = kept["init_parameters"]
        store = DensliceDocumentStore.from_dict(given["document_store"])
        made: DensliceRetriever = default_from_dict(
            cls, {**kept, "init_parameters": {**given, "document_store": store}}
        )
        return made


# --- documents


def _doc_to_store(document: Document) -> Doc:
    if document.content is None:
        raise InputError(f"document {document.id!r} has no text, and an index stores and searches texts only")
    return stored_doc(document.id, document.content, document.meta)


def _chosen(docs: list[Doc], policy: DuplicatePolicy, index: Index) -> list[Doc]:
    """Return the documents to add, each id once, as the policy wants."""
    if policy == DuplicatePolicy.OVERWRITE:
        return list({doc.id: doc for doc in docs}.values())
    new: dict[str, Doc] = {}
    for doc in docs:
        if doc.id not in new and index.get(doc.id) is None:
            new[doc.id] = doc
        elif policy != DuplicatePolicy.SKIP:
            raise DuplicateDocumentError(f"{index.path}: there is a document with the id {doc.id!r} already")
    return list(new.values())


def _document(hit: Hit, group: bool) -> Document:
    return Document(id=unique_id(hit, group), content=hit.text, meta=metadata(hit, group), score=hit.score)


# --- filters


def where_of(filters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return filters of Haystack as denslice takes them. Field names may begin with `meta.` or not."""
    return _condition(filters) if filters else None


def _condition(filters: dict[str, Any]) -> dict[str, Any]:
    is_comparison = "field" in filters
    if missing := [key for key in ("operator", "value" if is_comparison else "conditions") if key not in filters]:
        raise FilterError(f"{filters} has no {missing[0]!r}")
    operator, known = filters["operator"], COMPARISONS if is_comparison else LOGIC
    if operator not in known:
        raise FilterError(f"unknown operator {operator!r} in {filters}; known here: {', '.join(known)}")
    if is_comparison:
        return _comparison(_field(filters["field"]), operator, filters["value"])
    parts = [_condition(part) for part in filters["conditions"]]
    return {"not": {"and": parts}} if operator == "NOT" else {operator.lower(): parts}


def _field(name: str) -> str:
    if name in NOT_FILTERED:
        raise FilterError(f"filters name the field {name!r}, expected `id`, or a field of the metadata but `id`")
    return name.removeprefix("meta.")


def _comparison(field: str, operator: str, value: Any) -> dict[str, Any]:
    if operator in ORDERS:
        nothing: dict[str, Any] = {"or": []}
        if value is not None and not _is_ordered(value):
            raise FilterError(f"{operator!r} for {field!r} takes a number or a date in ISO 8601, not {value!r}")
        return nothing if value is None else {field: {ORDERS[operator]: value}}
    if operator in ("in", "not in") and not isinstance(value, list):
        raise FilterError(f"{operator!r} for {field!r} takes a list, not {type(value).__name__}")
    passing = _one_of(field, value if operator in ("in", "not in") else [value])
    return {"not": passing} if operator in ("!=", "not in") else passing


def _one_of(field: str, values: list[Any]) -> dict[str, Any]:
    """Return the condition that a field has one of the values. A missing field has the value None, as in Haystack."""
    condition = {field: {"in": values}}
    return {"or": [condition, {field: {"exists": False}}]} if None in values else condition


def _is_ordered(value: Any) -> bool:
    """Return whether a value has an order in Haystack, as numbers and dates have."""
    if not isinstance(value, str):
        return not isinstance(value, bool | list | dict)
    with suppress(ValueError):
        return bool(datetime.fromisoformat(value))
    return False
