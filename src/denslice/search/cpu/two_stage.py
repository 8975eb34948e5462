"""Search on the CPU in two stages: candidates come from posting lists, exact scores from rows and dense vectors.

If θ is below every query weight, the result is exact: every document that rounding could hide is rescored. With a
larger θ, stage one skips light weights, and the best `candidates` are rescored (section 3.1 of the paper).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from denslice.options import SearchOptions
from denslice.profiling import count
from denslice.search.cpu.addresses import Parts
from denslice.search.cpu.exact_scores import dense_scores, dense_scores_of, rank, rerank
from denslice.search.cpu.near_search import is_near, search_near
from denslice.search.cpu.plain import best_in_order, lexical_scores
from denslice.search.cpu.word_search import INITIAL_CANDIDATES, count_words, is_lexical, search_lexical, working_sums
from denslice.search.query import (
    FEW_MORE,
    NO_MASK,
    NO_ROWS,
    NO_SCORES,
    NONE_FOUND,
    Found,
    Mask,
    QueryVectors,
    best_of,
    strong_enough,
)
from denslice.vectors import Floats, Ints

DEEP_K = 10_000  # k above which queries are searched one by one, to save memory
SMALL_INDEX = 1 << 15  # weights of all rows up to which a query is searched without compiled code


def search(segments: Parts, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
    """Return the k best documents. A mask has a 0 for each row that must not be found, or is empty to allow all."""
    if is_plain(segments, options):
        return search_plainly(segments, query, options, masks)
    return search_by_loops(segments, query, options, masks)


def search_by_loops(segments: Parts, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
    """Return what `search` returns, by compiled loops however small the index is."""
    if is_lexical(query, options):
        return search_lexical(segments, [query], options, masks)[0]
    if not options.rerank:
        return first_stage(segments, query, options, masks)
    if options.candidates_from == "lexical" and query.dense is not None and len(query.keys):
        return _best_of_candidates(segments, query, options, masks)
    if is_near(segments, query, options):
        return search_near(segments, query, options, masks)
    dense = [dense_scores(segment, query, options.best) for segment in segments]
    every = np.concatenate(dense) if any(map(len, dense)) else NO_SCORES
    positions, bounds = retrieve(segments, query, options, masks, dense)
    positions, lexical = rerank_best(segments, positions, bounds, query, every, options.k)
    return rank(segments, positions, lexical, every[positions] if len(every) else NO_SCORES, options.k)


def search_some(
    segments: Parts, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]
) -> list[Found]:
    """Return the k best documents of each query."""
    if options.k <= DEEP_K and not is_plain(segments, options) and all(is_lexical(q, options) for q in queries):
        return search_lexical(segments, queries, options, masks)
    return [search(segments, query, options, masks) for query in queries]


def is_plain(segments: Parts, options: SearchOptions) -> bool:
    """Return whether a search is exact and the index small: then numpy scores every document."""
    return options.is_exact() and is_small(segments)


def is_small(segments: Parts) -> bool:
    """Return whether the index has so few weights that numpy scores every document."""
    return segments.weights <= SMALL_INDEX


def load_loops(segments: Parts) -> None:
    """Load or compile the loops that searches with default options need, by words and with a vector if there is one."""
    vectors = segments[0].dense
    for dense in [None] if vectors is None else [None, np.zeros(vectors.shape[1], np.float32)]:
        query = QueryVectors(np.zeros(1, np.int64), np.ones(1, np.float32), dense)
        search_by_loops(segments, query, SearchOptions(k=1), [NO_MASK] * len(segments))


def search_plainly(segments: Parts, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
    """Return the k best documents after scoring all of them in numpy, with the results of the compiled loops."""
    if not segments:
        return NONE_FOUND
    count("words_scored", segments.docs)
    lexical = np.concatenate([lexical_scores(segment, query.keys, query.weights) for segment in segments])
    dense = np.concatenate([dense_scores(segment, query, options.best) for segment in segments])
    scores, is_found = (lexical + dense, np.ones(segments.docs, np.bool_)) if len(dense) else (lexical, lexical > 0)
    if any(map(len, masks)):
        every = (mask if len(mask) else np.ones(s.rows, np.uint8) for mask, s in zip(masks, segments, strict=True))
        is_found &= np.concatenate(list(every)) > 0
    best, at, rows, ids = best_in_order(segments, np.flatnonzero(is_found), scores, options.k)
    return Found(at, rows, ids, scores[best], lexical[best], dense[best] if len(dense) else dense)


def _best_of_candidates(segments: Parts, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
    """Return the k best by both scores of the best `candidates` by lexical score (section 5.3 of the paper)."""
    wide = replace(options, k=max(options.k, options.candidates), rerank=False)  # the bounds choose
    by_words, bounds = retrieve(segments, query, wide, masks, [NO_SCORES] * len(segments))
    positions = np.unique(by_words[best_of(bounds, wide.k)])
    lexical = rerank(segments, positions, query)
    return rank(segments, positions, lexical, dense_scores_of(segments, positions, query, options.best), options.k)


def first_stage(segments: Parts, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
    """Return the k best documents of stage one alone: lexical scores of the weights above θ, rounded up."""
    strong = strong_enough(query, options.theta)
    positions, scores = retrieve(segments, strong, options, masks, [NO_SCORES] * len(segments))
    return rank(segments, positions, scores, NO_SCORES, options.k)


def retrieve(
    segments: Parts,
    query: QueryVectors,
    options: SearchOptions,
    masks: Sequence[Mask],
    dense: Sequence[Floats],
) -> tuple[Ints, Floats]:
    """Return the candidates of stage one: positions over all segments, and bounds that exact scores do not exceed.

    Every document that can be among the k best is a candidate. `dense` has the dense scores of each segment's rows,
    or is empty for each.
    """
    from denslice.search.cpu import postings, score_units

    has_dense = any(map(len, dense))
    if not segments or not (len(query.keys) or has_dense):
        return NO_ROWS, NO_SCORES
    k = min(options.k, segments.docs)
    strong = strong_enough(query, options.theta)
    found, largest = postings.find(segments.table, strong.keys)
    lexical_reach = float(score_units.reach_of(strong.weights, largest))
    lowest, reach, extra = 0.0, lexical_reach, []
    if has_dense:
        lowest = min(float(scores.min()) for scores in dense if len(scores))
        extra = [scores - np.float32(lowest) for scores in dense]
        reach += max(float(scores.max()) for scores in extra if len(scores))
    elif reach == 0:
        return NO_ROWS, NO_SCORES
    unit, margin = score_units.unit_and_margin(reach, lexical_reach, len(strong.keys), score_units.WIDE)
    most, unseen = 0, 0.0
    if len(strong.keys) < len(query.keys):
        unseen = _unseen(segments, query, strong)
        margin = min(score_units.WIDE.largest, margin + int(unseen * unit) + 1)
        most = max(options.candidates, k)
    held, bounds = postings.scan_whole(
        segments.table_with(masks, extra), found, (strong.weights, unit, score_units.WIDE.fraction), (k, margin, most),
        np.empty(max(INITIAL_CANDIDATES, 4 * k), np.int64), working_sums(score_units.WIDE.dtype),
    )  # fmt: skip
    count_words(segments, [strong], 0)
    if most:
        best = best_of(bounds, most)
        held, bounds = held[best], bounds[best]
    return held, (bounds / unit * (1 + 1e-6) + (lowest + unseen)).astype(np.float32)


def rerank_best(
    segments: Parts, positions: Ints, bounds: Floats, query: QueryVectors, dense: Floats, k: int
) -> tuple[Ints, Floats]:
    """Return the positions that can be among the k best, and their exact lexical scores.

    The k with the highest bounds are scored first. The others are scored only if their bound reaches the lowest of
    these scores.
    """
    if len(positions) <= k + FEW_MORE:
        return positions, rerank(segments, positions, query)
    first = bounds >= np.partition(bounds, len(bounds) - k)[len(bounds) - k]
    lexical = rerank(segments, positions[first], query)
    least = float((lexical + dense[positions[first]] if len(dense) else lexical).min())
    rest = bounds >= least - 1e-5 * abs(least)
    rest &= ~first
    more = rerank(segments, positions[rest], query)
    return np.concatenate((positions[first], positions[rest])), np.concatenate((lexical, more))


def _unseen(segments: Parts, query: QueryVectors, strong: QueryVectors) -> float:
    """Return the most that the weights which stage one skips can add to a score."""
    from denslice.search.cpu import postings, score_units

    weak = ~np.isin(query.keys, strong.keys)
    _, largest = postings.find(segments.table, query.keys[weak])
    return float(score_units.reach_of(query.weights[weak], largest))
