"""Passages: the scores of the passages of a document, and the search for the best passages instead of documents.

A passage is scored by its own words and its own dense vector: its lexical weights are those of
`grouping.passage_weights`, and λ counts for it with `grouping.PASSAGE_SHARE`. No passage scores more than its document
would if the weights were multiplied by passages^¼ and only the best passage had a dense score. So documents are
searched by that bound, as many as can have one of the k best passages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from denslice.grouping import PASSAGE_SHARE, POWER, passage_weights
from denslice.options import SearchOptions
from denslice.search.query import NO_SCORES, NONE_FOUND, Found, Mask, QueryVectors
from denslice.store.segment import Segment
from denslice.vectors import Floats, Ints, spread

SIZES = (0, 1, 4, 16, 64, 256, np.inf)  # documents with so many passages are searched together, by one bound
MORE = 4  # times as many documents are searched if those found do not prove the best passages
ROUNDING = 1e-5  # of a score, relative
DocumentSearch = Callable[[QueryVectors, SearchOptions, Sequence[Mask]], Found]


@dataclass(frozen=True)
class ScoredPassages:
    """The scores of all passages of some rows: those of row i are starts[i] to starts[i + 1]."""

    starts: Ints
    lexical: Floats  # (passages,)
    dense: Floats  # (passages,) of zeros if the query or the segment has no dense vectors
    is_hit: npt.NDArray[np.bool_]  # (passages,) whether a passage has a token of the query, or both have a dense vector

    @property
    def scores(self) -> Floats:
        """The sum of both scores."""
        return self.lexical + self.dense


def passage_query(query: QueryVectors) -> QueryVectors:
    """Return the query as passages are searched for it: its dense vector has a share of λ."""
    dense = None if query.dense is None else np.float32(PASSAGE_SHARE) * query.dense
    return replace(query, dense=dense, products={})


def score_passages(segment: Segment, rows: Ints, query: QueryVectors) -> ScoredPassages:
    """Return the scores of the passages of these rows, for a query as `passage_query` returns it."""
    query = query.at(segment.entry.level)
    numbers = segment.passage_numbers(rows)
    counts = np.ones(len(rows), np.int64) if segment.passage_counts is None else segment.passage_counts[rows]
    starts = np.concatenate([[0], np.cumsum(counts)])
    lexical = _lexical_scores(segment, rows, counts, query)
    dense, is_hit = np.zeros(len(numbers), np.float32), lexical > 0
    if query.dense is not None and segment.dense is not None:
        known = (query.products or {}).get(segment.name)
        vectors = segment.dense[numbers]
        dense = (vectors.astype(np.float32) @ query.dense).astype(np.float32) if known is None else known[numbers]
        is_hit |= vectors.any(axis=1)
    return ScoredPassages(starts, lexical, dense, is_hit)


def _lexical_scores(segment: Segment, rows: Ints, counts: Ints, query: QueryVectors) -> Floats:
    """Return the lexical scores of the passages of these rows, which have so many each."""
    at, passage_of, row_of = _tokens(segment, rows, counts)
    keys = segment.kept.keys[at]
    which = np.searchsorted(query.keys, keys).clip(max=max(0, len(query.keys) - 1))
    asked = query.keys[which] == keys if len(query.keys) else np.zeros(len(keys), np.bool_)
    at, passage_of, row_of, which = at[asked], passage_of[asked], row_of[asked], which[asked]
    pairs, which_pair, having = np.unique(row_of * len(query.keys) + which, return_inverse=True, return_counts=True)
    first = np.zeros(len(pairs), np.int64)
    first[which_pair] = at
    weights = passage_weights(_weights(segment, first), counts[pairs // max(1, len(query.keys))], having)
    products = (weights[which_pair].astype(np.float64)) * query.weights[which]
    return np.bincount(passage_of, products, int(counts.sum())).astype(np.float32)


def _tokens(segment: Segment, rows: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the tokens of the passages as places in `kept`, and the passage and row of each, counted from 0."""
    starts, ends = segment.kept.starts[rows].astype(np.int64), segment.kept.starts[rows + 1].astype(np.int64)
    if segment.passage_starts is None:
        alone = np.arange(len(rows))
        row_of = np.repeat(alone, ends - starts)
        return spread(starts, ends), row_of, row_of
    tokens, token_starts = segment.passage_tokens(rows)
    passage_of = np.repeat(np.arange(len(token_starts) - 1), np.diff(token_starts))
    row_of = np.repeat(np.arange(len(rows)), counts)[passage_of]
    single = np.flatnonzero(counts == 1)  # their tokens are those of the row
    whole = np.repeat(single, (ends - starts)[single])
    before = np.cumsum(counts) - counts
    joined = np.concatenate([tokens, spread(starts[single], ends[single])])
    return joined, np.concatenate([passage_of, before[whole]]), np.concatenate([row_of, whole])


def _weights(segment: Segment, places: Ints) -> Floats:
    return segment.kept.weights[places].view(np.float16).astype(np.float32)


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
    query = passage_query(query)
    best: list[_Candidate] = []
    for factor, allowed in _classes(query, masks, segments):
        bound = replace(query, weights=query.weights * np.float32(factor))
        asked, seen = options.k, 0
        while True:
            found = find(bound, replace(options, k=asked, best=1.0), allowed)
            best = _with_passages(best, found, slice(seen, None), query, segments, options.k)
            seen = len(found.ids)
            if seen < asked or _is_proven(best, options.k, float(found.scores[-1])):
                break
            asked *= MORE
    return _found(best, query.dense is not None)


def _with_passages(
    best: list[_Candidate], found: Found, new: slice, query: QueryVectors, segments: Sequence[Segment], k: int
) -> list[_Candidate]:
    """Return the k best of the passages known and those of documents that were found since."""
    for number in np.unique(found.segments[new]).tolist():
        at = np.arange(len(found.ids))[new]
        at = at[found.segments[at] == number]
        scored = score_passages(segments[number], found.rows[at], query)
        least = -best[-1].order[0] if len(best) == k else -np.inf
        chosen = np.flatnonzero(scored.is_hit & (scored.scores >= least))
        if len(chosen) > k:  # those that tie with the k-th are kept
            chosen = chosen[scored.scores[chosen] >= np.partition(scored.scores[chosen], -k)[-k]]
        fresh = (_candidate(found, at, number, scored, passage) for passage in chosen.tolist())
        best = sorted([*best, *fresh], key=attrgetter("order"))[:k]
    return best


def _candidate(found: Found, at: Ints, segment: int, scored: ScoredPassages, passage: int) -> _Candidate:
    which = int(np.searchsorted(scored.starts, passage, side="right")) - 1
    place = int(at[which])
    order = (-float(scored.scores[passage]), found.ids[place], passage - int(scored.starts[which]))
    row = int(found.rows[place])
    return _Candidate(order, segment, row, float(scored.lexical[passage]), float(scored.dense[passage]))


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
