"""The query that a searcher takes, the documents that it returns, and the protocol of searchers.

The CPU and the GPU implement `Searcher`: they return the same documents in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from denslice.options import OpenOptions, SearchOptions
from denslice.search.conditions import NO_CONDITIONS, Conditions
from denslice.store.manifest import QUICK
from denslice.store.segment import Segment
from denslice.vectors import Floats, Ints, Phrases

STRONGEST = 8  # weights that stage one uses at least, however large θ is
FEW_MORE = 256  # up to k + FEW_MORE candidates are all rescored at once
Mask = npt.NDArray[np.uint8]  # a 0 for each row that must not be found, or empty to allow all rows
NO_MASK: Mask = np.zeros(0, dtype=np.uint8)
NO_ROWS: Ints = np.zeros(0, dtype=np.int64)
NO_SCORES: Floats = np.zeros(0, dtype=np.float32)


class QuickScales(NamedTuple):
    """What the words and the dense vector of a query are multiplied by for documents of the quick level.

    A quick vector knows less than a full one, and words say more about what it does not know.
    """

    words: float
    vector: float


@dataclass(frozen=True)
class QueryVectors:
    """The keys of a query in rising order, their weights (above 0), and its dense vector times λ, if it has one.

    `phrases` has the phrases of the query by key, for explanations. If `products` is given, the dense scores of the
    passages of each segment are kept in it by name, because the query is searched several times. A searcher looks
    neither at `conditions`, which become masks, nor at `quick`: see `at`.
    """

    keys: Ints
    weights: Floats
    dense: Floats | None = None
    phrases: Phrases = field(default_factory=dict)
    products: dict[str, Floats] | None = field(default=None, compare=False)
    conditions: Conditions = NO_CONDITIONS
    quick: QuickScales | None = None

    def at(self, level: str) -> QueryVectors:
        """Return the query by which documents of a level are scored, so that the scores of both levels compare."""
        if level != QUICK or self.quick is None:
            return self
        dense = None if self.dense is None else np.float32(self.quick.vector) * self.dense
        return replace(self, weights=np.float32(self.quick.words) * self.weights, dense=dense, quick=None)


@dataclass(frozen=True)
class Found:
    """The documents found for one query, best first, equal scores by id. A score is the sum of its two parts."""

    segments: Ints  # the number of each document's segment
    rows: Ints
    ids: list[str]
    scores: Floats
    lexical: Floats
    dense: Floats  # empty if the query has no dense vector
    missing: tuple[str, ...] = ()  # shards of a cluster that did not answer
    passages: Ints = field(
        default_factory=lambda: NO_ROWS
    )  # the number of each passage in its document, if passages were searched


NONE_FOUND = Found(NO_ROWS, NO_ROWS, [], NO_SCORES, NO_SCORES, NO_SCORES)


class Searcher(Protocol):
    """Searches the segments of one commit. Any number of threads may use it."""

    options: OpenOptions

    def moved(self, segments: Sequence[Segment], progress: Callable[[int], None] | None = None) -> Searcher:
        """Return a searcher of another commit's segments, which shares what this one has already loaded.

        `progress` is called with the number of documents that were loaded.
        """

    def search(self, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]) -> list[Found]:
        """Return the k best documents of each query. If a query has a dense vector, every document has a score."""

    def finds_best(self, query: QueryVectors, options: SearchOptions) -> bool:
        """Return whether a search finds the best documents for certain."""


def strong_enough(query: QueryVectors, theta: float) -> QueryVectors:
    """Return the query with the weights that stage one uses: those above θ, or the strongest eight if that is more."""
    if theta == 0:
        return query
    strong = are_strong(query, theta)
    return QueryVectors(query.keys[strong], query.weights[strong])


def are_strong(query: QueryVectors, theta: float) -> npt.NDArray[np.bool_]:
    """Return which of the weights stage one uses."""
    strong = query.weights > theta
    if np.count_nonzero(strong) < STRONGEST:
        strong[np.argsort(-query.weights, kind="stable")[:STRONGEST]] = True
    return strong


def best_of(scores: npt.NDArray[Any], count: int) -> Ints:
    """Return the indexes of the `count` highest scores, in rising order; of equal scores the first are taken."""
    if len(scores) <= count:
        return np.arange(len(scores))
    last = np.partition(scores, len(scores) - count)[len(scores) - count]
    above, equal = np.flatnonzero(scores > last), np.flatnonzero(scores == last)
    return np.sort(np.concatenate([above, equal[: count - len(above)]]))
