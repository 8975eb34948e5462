"""scipy alone: the product of a CSR matrix of all documents with the query, and numpy's k best scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from denslice.bench.bench_data import Collection
from denslice.bench.contender import Contender, Docs, Setting

PARTS = ("data", "indices", "indptr")


@dataclass(frozen=True)
class Csr(Contender):
    """A CSR matrix with a row for each document."""

    name: str = "scipy CSR"
    packages: Sequence[str] = ("scipy", "numpy")
    files: Sequence[str] = ("*.npy",)
    built_as: str = "csr"
    module: str = "scipy"

    def build(self, collection: Collection, folder: Path) -> None:
        for name in PARTS:
            np.save(folder / f"{name}.npy", getattr(collection.docs, name))

    def open(self, collection: Collection, folder: Path) -> _OpenedCsr:
        return _OpenedCsr(collection, folder)


class _OpenedCsr:
    def __init__(self, collection: Collection, folder: Path) -> None:
        self._queries = collection.queries
        parts = [np.load(folder / f"{name}.npy") for name in PARTS]
        self._docs = sp.csr_array(tuple(parts), (len(parts[2]) - 1, self._queries.shape[1]))

    def query(self, at: int) -> Any:
        return self._queries[at : at + 1].toarray()[0]

    def search(self, query: Any, k: int, setting: Setting) -> Docs:
        return best_of(self._docs @ query, k)

    def docs(self, answer: Docs) -> Docs:
        return answer

    def search_all(self, k: int, setting: Setting) -> int:
        scores = self._queries @ self._docs.T.tocsc()  # one product; scipy uses one core
        return sum(len(best_of(scores[[row]].toarray()[0], k)) > 0 for row in range(scores.shape[0]))


def best_of(scores: Any, k: int) -> Docs:
    """Return the positions of the k best scores, best first."""
    best = np.argpartition(-scores, min(k, len(scores) - 1))[:k]
    return np.asarray(best[np.argsort(-scores[best], kind="stable")], dtype=np.int64)
