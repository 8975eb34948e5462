"""denslice itself, on ready vectors or on texts with the encoder bm25, through the calls a user makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from denslice import Index, Query, Ranking
from denslice.bench.bench_data import BenchTexts, Collection
from denslice.bench.contender import EXACT, Contender, Docs, Setting

INDEX = "index"


@dataclass(frozen=True)
class Denslice(Contender):
    """An index of the collection's vectors, or of its texts with the encoder bm25."""

    name: str = "denslice"
    approximate: Sequence[Setting] = ()  # settings besides the exact one
    packages: Sequence[str] = ("numpy", "scipy", "numba", "llvmlite")
    files: Sequence[str] = (f"{INDEX}/*", f"{INDEX}/vocabulary/*", f"{INDEX}/segments/*/*.arrays")  # but the texts
    built_as: str = "denslice"
    module: str = "denslice"

    def settings(self, k: int) -> Sequence[Setting]:
        return [*EXACT, *self.approximate]

    def prepare(self, collection: Collection, folder: Path) -> None:
        _ = collection.texts if isinstance(collection, BenchTexts) else collection.docs

    def build(self, collection: Collection, folder: Path) -> None:
        kind: dict[str, Any] = dict(self.parameters)
        if isinstance(collection, BenchTexts):
            index = Index.create(folder / INDEX, "bm25", **kind)
            index.add({"id": str(row), "text": text} for row, text in enumerate(collection.texts))
        else:
            ids = [str(row) for row in range(collection.docs.shape[0])]
            index = Index.create(folder / INDEX, "vectors", vocab=collection.docs.shape[1], **kind)
            index.add_vectors(ids, collection.docs)

    def open(self, collection: Collection, folder: Path) -> OpenedTexts | OpenedVectors:
        index = Index.open(folder / INDEX)
        if isinstance(collection, BenchTexts):
            return OpenedTexts(index, collection)
        return OpenedVectors(index, collection)


class OpenedVectors:
    """An index of ready vectors."""

    def __init__(self, index: Index, collection: Collection) -> None:
        self._index = index
        self._queries = collection.queries
        rows = (self._queries[at : at + 1] for at in range(self._queries.shape[0]))
        weights = [zip(map(str, row.indices.tolist()), row.data.tolist(), strict=True) for row in rows]
        self._asked = [Query("", vector=dict(some)) for some in weights]

    def query(self, at: int) -> sp.csr_array:
        return self._queries[at : at + 1]

    def search(self, query: sp.csr_array, k: int, setting: Setting) -> Ranking:
        return self._index.search_vectors(query, k=k, **setting)

    def docs(self, answer: Ranking) -> Docs:
        return np.array(answer.ids, dtype=np.int64)

    def search_all(self, k: int, setting: Setting) -> int:
        return sum(1 for _ in self._index.rank(self._asked, k, **setting))


class OpenedTexts:
    """An index of texts: the time includes tokenising and stemming the query."""

    def __init__(self, index: Index, collection: BenchTexts) -> None:
        self._index = index
        self._questions = collection.questions

    def query(self, at: int) -> str:
        return self._questions[at]

    def search(self, query: str, k: int, setting: Setting) -> Ranking:
        return self._index.search(query, k, **setting)

    def docs(self, answer: Ranking) -> Docs:
        return np.array(answer.ids, dtype=np.int64)

    def search_all(self, k: int, setting: Setting) -> int:
        return len(self._index.search_batch(self._questions, k, **setting))
