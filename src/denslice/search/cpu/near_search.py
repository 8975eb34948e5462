"""Hybrid and dense search that does not read every vector: candidates come from words and from clusters of vectors.

Of a large collection, the best documents by words and those of the clusters nearest to the query are candidates, and
nothing else is found. Both scores of a candidate are exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from denslice.options import SearchOptions
from denslice.search.cpu.addresses import BASE, Parts
from denslice.search.cpu.exact_scores import dense_scores, dense_scores_of, passage_products, rank, rerank
from denslice.search.cpu.word_search import MAX_NARROW_TOKENS, best_by_words
from denslice.search.query import NO_ROWS, NO_SCORES, Found, Mask, QueryVectors, best_of
from denslice.store.segment import Segment
from denslice.vectors import Floats, Ints, spread

MOST_K = 1_000  # above it, every vector is read
BY_WORDS = 1_000  # candidates by words, or twice k
BY_VECTORS = 1_000  # candidates by vectors of each segment, or twice k
POWERS = {True: 11, False: 5}  # of 1 - pruning: the share of vectors that is read, of queries with and without words
FEW_PASS = 2.0  # a filter that this multiple of the share passes is scanned: nothing else is left to read


def reads_some(segments: Parts, query: QueryVectors, options: SearchOptions) -> bool:
    """Return whether a search reads only some of the vectors."""
    is_usual = options.theta == 0 and options.candidates_from == "both" and options.k <= MOST_K
    is_usual &= len(query.keys) <= MAX_NARROW_TOKENS
    return (
        options.pruned_vectors > 0
        and is_usual
        and query.dense is not None
        and any(segment.dense is not None and segment.dense.clusters is not None for segment in segments)
    )


def search_near(segments: Parts, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
    """Return the k best of the candidates."""
    k, most = min(options.k, segments.docs), max(BY_WORDS, 2 * options.k)
    positions, lexical = NO_ROWS, NO_SCORES
    if len(query.keys):
        positions, lexical = best_by_words(segments, query, most, options.pruned_vectors, masks)
    dense = dense_scores_of(segments, positions, query, options.best)
    scores, least = lexical + dense, -np.inf
    if len(scores) >= k:  # any other document has at most the lexical score of the last candidate
        others = float(lexical.min()) if len(scores) == most else 0.0
        least = float(np.partition(scores, len(scores) - k)[len(scores) - k]) - others
    near = np.setdiff1d(_near(segments, query, options, masks, least), positions, assume_unique=True)
    lexical = np.concatenate([lexical, rerank(segments, near, query)])
    dense = np.concatenate([dense, dense_scores_of(segments, near, query, options.best)])
    return rank(segments, np.concatenate([positions, near]), lexical, dense, options.k)


def _near(segments: Parts, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask], least: float) -> Ints:
    """Return the documents near to the query whose dense scores are at least `least`, as positions in rising order."""
    passing = _passing_share(segments, masks)
    share = (1 - options.pruned_vectors) ** POWERS[len(query.keys) > 0]
    most = max(BY_VECTORS, 2 * options.k)
    chosen = _nearest_clusters(segments, query, min(1.0, share / max(passing, 1e-9)))
    found = []
    for base, segment, mask, clusters in zip(segments.table[:, BASE], segments, masks, chosen, strict=True):
        if len(mask) and passing <= FEW_PASS * share:
            rows = np.flatnonzero(mask)
            rows = rows[best_of(dense_scores_of(Parts([segment]), rows, query, options.best), most)]
        elif clusters is None:
            rows = _best_rows(dense_scores(segment, query, options.best), mask, least, most)
        else:
            rows = _rows_of_clusters(segment, clusters, query, mask, least, most)
        found.append(base + rows)
    return np.concatenate(found)


def _passing_share(segments: Parts, masks: Sequence[Mask]) -> float:
    """Return which share of the documents the masks pass."""
    passing = sum(int(mask.sum()) if len(mask) else s.rows for mask, s in zip(masks, segments, strict=True))
    return passing / max(1, segments.docs)


def _nearest_clusters(segments: Parts, query: QueryVectors, share: float) -> list[Ints | None]:
    """Return the numbers of each segment's clusters among the nearest, or None for a segment without clusters."""
    assert query.dense is not None
    clusters = [None if segment.dense is None else segment.dense.clusters for segment in segments]
    products = [None if one is None else passage_products(one.centres, query.dense) for one in clusters]
    every = np.concatenate([one for one in products if one is not None])
    count = min(len(every), max(1, round(share * len(every))))
    last = np.partition(every, len(every) - count)[len(every) - count]
    return [None if one is None else np.flatnonzero(one >= last) for one in products]


def _rows_of_clusters(segment: Segment, chosen: Ints, query: QueryVectors, mask: Mask, least: float, most: int) -> Ints:
    """Return the rows of the best passages of these clusters, in rising order."""
    assert segment.dense is not None
    assert segment.dense.clusters is not None
    assert query.dense is not None
    starts, passages = segment.dense.clusters.starts.astype(np.int64), segment.dense.clusters.passages
    places = spread(starts[chosen], starts[chosen + 1])
    products = passage_products(segment.dense.stored, query.dense, places)
    kept = np.flatnonzero(products >= least)
    rows = _rows_of(segment, passages[places[kept]].astype(np.int64))
    if len(mask):
        allowed = mask[rows] > 0
        rows, kept = rows[allowed], kept[allowed]
    if len(kept) > most:
        rows = rows[best_of(products[kept], most)]
    return np.unique(rows)


def _rows_of(segment: Segment, numbers: Ints) -> Ints:
    """Return the row of each of these passages."""
    starts = segment.passage_starts
    return numbers if starts is None else np.searchsorted(starts, numbers, side="right") - 1


def _best_rows(scores: Floats, mask: Mask, least: float, most: int) -> Ints:
    """Return the rows of the highest scores, in rising order."""
    allowed = scores >= least
    if len(mask):
        allowed &= mask > 0
    rows = np.flatnonzero(allowed)
    return rows[best_of(scores[rows], most)]
