"""What slicing takes from scores: of relevant documents and of their rivals, beside weights that nobody asks for.

Everything is computed from the vectors themselves, without an index, by the plain product of all weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from denslice.reproduce.cells import Setting, as_in_paper, lexical_models, with_full_query
from denslice.reproduce.collection import Collection
from denslice.reproduce.encoding import Encodings, Progress
from denslice.reproduce.ranked_vectors import ModelVectors, SlicedVectors
from denslice.vectors import Floats


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


def ways(model: Encodings, slices: Sequence[int]) -> list[Setting]:
    """Return the paper's method and denslice's for each number of slices."""
    return [setting for m in slices for setting in (as_in_paper(model, m), with_full_query(model, m))]


def measured(
    collection: Collection, models: Sequence[Encodings], slices: Sequence[int], progress: Progress
) -> list[Collisions]:
    """Return what each slicing takes from each model with a lexical part."""
    found = []
    for model in lexical_models(models):
        vectors = ModelVectors(collection, model)
        for setting in ways(model, slices):
            found.append(_collisions(vectors, setting))
            progress(1)
    return found


def _collisions(vectors: ModelVectors, setting: Setting) -> Collisions:
    """Compare the ranking by sliced vectors with the one by all weights."""
    sliced, whole = vectors.sliced(setting), vectors.ranked
    before = vectors.relevant_products(vectors.queries, vectors.docs)
    after = vectors.relevant_products(sliced.queries, sliced.docs)
    score = _lost_shares(before.sum(axis=1), after.sum(axis=1))
    change = (sliced.ranked.reciprocal - whole.reciprocal)[whole.rows >= 0]  # as many as `score`
    return Collisions(
        setting.index.model,
        sliced.slicing.slices,
        sliced.slicing.kind,
        setting.query,
        weights=sliced.lost / max(1, sliced.lost + sliced.docs.nnz),
        asked=1 - after.nnz / max(1, before.nnz),
        score=_mean(score),
        rivals=_mean(_rivals_lost(vectors, sliced)),
        heaviest=_mean(_heaviest_lost(before, after)),
        fallen=int((change < 0).sum()),
        risen=int((change > 0).sum()),
        score_fallen=_mean(score[change < 0]),
        score_others=_mean(score[change >= 0]),
        rr_all=_mean(whole.reciprocal),
        rr=_mean(sliced.ranked.reciprocal),
    )


def _rivals_lost(vectors: ModelVectors, sliced: SlicedVectors) -> Floats:
    """Return the share of the rivals' scores that each query loses."""
    rows, columns = np.nonzero(vectors.ranked.rivals >= 0)
    chosen = vectors.ranked.rivals[rows, columns]
    before = vectors.queries[rows].multiply(vectors.docs[chosen]).sum(axis=1)
    after = sliced.queries[rows].multiply(sliced.docs[chosen]).sum(axis=1)
    sums = [np.bincount(rows, weights=some, minlength=len(vectors.ranked.rows)) for some in (before, after)]
    return _lost_shares(*sums)[sums[0] > 0]


def _heaviest_lost(before: sp.csr_array, after: sp.csr_array) -> Floats:
    """Return the largest product of each row that is lost, as a share of the row's sum."""
    lost = before - after
    largest: Floats = lost.max(axis=1).toarray().ravel()
    return np.asarray(largest / np.maximum(before.sum(axis=1), np.finfo(np.float32).tiny), dtype=np.float32)


def _lost_shares(before: Any, after: Any) -> Floats:
    return np.asarray(1 - after / np.maximum(before, np.finfo(np.float32).tiny), dtype=np.float32)


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else 0.0
