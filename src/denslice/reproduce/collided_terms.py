"""Which terms of queries collide: how much of the score they had, and which token has their place.

A term is a token that a query and the relevant document both have. It is lost if the slicing of either keeps another
token of its slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from denslice.reproduce.cells import as_in_paper, lexical_models
from denslice.reproduce.collection import Collection
from denslice.reproduce.encoding import Encodings, Progress
from denslice.reproduce.ranked_vectors import ModelVectors, SlicedVectors
from denslice.vectors import Floats, Ints

LIMITS = (0.25, 0.1, 0.05, 0.0)  # shares of the score with all weights, by which terms are counted
EXAMPLES = 5  # queries that are shown with their lost terms


@dataclass(frozen=True)
class TermClass:
    """The terms whose share of their query's score is at least `least`, and below that of the class before."""

    least: float
    terms: int
    lost: int
    score_lost: float  # share of all lost score that was these terms'


@dataclass(frozen=True)
class LostTerm:
    """A term that collided."""

    token: str
    share: float  # of the score with all weights
    kept: str  # the token that the slice has instead
    by: str  # document or query: whose slice it is


@dataclass(frozen=True)
class FallenQuery:
    """A query whose relevant document fell, with the terms that it lost, the heaviest first."""

    text: str
    reciprocal: tuple[float, float]  # with all weights, and with sliced ones; 0 beyond rank 10
    lost: list[LostTerm]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> FallenQuery:
        """Return the query that a JSON object tells of."""
        before, after = told["reciprocal"]
        return cls(told["text"], (before, after), [LostTerm(**one) for one in told["lost"]])


@dataclass(frozen=True)
class IdfInDocs:
    """What BM25 loses with its idf in the documents, so that their slices keep rare words, and what that gains."""

    rr_lost: float  # share of MRR@10 with all weights
    gain: float  # of MRR@10, against idf in the query
    half: float | None  # of the gain's 95 % interval over the queries; None of a single query


