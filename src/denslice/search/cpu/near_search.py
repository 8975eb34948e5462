"""Hybrid and dense search of many vectors: candidates come from words and from clusters of vectors.

The best documents by words and those of the clusters nearest to the query are scored exactly. With pruning, nothing
else is found. Without, the k-th best is a threshold: a document that is not among the best by words can reach it
only with a high dense score, and the high bytes of all vectors tell which documents may have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from denslice.options import SearchOptions
from denslice.profiling import count
from denslice.search.cpu.addresses import BASE, Parts
from denslice.search.cpu.exact_scores import dense_scores, dense_scores_of, rank, rerank
from denslice.search.cpu.vector_bounds import WholeQuery, places_reaching
from denslice.search.cpu.word_search import MAX_NARROW_TOKENS, best_by_words
from denslice.search.query import NO_ROWS, NO_SCORES, Found, Mask, QueryVectors, best_of
from denslice.store.byte_planes import BytePlanes
from denslice.store.dense_vectors import Clusters
from denslice.store.segment import Segment
from denslice.vectors import Floats, Ints

MOST_K = 1_000  # above it, the products of all vectors are computed
BY_WORDS = 400  # candidates by words, at least
WORDS_PER_K = 4  # candidates by words for each document that is asked for
PRUNED_WORDS = 0.1  # the most pruning of words: what they miss would be compared with a threshold that is too high
BY_VECTORS = 1_000  # candidates by vectors, at least
VECTORS_PER_K = 20  # candidates by vectors for each document that is asked for
MANY = 300_000  # passages of the collection by which the shares below were chosen
FIRST_OF_SHARE = 0.1  # the part of the share that is read first if words give no threshold
SHARE_FOR_THRESHOLD = 0.02  # the share of vectors that is read first if there is no pruning
FEW_PASS = 2.0  # a filter that this multiple of the share passes is scanned: nothing else is left to read
ROUNDING = 1e-5  # of scores, relative


class Reading(NamedTuple):
    """What is read of the clusters: the nearest, a share of (1 - pruning)^power, less if there are more than MANY.

    A cluster is left out as well if its centre is so far below the threshold that it hardly has a vector above it.
    """

    power: float
    falling: float  # the share falls with this power of the number of passages
    reach: float  # a cosine: divided by the pruning, how far below the threshold a centre may be

    def share(self, pruning: float, passages: int) -> float:
        """Return the share, at most 1."""
        return float(min(1.0, (1 - pruning) ** self.power * (MANY / max(1, passages)) ** self.falling))


BESIDE_WORDS, ALONE = Reading(7, 0.5, 0.075), Reading(4, 0.2, 0.12)


class Candidates(NamedTuple):
    """Documents as positions over all segments, with both exact scores."""

    positions: Ints
    lexical: Floats
    dense: Floats

    def and_more(self, more: Candidates) -> Candidates:
        """Return these candidates and more."""
        return Candidates(
            np.concatenate([self.positions, more.positions]),
            np.concatenate([self.lexical, more.lexical]),
            np.concatenate([self.dense, more.dense]),
        )


def is_near(segments: Parts, query: QueryVectors, options: SearchOptions) -> bool:
    """Return whether a search need not compute the products of all vectors."""
    is_usual = options.theta == 0 and options.candidates_from == "both" and options.k <= MOST_K
    is_usual &= len(query.keys) <= MAX_NARROW_TOKENS
    return (
        is_usual
        and query.dense is not None
        and any(segment.dense is not None and segment.dense.clusters is not None for segment in segments)
    )


def search_near(segments: Parts, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
    """Return the k best documents, or with pruning those of the candidates."""
    k, most = min(options.k, segments.docs), max(BY_WORDS, WORDS_PER_K * options.k)
    near = _NearSearch(segments, query, options, masks)
    held = near.by_words(most)
    others = float(held.lexical.min()) if len(held.lexical) == most else 0.0  # other documents have at most this
    few = max(BY_VECTORS, VECTORS_PER_K * options.k)
    for share in near.shares(len(held.positions) < k):
        held = near.with_near(held, near.nearest_clusters(share, _least(held, k) - others), k, others, few)
    if options.pruned_vectors == 0:
        held = near.with_near(held, near.every_cluster(), k, others)
    return rank(segments, *held, options.k)


def _least(held: Candidates, k: int) -> float:
    """Return what the k-th best has, rounded down, or -inf if there are fewer."""
    scores = held.lexical + held.dense
    if len(scores) < k:
        return -np.inf
    least = float(np.partition(scores, len(scores) - k)[len(scores) - k])
    return least - ROUNDING * abs(least)


class _NearSearch:
    """One query on its way: it finds documents by their words and by their vectors."""

    def __init__(self, segments: Parts, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> None:
        assert query.dense is not None
        known = {} if query.products is None else query.products  # small segments are looked at twice
        self.segments, self.query, self.masks = segments, replace(query, products=known), masks
        self.pruning, self.best = options.pruned_vectors, options.best
        self.whole = WholeQuery.of(query.dense)
        reading = BESIDE_WORDS if len(query.keys) else ALONE
        vectors = sum(0 if segment.dense is None else len(segment.dense) for segment in segments)
        self.share = reading.share(self.pruning, vectors) if self.pruning else SHARE_FOR_THRESHOLD
        passing = sum(int(mask.sum()) if len(mask) else s.rows for mask, s in zip(masks, segments, strict=True))
        self.passing = passing / max(1, segments.docs)
        count("clusters", len(segments.centres.vectors))
        self.centre_products = _centre_products(segments.centres.vectors, self.whole)
        longest = float(np.linalg.norm(query.dense)) * segments.centres.length  # the product with a like vector
        self.reach = reading.reach / self.pruning * longest if self.pruning else np.inf

    def by_words(self, most: int) -> Candidates:
        """Return the best documents by words."""
        positions, lexical = NO_ROWS, NO_SCORES
        if len(self.query.keys):
            pruning = min(self.pruning, PRUNED_WORDS)
            positions, lexical = best_by_words(self.segments, self.query, most, pruning, self.masks)
        return Candidates(positions, lexical, dense_scores_of(self.segments, positions, self.query, self.best))

    def shares(self, is_open: bool) -> list[float]:
        """Return the shares of the clusters that are read one after the other; at first few if no threshold is known.

        A filter raises them, so that as many documents that pass are read.
        """
        share = min(1.0, self.share / max(self.passing, 1e-9))
        return [FIRST_OF_SHARE * share, share] if is_open and self.pruning else [share]

    def nearest_clusters(self, share: float, least: float) -> list[Ints]:
        """Return the numbers of each segment's clusters among this share of them, the nearest.

        With pruning, those are left out whose centres are far below the least product that is asked for.
        """
        every = self.centre_products
        most = min(len(every), max(1, round(share * len(every))))
        last = max(least - self.reach, np.partition(every, len(every) - most)[len(every) - most])
        chosen = np.flatnonzero(every >= last)
        count("clusters_read", len(chosen))
        return self._by_segment(chosen)

    def every_cluster(self) -> list[Ints]:
        """Return the numbers of each segment's clusters."""
        count("clusters_read", len(self.centre_products))
        return self._by_segment(np.arange(len(self.centre_products)))

    def _by_segment(self, clusters: Ints) -> list[Ints]:
        starts = self.segments.centres.starts
        ends = np.searchsorted(clusters, starts)
        return [clusters[a:b] - first for a, b, first in zip(ends, ends[1:], starts, strict=False)]

    def with_near(
        self, held: Candidates, clusters: Sequence[Ints], k: int, others: float, most: int | None = None
    ) -> Candidates:
        """Return the candidates, and those documents of these clusters that may be among the k best.

        Words add at most `others` to a document that is not held. If `most` is given, not more than so many documents
        are added.
        """
        least = _least(held, k) - others
        positions = _without(self._reaching(clusters, least, most), held.positions)
        dense = dense_scores_of(self.segments, positions, self.query, self.best)
        while len(positions):  # the nearest first: they raise the threshold for the others
            first = dense >= np.partition(dense, -min(len(dense), 2 * k))[-min(len(dense), 2 * k)]
            first &= dense >= least
            lexical = rerank(self.segments, positions[first], self.query)
            held = held.and_more(Candidates(positions[first], lexical, dense[first]))
            least = _least(held, k) - others
            rest = ~first & (dense >= least)
            positions, dense = positions[rest], dense[rest]
        return held

    def _reaching(self, clusters: Sequence[Ints], least: float, most: int | None) -> Ints:
        """Return the documents of these clusters that may reach `least`, in rising order."""
        found = [self._rows_reaching(at, clusters[at], least) for at in range(len(self.segments))]
        positions, bounds = (np.concatenate(column) for column in zip(*found, strict=True))
        return np.unique(positions if most is None else positions[best_of(bounds, most)])  # one may have many passages

    def _rows_reaching(self, at: int, clusters: Ints, least: float) -> tuple[Ints, Floats]:
        """Return the documents of a segment that may reach `least`, with bounds of their dense scores."""
        segment, mask = self.segments[at], self.masks[at]
        if len(mask) and self.passing <= FEW_PASS * self.share:
            rows = np.flatnonzero(mask)
            bounds = dense_scores_of(Parts([segment]), rows, self.query, self.best)
        elif _clusters(segment) is None:
            rows = np.flatnonzero(mask) if len(mask) else np.arange(segment.rows)
            bounds = dense_scores(segment, self.query, self.best)[rows]
        else:
            rows, bounds = self._in_clusters(segment, clusters, least)
            if len(mask):
                allowed = mask[rows] > 0
                rows, bounds = rows[allowed], bounds[allowed]
        high = bounds >= least
        return self.segments.table[at, BASE] + rows[high], bounds[high]

    def _in_clusters(self, segment: Segment, chosen: Ints, least: float) -> tuple[Ints, Floats]:
        """Return the rows of the passages in these clusters that may reach `least`, and bounds of their products.

        A document's dense score is not above that of its best passage.
        """
        clusters = _clusters(segment)
        assert clusters is not None
        assert segment.dense is not None
        assert isinstance(segment.dense.stored, BytePlanes)
        firsts, ends = (clusters.starts[at].astype(np.int64) for at in (chosen, chosen + 1))
        count("vectors_read", int((ends - firsts).sum()))
        places, bounds = places_reaching(segment.dense.stored, firsts, ends, self.whole, least)
        return _rows_of(segment, clusters.passages[places].astype(np.int64)), bounds


def _without(positions: Ints, held: Ints) -> Ints:
    """Return the positions that are not held."""
    if not len(held):
        return positions
    held = np.sort(held)
    found: Ints = positions[held[np.searchsorted(held, positions).clip(max=len(held) - 1)] != positions]
    return found


def _clusters(segment: Segment) -> Clusters | None:
    return None if segment.dense is None else segment.dense.clusters


def _centre_products(centres: BytePlanes, query: WholeQuery) -> Floats:
    """Return about the product of the query with each centre."""
    return places_reaching(centres, np.zeros(1, np.int64), np.array([len(centres)]), query, -np.inf)[1]


def _rows_of(segment: Segment, numbers: Ints) -> Ints:
    """Return the row of each of these passages."""
    starts = segment.passage_starts
    return numbers if starts is None else np.searchsorted(starts, numbers, side="right") - 1
