"""The vectors of a benchmark: documents and queries as CSR, and the exact best documents of each query."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from denslice.errors import InputError
from denslice.store.files import sha256_of
from denslice.vectors import lexical_csr

DEPTH = 1_000  # how many of the best documents are known for each query
DOCS, QUERIES, BEST = "docs.npz", "queries.npz", "best.npy"


@dataclass(frozen=True, eq=False)
class Collection:
    """Vectors of documents and of queries, from the folder `source` with docs.npz and queries.npz."""

    source: Path
    docs: sp.csr_array  # (documents, vocabulary)
    queries: sp.csr_array  # (queries, vocabulary)

    @classmethod
    def read(cls, source: Path) -> Collection:
        """The vectors in a folder."""
        parts = []
        for name in (DOCS, QUERIES):
            try:
                parts.append(lexical_csr(sp.load_npz(source / name)))
            except (OSError, ValueError) as error:
                raise InputError(f"{source / name}: expected a scipy sparse matrix ({error})") from None
        return cls(source, *parts)

    @cached_property
    def name(self) -> str:
        """A name that no other vectors have: how many documents, and the beginning of the file's SHA-256."""
        return f"{self.docs.shape[0]}-{sha256_of(self.source / DOCS)[:12]}"

    def first(self, count: int) -> Collection:
        """The collection with only its first documents."""
        return self if count >= self.docs.shape[0] else Collection(self.source, self.docs[:count], self.queries)

    def best(self, work: Path) -> npt.NDArray[np.int64]:
        """The best DEPTH documents of each query by exact search of the whole vectors; found once, then kept."""
        path = work / self.name / BEST
        if path.exists():
            return np.load(path)
        found = best_by_product(self.docs, self.queries)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, found)
        return found


def best_by_product(docs: sp.csr_array, queries: sp.csr_array) -> npt.NDArray[np.int64]:
    """The best DEPTH documents (queries, DEPTH) by the sparse product, best first, equal ones by position."""
    columns = sp.csc_array(docs)
    best = []
    for row in range(queries.shape[0]):
        query = queries[row : row + 1]
        scores = columns[:, query.indices] @ query.data
        order = np.argsort(-scores, kind="stable")[:DEPTH]
        best.append(order)
    return np.stack(best).astype(np.int64)
