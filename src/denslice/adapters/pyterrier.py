"""An index in PyTerrier: `DensliceIndexer("my.idx").index(corpus)`, and `DensliceRetriever(index)` for pipelines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Unpack

from denslice.errors import InputError, MissingExtraError

try:
    import pandas as pd
    import pyterrier as pt
except ModuleNotFoundError as error:
    raise MissingExtraError("the PyTerrier adapter", "pyterrier") from error

from denslice.adapters.stored_docs import given_metadata, stored_doc
from denslice.cluster.cluster import Cluster
from denslice.index.index import Index
from denslice.json_cells import row_of
from denslice.options import (
    PAGE_OPTIONS,
    IndexOptions,
    MoreIndexKeywords,
    RetrieverKeywords,
    SearchOptions,
    shown,
    takes,
)
from denslice.queries import Query
from denslice.rankings import Hit
from denslice.records import Doc
from denslice.scalars import whole_number

HELP = "https://github.com/denslice/denslice/blob/main/docs/integrations.md"  # given, or PyTerrier asks its own site
OPTIONS = [one.name for one in shown(SearchOptions) if one.name not in ("k", "group", *PAGE_OPTIONS)]


class DensliceRetriever(pt.Transformer):
    """A transformer from queries (qid, query) to the num_results best documents of each (docno, score, rank).

    `fields` are further columns of the results: text, title, or fields of the metadata. Queries are plain texts, as in
    a run: they have no operators. Options are attributes, which `pt.GridSearch` can tune.
    """

    schematic: ClassVar = {"help_url": HELP}

    @takes(SearchOptions, but_for=("k", "group", *PAGE_OPTIONS))
    def __init__(
        self,
        index: Index | Cluster,
        num_results: int = 1000,
        *,
        fields: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        **options: Unpack[RetrieverKeywords],
    ) -> None:
        self.index, self.fields = index, tuple(fields)
        self.num_results = whole_number("num_results", num_results, 1)
        checked = SearchOptions(where=where, **options).keywords()
        vars(self).update({name: checked[name] for name in OPTIONS})

    def __repr__(self) -> str:
        chosen = "".join(f", {name}={getattr(self, name)!r}" for name in ("num_results", "fields", *OPTIONS))
        return f"DensliceRetriever({self.index!r}{chosen})"

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Return the results of each query, best first, equal scores by docno."""
        pt.validate.query_frame(inp, extra_columns=["query"])
        queries = [Query(id, text) for id, text in zip(inp["qid"], inp["query"], strict=True)]
        options: dict[str, Any] = {name: getattr(self, name) for name in OPTIONS}
        found = list(self.index.rank(queries, self.num_results, **options))
        results = inp.loc[inp.index.repeat([len(ranking) for ranking in found])].reset_index(drop=True)
        results["docno"] = pd.Series([id for ranking in found for id in ranking.ids], dtype=object)
        results["score"] = pd.Series([score for ranking in found for score in ranking.scores], dtype=float)
        results["rank"] = pd.Series([rank for ranking in found for rank in range(len(ranking))], dtype=int)
        for name in self.fields:
            results[name] = pd.Series([_field(hit, name) for ranking in found for hit in ranking], dtype=object)
        return results

    def fuse_rank_cutoff(self, k: int) -> DensliceRetriever:
        """Return a retriever of at most k documents, as which PyTerrier compiles `retriever % k`."""
        fused = copy(self)
        fused.num_results = min(k, self.num_results)
        return fused


class DensliceIndexer(pt.Indexer):
    """Creates an index in a new folder, with the options of `Index.create`, from documents with docno and text.

    A title is searched as one; other fields are metadata.
    """

    schematic: ClassVar = {"help_url": HELP}

    @takes(IndexOptions)
    def __init__(self, path: str | Path, encoder: str = "mini", **options: Unpack[MoreIndexKeywords]) -> None:
        self.path, self.options = path, IndexOptions(encoder, **options)

    def __repr__(self) -> str:
        return f"DensliceIndexer({str(self.path)!r}, {self.options!r})"

    def index_inputs(self) -> list[list[str]]:
        """Return the fields that documents need."""
        return [["docno", "text"]]

    def index(self, iter: Iterable[Mapping[str, Any]]) -> Index:  # type: ignore[override]
        """Create the index, add the documents in one commit, and return the index."""
        index = Index.create(self.path, **vars(self.options))
        index.add(map(_doc_of, iter))
        return index


def _doc_of(given: Mapping[str, Any]) -> Doc:
    """Return the document of a record, without its missing cells, which are NaN after a transformer of frames."""
    if lacks := [name for name in ("docno", "text") if name not in given]:
        found = ", ".join(given)
        raise InputError(f"a document has no field {lacks[0]!r}, only {found}; rename one by pt.apply before indexing")
    others = row_of(given, given.values())
    text = others.pop("text", "")
    return stored_doc(others.pop("docno", None), text, others)


def _field(hit: Hit, name: str) -> Any:
    return hit.text if name == "text" else given_metadata(hit).get(name)