@dataclass(frozen=True)
class CollidedTerms:
    """What one number of slices takes from the terms of a model's queries, with the paper's method."""

    model: str
    slices: int
    rr_lost: float  # share of MRR@10 with all weights
    idf_in_docs: IdfInDocs | None  # None of another model than BM25
    classes: list[TermClass]
    examples: list[FallenQuery]

    def to_json(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        return asdict(self)


def measured(
    collection: Collection, models: Sequence[Encodings], slices: Sequence[int], progress: Progress
) -> list[CollidedTerms]:
    """Return the collided terms of each model with a lexical part, for each number of slices."""
    found = []
    for model in lexical_models(models):
        vectors, tokens = ModelVectors(collection, model), model.tokens()
        weighed, texts = vectors.with_idf_in_docs(), [query.text for query in collection.queries]
        for count in slices:
            way = as_in_paper(model, count)
            sliced = vectors.sliced(way)
            before = vectors.relevant_products(vectors.queries, vectors.docs)
            after = vectors.relevant_products(sliced.queries, sliced.docs)
            idf_in_docs = None if weighed is None else _idf_in_docs(weighed, weighed.sliced(way), sliced)
            examples = _examples(vectors, sliced, texts, tokens)
            lost, classes = _rr_lost(vectors, sliced), term_classes(before, after)
            found.append(CollidedTerms(model.name, count, lost, idf_in_docs, classes, examples))
            progress(1)
    return found


def term_classes(before: sp.csr_array, after: sp.csr_array) -> list[TermClass]:
    """Count terms (Q, V) and those that are lost, by their share of the score of their query."""
    shares, is_lost = _shares(before), _is_lost(before, after)
    every = max(float(shares[is_lost].sum()), float(np.finfo(np.float32).tiny))
    found, upper = [], np.inf
    for least in LIMITS:
        inside = (shares >= least) & (shares < upper)
        gone = inside & is_lost
        found.append(TermClass(least, int(inside.sum()), int(gone.sum()), float(shares[gone].sum()) / every))
        upper = least
    return found


def _rr_lost(vectors: ModelVectors, sliced: SlicedVectors) -> float:
    """Return the share of MRR@10 that is lost."""
    whole = float(vectors.ranked.reciprocal.mean())
    return 1 - float(sliced.ranked.reciprocal.mean()) / whole if whole else 0.0


def _idf_in_docs(weighed: ModelVectors, sliced: SlicedVectors, usual: SlicedVectors) -> IdfInDocs:
    gains = (sliced.ranked.reciprocal - usual.ranked.reciprocal).astype(np.float64)
    return IdfInDocs(_rr_lost(weighed, sliced), float(gains.mean()), _half(gains))


def _half(values: npt.NDArray[np.float64]) -> float | None:
    """Return half the 95 % interval of a mean, by Student's t; None of a single value."""
    from scipy.stats import t

    count = len(values)
    return None if count < 2 else float(t.ppf(0.975, count - 1) * values.std(ddof=1) / count**0.5)


def _shares(products: sp.csr_array) -> Floats:
    """Return the share of the sum of its row that each stored product has."""
    sums = np.repeat(products.sum(axis=1), np.diff(products.indptr))
    return np.asarray(products.data / sums, dtype=np.float32)


def _is_lost(before: sp.csr_array, after: sp.csr_array) -> npt.NDArray[np.bool_]:
    """Return whether each stored product of `before` is missing in `after`."""
    return ~np.isin(_places(before), _places(after))


def _places(products: sp.csr_array) -> Ints:
    """Return a number for the row and column of each stored product."""
    rows = np.repeat(np.arange(products.shape[0], dtype=np.int64), np.diff(products.indptr))
    places: Ints = rows * products.shape[1] + products.indices
    return places


def _examples(
    vectors: ModelVectors, sliced: SlicedVectors, texts: Sequence[str], tokens: Sequence[str]
) -> list[FallenQuery]:
    """Return the queries that lose most of their reciprocal rank; of equal ones the first."""
    whole, left = vectors.ranked, sliced.ranked
    fallen = whole.reciprocal - left.reciprocal
    worst = [int(at) for at in np.argsort(-fallen, kind="stable")[:EXAMPLES] if fallen[at] > 0]
    return [
        FallenQuery(
            texts[at],
            (float(whole.reciprocal[at]), float(left.reciprocal[at])),
            _lost_terms(vectors, sliced, at, tokens),
        )
        for at in worst
    ]


def _lost_terms(vectors: ModelVectors, sliced: SlicedVectors, at: int, tokens: Sequence[str]) -> list[LostTerm]:
    """Return the lost terms of a query, the heaviest first."""
    row = int(vectors.ranked.rows[at])
    before = sp.csr_array(vectors.queries[[at]].multiply(vectors.docs[[row]]))
    after = sp.csr_array(sliced.queries[[at]].multiply(sliced.docs[[row]]))
    in_doc, in_query = (_kept_by_slice(some, sliced) for some in (sliced.docs[[row]], sliced.queries[[at]]))
    found = []
    for token, share, is_lost in zip(before.indices, _shares(before), _is_lost(before, after), strict=True):
        if is_lost:
            place = int(sliced.slicing.slice_of[token])
            by, kept = ("document", in_doc) if in_doc.get(place) != token else ("query", in_query)
            instead = tokens[kept[place]] if place in kept else ""  # nothing has the place of a skipped token
            found.append(LostTerm(tokens[token], float(share), instead, by))
    return sorted(found, key=lambda one: -one.share)


def _kept_by_slice(row: sp.csr_array, sliced: SlicedVectors) -> dict[int, int]:
    """Return the token that each slice of a row has kept."""
    ids: Ints = row.indices
    return {int(sliced.slicing.slice_of[id]): int(id) for id in ids}
