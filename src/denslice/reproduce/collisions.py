"""What slicing takes from scores: of relevant documents and of their rivals, beside weights that nobody asks for.

Everything is computed from the vectors themselves, without an index, by the plain product of all weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from denslice.densify import split_by_slice
from denslice.index.writer import SAMPLE
from denslice.reproduce.cells import Setting, as_in_paper, lexical_models, with_full_query
from denslice.reproduce.collection import Collection
from denslice.reproduce.encoding import Encodings, Progress
from denslice.slicing import Slicing
from denslice.vectors import Encoded, Floats, Ints

RIVALS = 10  # documents that are compared with a relevant one: the best that are not relevant
AT_ONCE = 64  # queries whose scores of all documents are in memory at one time


@dataclass(frozen=True)
class Collisions:
    """What one slicing takes from a model's vectors of a collection. Shares are between 0 and 1."""

    model: str
    slices: int
    slicing: str
    query: str  # sliced or full
    weights: float  # share of the documents' weights that are lost
    asked: float  # share of the relevant documents' weights on tokens of the query that are lost
    score: float  # share of a relevant document's score that is lost, the mean over the queries
    rivals: float  # the same of the best other documents
    heaviest: float  # share of a relevant document's score that its heaviest lost token had, the mean over the queries
    fallen: int  # queries whose reciprocal rank fell
    risen: int
    score_fallen: float  # `score` of the queries whose reciprocal rank fell
    score_others: float  # and of all others
    rr_all: float  # MRR@10 with every weight
    rr: float

    def to_json(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class _Ranked:
    """For each query the row and score of its best relevant document, its reciprocal rank, and its best rivals."""

    rows: Ints  # (Q,) -1 if no relevant document has a score
    reciprocal: Floats  # (Q,) 0 beyond rank 10
    rivals: Ints  # (Q, RIVALS), -1 where there are fewer


def ways(model: Encodings, slices: Sequence[int]) -> list[Setting]:
    """Return the paper's method and denslice's for each number of slices."""
    return [setting for m in slices for setting in (as_in_paper(model, m), with_full_query(model, m))]


def measured(
    collection: Collection, models: Sequence[Encodings], slices: Sequence[int], progress: Progress
) -> list[Collisions]:
    """Return what each slicing takes from each model with a lexical part."""
    found = []
    for model in lexical_models(models):
        vectors = _Vectors(collection, model)
        for setting in ways(model, slices):
            found.append(vectors.collisions(setting))
            progress(1)
    return found


class _Vectors:
    """A model's vectors of a collection, in memory, and its ranking with every weight."""

    def __init__(self, collection: Collection, model: Encodings) -> None:
        self._docs = Encoded.joined([Encoded(part.lexical) for part in model.doc_parts()]).lexical
        self._queries = model.queries().lexical
        self._skip = model.facts.skip
        self._order = np.argsort(np.argsort(np.array(collection.doc_ids)))  # equal scores are ordered by id
        rows = {name: row for row, name in enumerate(collection.doc_ids)}
        judged = [collection.qrels[query.id] for query in collection.queries]
        self._relevant = [[rows[doc] for doc, grade in some.items() if grade > 0 and doc in rows] for some in judged]
        self._whole = self._ranked(self._queries, self._docs)

    def collisions(self, setting: Setting) -> Collisions:
        """Compare the ranking by sliced vectors with the one by all weights."""
        index = setting.index
        slicing = Slicing.made(index.slicing, self._docs[:SAMPLE], index.slices or 0, self._skip, index.seed)
        kept, lost = split_by_slice(self._docs, slicing)
        asked = split_by_slice(self._queries, slicing)[0] if setting.query == "sliced" else self._queries
        sliced = self._ranked(asked, kept)
        before, after = self._relevant_products(self._queries, self._docs), self._relevant_products(asked, kept)
        score = _lost_shares(before.sum(axis=1), after.sum(axis=1))
        change = (sliced.reciprocal - self._whole.reciprocal)[self._whole.rows >= 0]  # as many as `score`
        return Collisions(
            index.model,
            slicing.slices,
            slicing.kind,
            setting.query,
            weights=lost.nnz / max(1, lost.nnz + kept.nnz),
            asked=1 - after.nnz / max(1, before.nnz),
            score=_mean(score),
            rivals=_mean(self._rivals_lost(asked, kept)),
            heaviest=_mean(_heaviest_lost(before, after)),
            fallen=int((change < 0).sum()),
            risen=int((change > 0).sum()),
            score_fallen=_mean(score[change < 0]),
            score_others=_mean(score[change >= 0]),
            rr_all=_mean(self._whole.reciprocal),
            rr=_mean(sliced.reciprocal),
        )

    def _ranked(self, queries: sp.csr_array, docs: sp.csr_array) -> _Ranked:
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
        return _Ranked(rows, reciprocal, rivals)

    def _best_relevant(self, scores: Floats, relevant: list[int]) -> tuple[int, float]:
        """Return the row of the best relevant document, -1 if none shares a token, and its reciprocal rank to 10."""
        found = [row for row in relevant if scores[row] > 0]
        if not found:
            return -1, 0.0
        row = min(found, key=lambda one: (-scores[one], self._order[one]))
        tied = (scores == scores[row]) & (self._order < self._order[row])
        rank = 1 + int((scores > scores[row]).sum()) + int(tied.sum())
        return row, 1 / rank if rank <= 10 else 0.0

    def _relevant_products(self, queries: sp.csr_array, docs: sp.csr_array) -> sp.csr_array:
        """Return q · d by token (Q, V), of each query and the relevant document that it finds best with all weights."""
        found = self._whole.rows >= 0
        return sp.csr_array(queries[found].multiply(docs[self._whole.rows[found]]))

    def _rivals_lost(self, queries: sp.csr_array, docs: sp.csr_array) -> Floats:
        """Return the share of the rivals' scores that each query loses."""
        rows, columns = np.nonzero(self._whole.rivals >= 0)
        chosen = self._whole.rivals[rows, columns]
        before = self._queries[rows].multiply(self._docs[chosen]).sum(axis=1)
        after = queries[rows].multiply(docs[chosen]).sum(axis=1)
        sums = [np.bincount(rows, weights=some, minlength=len(self._relevant)) for some in (before, after)]
        return _lost_shares(*sums)[sums[0] > 0]


def _best_others(scores: Floats, relevant: list[int]) -> Ints:
    """Return the rows of the best documents that are not relevant and share a token with the query."""
    rest = scores.copy()
    rest[relevant] = 0
    few = min(RIVALS, len(rest))
    best = np.argpartition(-rest, few - 1)[:few]
    return best[rest[best] > 0]


def _heaviest_lost(before: sp.csr_array, after: sp.csr_array) -> Floats:
    """Return the largest product of each row that is lost, as a share of the row's sum."""
    lost = before - after
    largest: Floats = lost.max(axis=1).toarray().ravel()
    return np.asarray(largest / np.maximum(before.sum(axis=1), np.finfo(np.float32).tiny), dtype=np.float32)


def _lost_shares(before: Any, after: Any) -> Floats:
    return np.asarray(1 - after / np.maximum(before, np.finfo(np.float32).tiny), dtype=np.float32)


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else 0.0
