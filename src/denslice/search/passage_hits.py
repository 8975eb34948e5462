"""Passages: the scores of the passages of a document, and the search for the best passages instead of documents.

A passage is scored as a document of its own: its lexical weights are those of `grouping.passage_weights`. No passage
scores more than its document would if the weights were multiplied by passages^¼ and only the best passage had a dense
score. So documents are searched by that bound, as many as can have one of the k best passages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter

import numpy as np

from denslice.grouping import POWER, passage_weights
from denslice.options import SearchOptions
from denslice.search.query import NO_SCORES, NONE_FOUND, Found, Mask, QueryVectors
from denslice.store.segment import Segment
from denslice.vectors import Floats, Ints

SIZES = (0, 1, 4, 16, 64, 256, np.inf)  # documents with so many passages are searched together, by one bound
MORE = 4  # times as many documents are searched if those found do not prove the best passages
ROUNDING = 1e-5  # of a score, relative
DocumentSearch = Callable[[QueryVectors, SearchOptions, Sequence[Mask]], Found]


@dataclass(frozen=True)
class ScoredPassages:
    """The scores of all passages of a document."""

    lexical: Floats  # (passages,)
    dense: Floats  # (passages,) of zeros if the query or the document has no dense vector

    @property
    def scores(self) -> Floats:
        """The sum of both scores."""
        return self.lexical + self.dense


def score_passages(segment: Segment, row: int, query: QueryVectors) -> ScoredPassages:
    """Return the scores of the passages of a row."""
    numbers = segment.passage_numbers(np.array([row]))
    dense = np.zeros(len(numbers), np.float32)
    if query.dense is not None and segment.dense is not None:
        dense = (segment.dense[numbers].astype(np.float32) @ query.dense).astype(np.float32)
    weights, having = passage_matrix(segment, row, query.keys)
    return ScoredPassages((having @ (weights.astype(np.float64) * query.weights)).astype(np.float32), dense)


def passage_matrix(segment: Segment, row: int, keys: Ints) -> tuple[Floats, Floats]:
    """Return the weights of these keys in the passages of a row that have them, and which have (passages, keys)."""
    start, end = segment.kept.starts[row : row + 2].tolist()
    row_keys = segment.kept.keys[start:end]
    at = np.searchsorted(row_keys, keys)
    is_there = at < len(row_keys)
    is_there[is_there] = row_keys[at[is_there]] == keys[is_there]
    weights = np.zeros(len(keys), np.float32)
    weights[is_there] = segment.kept.weights[start + at[is_there]].view(np.float16)
    numbers = segment.passage_numbers(np.array([row]))
    if len(numbers) == 1:
        return weights, is_there.astype(np.float32)[None]
    tokens, starts = segment.passage_tokens(np.array([row]))
    having = np.zeros((len(numbers), len(keys)), np.float32)
    place = np.full(end - start, -1, np.int64)  # of each token of the row among the keys
    place[at[is_there]] = np.flatnonzero(is_there)
    columns = place[tokens - start]
    passage_of = np.repeat(np.arange(len(numbers)), np.diff(starts))
    having[passage_of[columns >= 0], columns[columns >= 0]] = 1
    return passage_weights(weights, len(numbers), having.sum(axis=0).astype(np.int64)), having


@dataclass(frozen=True)
class _Candidate:
    """A passage, ordered as results are: best first, equal scores by id and number."""

    order: tuple[float, str, int]
    segment: int
    row: int
    lexical: float
    dense: float


def best_passages(
    find: DocumentSearch,
    query: QueryVectors,
    options: SearchOptions,
    masks: Sequence[Mask],
    segments: Sequence[Segment],
) -> Found:
    """Return the k best passages, each as the row of its document and its number there."""
    query = replace(query, products={})
    best: list[_Candidate] = []
    for factor, allowed in _classes(query, masks, segments):
        bound = replace(query, weights=query.weights * np.float32(factor))
        asked, seen = options.k, 0
        while True:
            found = find(bound, replace(options, k=asked, best=1.0), allowed)
            for at in range(seen, len(found.ids)):
                least = -best[-1].order[0] if len(best) == options.k else -np.inf
                if fresh := _expanded(found, at, query, segments, least):
                    best = sorted([*best, *fresh], key=attrgetter("order"))[: options.k]
            seen = len(found.ids)
            if seen < asked or _is_proven(best, options.k, float(found.scores[-1])):
                break
            asked *= MORE
    return _found(best, query.dense is not None)


def _is_proven(best: Sequence[_Candidate], k: int, bound: float) -> bool:
    """Return whether no passage of a document below this bound can be among the k best."""
    return len(best) == k and bound + ROUNDING * abs(bound) < -best[-1].order[0]


def _classes(
    query: QueryVectors, masks: Sequence[Mask], segments: Sequence[Segment]
) -> Iterator[tuple[float, list[Mask]]]:
    """Yield the documents that are searched together, as masks, and the factor of their bound."""
    counts = [segment.passage_counts for segment in segments]
    largest = max((int(one.max(initial=1)) for one in counts if one is not None), default=1)
    if largest == 1 or not len(query.keys):
        yield 1.0, list(masks)
        return
    for above, most in pairwise(SIZES):
        chosen = [_within(one, segment.rows, above, most) for one, segment in zip(counts, segments, strict=True)]
        if any(one.any() for one in chosen):
            allowed = [mask & one if len(mask) else one for mask, one in zip(masks, chosen, strict=True)]
            yield min(most, largest) ** (1 / POWER), allowed


def _within(counts: Ints | None, rows: int, above: float, most: float) -> Mask:
    """Return a mask of the rows with more than `above` and at most `most` passages."""
    if counts is None:
        return np.full(rows, above == 0, np.uint8)
    return ((counts > above) & (counts <= most)).astype(np.uint8)


def _expanded(
    found: Found, at: int, query: QueryVectors, segments: Sequence[Segment], least: float
) -> list[_Candidate]:
    """Return the passages of a document that are hits and have at least this score."""
    number, row, id = int(found.segments[at]), int(found.rows[at]), found.ids[at]
    segment = segments[number]
    scored = score_passages(segment, row, query)
    is_hit = scored.lexical > 0
    if query.dense is not None and segment.dense is not None:
        is_hit |= segment.dense[segment.passage_numbers(np.array([row]))].any(axis=1)
    is_hit &= scored.scores >= least
    scores = scored.scores.tolist()
    return [
        _Candidate((-scores[p], id, p), number, row, float(scored.lexical[p]), float(scored.dense[p]))
        for p in np.flatnonzero(is_hit).tolist()
    ]


def _found(best: Sequence[_Candidate], has_dense: bool) -> Found:
    if not best:
        return NONE_FOUND
    dense = np.array([one.dense for one in best], np.float32)
    return Found(
        np.array([one.segment for one in best], np.int64),
        np.array([one.row for one in best], np.int64),
        [one.order[1] for one in best],
        np.array([-one.order[0] for one in best], np.float32),
        np.array([one.lexical for one in best], np.float32),
        dense if has_dense else NO_SCORES,
        passages=np.array([one.order[2] for one in best], np.int64),
    )
