"""A model's vectors in memory, ranked by the plain product of all weights or of those that a slicing keeps."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from denslice.densify import split_by_slice
from denslice.encoders.bm25 import idf
from denslice.index.writer import SAMPLE
from denslice.reproduce.cells import Setting
from denslice.reproduce.collection import Collection
from denslice.reproduce.encoding import BM25, Encodings
from denslice.slicing import Slicing
from denslice.vectors import Encoded, Floats, Ints

RIVALS = 10  # documents that are compared with a relevant one: the best that are not relevant
AT_ONCE = 64  # queries whose scores of all documents are in memory at one time


@dataclass(frozen=True)
class RankedQueries:
    """For each query the row and score of its best relevant document, its reciprocal rank, and its best rivals."""

    rows: Ints  # (Q,) -1 if no relevant document has a score
    reciprocal: Floats  # (Q,) 0 beyond rank 10
    rivals: Ints  # (Q, RIVALS), -1 where there are fewer


@dataclass(frozen=True)
class SlicedVectors:
    """What a slicing keeps, and the ranking by it."""

    slicing: Slicing
    queries: sp.csr_array  # (Q, V)
    docs: sp.csr_array  # (n, V)
    lost: int  # weights of documents
    ranked: RankedQueries


class ModelVectors:
    """A model's vectors of a collection, and its ranking with every weight."""

    def __init__(self, collection: Collection, model: Encodings) -> None:
        self.docs = Encoded.joined([Encoded(part.lexical) for part in model.doc_parts()]).lexical
        self.queries = model.queries().lexical
        self._is_bm25 = model.facts.lexical == BM25
        self._skip = model.facts.skip
        self._order = np.argsort(np.argsort(np.array(collection.doc_ids)))  # equal scores are ordered by id
        rows = {name: row for row, name in enumerate(collection.doc_ids)}
        judged = [collection.qrels[query.id] for query in collection.queries]
        self._relevant = [[rows[doc] for doc, grade in some.items() if grade > 0 and doc in rows] for some in judged]
        self.ranked = self._ranked(self.queries, self.docs)

    def sliced(self, setting: Setting) -> SlicedVectors:
        """Return what is left with a setting's slicing."""
        index = setting.index
        slicing = Slicing.made(index.slicing, self.docs[:SAMPLE], index.slices or 0, self._skip, index.seed)
        kept, lost = split_by_slice(self.docs, slicing)
        asked = split_by_slice(self.queries, slicing)[0] if setting.query == "sliced" else self.queries
        return SlicedVectors(slicing, asked, kept, lost.nnz, self._ranked(asked, kept))

    def with_idf_in_docs(self) -> ModelVectors | None:
        """Return the vectors with BM25's idf in the documents, and so with the same scores; None of another model."""
        if not self._is_bm25:
            return None
        weights = idf(np.bincount(self.docs.indices, minlength=self.docs.shape[1]), self.docs.shape[0])
        found = copy(self)
        found.docs, found.queries = _times(self.docs, weights), _times(self.queries, np.reciprocal(weights))
        return found

    def relevant_products(self, queries: sp.csr_array, docs: sp.csr_array) -> sp.csr_array:
        """Return q · d by token (Q, V), of each query and the relevant document that it finds best with all weights."""
        found = self.ranked.rows >= 0
        return sp.csr_array(queries[found].multiply(docs[self.ranked.rows[found]]))

    def _ranked(self, queries: sp.csr_array, docs: sp.csr_array) -> RankedQueries:
        columns = docs.T.tocsr()
        count = queries.shape[0]
        rows, reciprocal = np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.float32)
        rivals = np.full((count, RIVALS), -1, dtype=np.int64)
        for first in range(0, count, AT_ONCE):
            scores = (queries[first : first + AT_ONCE] @ columns).toarray()  # (some, docs)
            for at, some in enumerate(scores, first):
                rows[at], reciprocal[at] = self._best_relevant(some, self._relevant[at])
                others = _best_others(some, self._relevant[at])
                rivals[at, : len(others)] = others
        return RankedQueries(rows, reciprocal, rivals)

    def _best_relevant(self, scores: Floats, relevant: list[int]) -> tuple[int, float]:
        """Return the row of the best relevant document, -1 if none shares a token, and its reciprocal rank to 10."""
        found = [row for row in relevant if scores[row] > 0]
        if not found:
            return -1, 0.0
        row = min(found, key=lambda one: (-scores[one], self._order[one]))
        tied = (scores == scores[row]) & (self._order < self._order[row])
        rank = 1 + int((scores > scores[row]).sum()) + int(tied.sum())
        return row, 1 / rank if rank <= 10 else 0.0


def _times(rows: sp.csr_array, weights: Floats) -> sp.csr_array:
    """Return rows with the weight of each token times another one."""
    data = (rows.data * weights[rows.indices]).astype(np.float32)
    return sp.csr_array((data, rows.indices, rows.indptr), rows.shape)


def _best_others(scores: Floats, relevant: list[int]) -> Ints:
    """Return the rows of the best documents that are not relevant and share a token with the query."""
    rest = scores.copy()
    rest[relevant] = 0
    few = min(RIVALS, len(rest))
    best = np.argpartition(-rest, few - 1)[:few]
    return best[rest[best] > 0]
