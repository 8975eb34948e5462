"""The collections of the benchmark, vectors or texts, with the exact best documents of each query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from denslice.corpus.documents import read_docs
from denslice.errors import InputError
from denslice.reproduce.collection import read_collection
from denslice.reproduce.whole_bm25 import WholeBm25
from denslice.store.files import sha256_of
from denslice.vectors import lexical_csr, stacked

DEPTH = 1_000  # best documents that are known for each query
BATCH = 4_096  # texts encoded at a time
Best = npt.NDArray[np.int64]  # (queries, DEPTH) positions of documents, best first


@dataclass(frozen=True)
class BenchVectors:
    """A folder with docs.npz and queries.npz, scipy CSR matrices of one width."""

    folder: Path

    @property
    def told(self) -> str:
        """Its name in a result line."""
        return self.folder.name

    @cached_property
    def name(self) -> str:
        """A name that is unique to these vectors."""
        return f"{self.folder.name}-{sha256_of(self.folder / 'docs.npz')[:12]}"

    @cached_property
    def docs(self) -> sp.csr_array:
        """(documents, vocabulary)"""
        return self._read("docs.npz")

    @cached_property
    def queries(self) -> sp.csr_array:
        """(queries, vocabulary)"""
        return self._read("queries.npz")

    def _read(self, name: str) -> sp.csr_array:
        try:
            return lexical_csr(sp.load_npz(self.folder / name))
        except (OSError, ValueError) as error:
            raise InputError(f"{self.folder / name}: expected a scipy sparse matrix ({error})") from None


@dataclass(frozen=True)
class BenchTexts:
    """A BEIR folder. Its vectors are BM25's with every weight, so that the exact results are BM25's."""

    folder: Path
    split: str = "test"

    @property
    def told(self) -> str:
        """Its name in a result line."""
        return f"{self.folder.name}, BM25"

    @cached_property
    def name(self) -> str:
        """A name that is unique to these texts."""
        return f"{self.folder.name}-{sha256_of(self.folder / 'corpus.jsonl')[:12]}"

    @cached_property
    def texts(self) -> list[str]:
        """The title and text of each document."""
        return [doc.contents for doc in read_docs([self.folder])]

    @cached_property
    def questions(self) -> list[str]:
        """The queries of the split."""
        return [query.text for query in read_collection(str(self.folder), self.split).queries]

    @cached_property
    def _bm25(self) -> WholeBm25:
        return WholeBm25(iter(self.texts))

    @cached_property
    def docs(self) -> sp.csr_array:
        """(documents, vocabulary)"""
        texts = self.texts
        starts = range(0, len(texts), BATCH)
        return stacked([self._bm25.encode_docs(texts[start : start + BATCH]).lexical for start in starts])

    @cached_property
    def queries(self) -> sp.csr_array:
        """(queries, vocabulary)"""
        return self._bm25.encode_queries(self.questions).lexical


Collection = BenchVectors | BenchTexts


def best_documents(collection: Collection, work: Path, docs: int) -> Best:
    """Return the best of the first `docs` documents for each query, by exact search of whole vectors.

    They are cached in `work`.
    """
    path = work / collection.name / f"best-{docs}.npy"
    if path.exists():
        return np.asarray(np.load(path))
    found = best_by_product(collection.docs[:docs], collection.queries)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, found)
    return found


def best_by_product(docs: sp.csr_array, queries: sp.csr_array) -> Best:
    """Return the best documents by sparse product, ties by position."""
    columns = sp.csc_array(docs)
    best = []
    for row in range(queries.shape[0]):
        keys, weights = queries[row : row + 1].indices, queries[row : row + 1].data
        scores = np.zeros(docs.shape[0], dtype=np.float32)
        for key, weight in zip(keys, weights, strict=True):
            span = slice(columns.indptr[key], columns.indptr[key + 1])
            scores[columns.indices[span]] += weight * columns.data[span]
        best.append(np.argsort(-scores, kind="stable")[:DEPTH])
    return np.stack(best).astype(np.int64)


def recall(found: Sequence[npt.NDArray[np.int64]], best: Best, depth: int) -> float:
    """Return the mean share of each query's `depth` best documents among the first `depth` that were found."""
    pairs = zip(found, best, strict=False)  # a slow contender answers only the first queries
    return float(np.mean([np.isin(exact[:depth], some[:depth]).mean() for some, exact in pairs]))
