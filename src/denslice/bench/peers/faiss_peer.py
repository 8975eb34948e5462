"""Faiss over dense vectors of the same documents: all of them (flat), or a graph (HNSW).

The vectors are random projections of the lexical ones to 768 dimensions, which keeps neighbours close. The cost of a
search depends on the number and width of the vectors, and for a graph on their distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from denslice.bench.bench_data import Collection
from denslice.bench.contender import EXACT, Contender, Docs, Setting
from denslice.vectors import Floats

WIDTH = 768
INDEX, VECTORS, QUERIES = "index", "vectors.npy", "queries.npy"
ROWS = 65_536  # documents projected at a time


@dataclass(frozen=True)
class Faiss(Contender):
    """An index by inner product; `parameters` hold Faiss's name of its kind."""

    efforts: Sequence[int] = ()
    packages: Sequence[str] = ("faiss-cpu",)
    files: Sequence[str] = (INDEX,)
    built_as: str = "faiss"
    module: str = "faiss"
    dense: bool = True

    def settings(self, k: int) -> Sequence[Setting]:
        return [{"efSearch": max(k, effort)} for effort in self.efforts] or EXACT

    def prepare(self, collection: Collection, folder: Path) -> None:
        directions = np.random.default_rng(0).standard_normal((collection.docs.shape[1], WIDTH), dtype=np.float32)
        lexical = collection.docs[: self.most_docs]
        docs = np.lib.format.open_memmap(folder / VECTORS, "w+", np.float32, (lexical.shape[0], WIDTH))
        for start in range(0, len(docs), ROWS):
            docs[start : start + ROWS] = _unit(lexical[start : start + ROWS], directions)
        np.save(folder / QUERIES, _unit(collection.queries, directions))

    def build(self, collection: Collection, folder: Path) -> None:
        import faiss

        docs: Floats = np.load(folder / VECTORS, mmap_mode="r")
        index: Any = faiss.index_factory(WIDTH, self.parameters["kind"], faiss.METRIC_INNER_PRODUCT)
        if "efConstruction" in self.parameters:
            index.hnsw.efConstruction = self.parameters["efConstruction"]
        index.add(docs)
        faiss.write_index(index, str(folder / INDEX))

    def open(self, collection: Collection, folder: Path) -> _OpenedFaiss:
        return _OpenedFaiss(folder)


class _OpenedFaiss:
    def __init__(self, folder: Path) -> None:
        import faiss

        self._index: Any = faiss.read_index(str(folder / INDEX))
        self._queries: Floats = np.load(folder / QUERIES)

    def query(self, at: int) -> Floats:
        return self._queries[at : at + 1]

    def search(self, query: Floats, k: int, setting: Setting) -> Docs:
        if setting:
            self._index.hnsw.efSearch = setting["efSearch"]
        return np.asarray(self._index.search(query, k)[1])

    def docs(self, answer: Docs) -> Docs:
        return np.asarray(answer[0])

    def search_all(self, k: int, setting: Setting) -> int:
        return len(self.search(self._queries, k, setting))


def best_by_dense_product(folder: Path, depth: int) -> Docs:
    """Return the best documents (queries, depth) by the product with every vector."""
    docs, queries = np.load(folder / VECTORS, mmap_mode="r"), np.load(folder / QUERIES)
    scores = np.concatenate([docs[start : start + ROWS] @ queries.T for start in range(0, len(docs), ROWS)])
    best = np.argpartition(-scores, min(depth, len(scores) - 1), axis=0)[:depth]
    order = np.argsort(-np.take_along_axis(scores, best, axis=0), axis=0, kind="stable")
    return np.take_along_axis(best, order, axis=0).T.astype(np.int64)


def _unit(rows: sp.csr_array, directions: Floats) -> Floats:
    dense: Floats = rows @ directions
    dense /= np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-12)
    return dense


FLAT = Faiss("Faiss flat, 768-d", {"kind": "Flat"})
HNSW = Faiss(
    "Faiss HNSW, 768-d",
    {"kind": "HNSW32", "efConstruction": 40},
    efforts=(16, 32, 64, 128, 256, 512, 1024),
    most_docs=100_000,  # a million take an hour to build
    is_linear=False,
)
