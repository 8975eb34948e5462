"""Search of segments on the CPU in two stages: candidates from postings, exact scores from rows, dense scores added.

With θ below every query weight the result is exact: everything that the rounding of postings could hide is rescored.
A larger θ leaves light weights out of stage one, and the best `candidates` are rescored (paper section 3.1).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.errors import InputError
from denslice.options import SearchOptions
from denslice.search.cpu.addresses import Parts
from denslice.search.cpu.plain import best_in_order, lexical_scores
from denslice.search.cpu.scan_state import SUMS
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
from denslice.store.segment import Segment
from denslice.vectors import Floats, Ints

MOST_WORDS = 1_024  # tokens of a query up to which sums of 16 bits are fine enough
ROUGH = 96  # documents at least that are rescored besides the k best, if pruning is above 0
DEEP = 10_000  # k above which queries are searched one by one, to save memory
ROOM = 1_024  # candidates that there is room for at the start of a scan
SMALL = 1 << 15  # weights of all rows up to which a query is searched without compiled code
_thread = threading.local()


def search(segments: Parts, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
    """The k best documents. `masks` has per segment a 0 for each row to leave out, or nothing to leave none out."""
    if is_plain(segments, options):
        return search_plainly(segments, query, options, masks)
    if are_words(query, options):
        return search_words(segments, [query], options, masks)[0]
    if not options.rerank:
        return first_stage(segments, query, options, masks)
    if options.candidates_from == "lexical" and query.dense is not None and len(query.keys):
        return _best_of_candidates(segments, query, options, masks)
    dense = [NO_SCORES if query.dense is None else _dense_scores(segment, query) for segment in segments]
    every = np.concatenate(dense) if any(map(len, dense)) else NO_SCORES
    positions, bounds = retrieve(segments, query, options, masks, dense)
    positions, lexical = rerank_best(segments, positions, bounds, query, every, options.k)
    return rank(segments, positions, lexical, every[positions] if len(every) else NO_SCORES, options.k)


def search_some(
    segments: Parts, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]
) -> list[Found]:
    """The k best documents of each query."""
    if is_plain(segments, options):
        return [search_plainly(segments, query, options, masks) for query in queries]
    if options.k <= DEEP and all(are_words(query, options) for query in queries):
        return search_words(segments, queries, options, masks)
    return [search(segments, query, options, masks) for query in queries]


def is_plain(segments: Parts, options: SearchOptions) -> bool:
    """Whether a search is exact and the index so small that numpy scores every document."""
    is_exact = options.rerank and options.theta == 0 and options.pruning == 0 and options.candidates_from == "both"
    return is_exact and is_small(segments)


def is_small(segments: Parts) -> bool:
    """Whether numpy scores all documents in less time than anybody would notice."""
    return segments.weights <= SMALL


def load_loops(segments: Parts) -> None:
    """Load or compile what a search with the usual options needs."""
    vectors = segments[0].dense
    dense = None if vectors is None else np.zeros(vectors.shape[1], np.float32)
    query = QueryVectors(np.zeros(1, np.int64), np.ones(1, np.float32), dense)
    search(segments, query, SearchOptions(k=1), [NO_MASK] * len(segments))


def search_plainly(segments: Parts, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
    """The k best documents, found by scoring all of them in numpy: what the compiled loops find."""
    if not segments:
        return NONE_FOUND
    lexical = np.concatenate([lexical_scores(segment, query.keys, query.weights) for segment in segments])
    dense = np.concatenate([_dense_scores(segment, query) for segment in segments])
    scores, is_found = (lexical + dense, np.ones(segments.docs, np.bool_)) if len(dense) else (lexical, lexical > 0)
    if any(map(len, masks)):
        every = (mask if len(mask) else np.ones(s.rows, np.uint8) for mask, s in zip(masks, segments, strict=True))
        is_found &= np.concatenate(list(every)) > 0
    best, at, rows, ids = best_in_order(segments, np.flatnonzero(is_found), scores, options.k)
    return Found(at, rows, ids, scores[best], lexical[best], dense[best] if len(dense) else dense)


def are_words(query: QueryVectors, options: SearchOptions) -> bool:
    """Whether a query is searched by its words alone, all of them, and exactly or with pruning."""
    return query.dense is None and options.rerank and options.theta == 0 and len(query.keys) <= MOST_WORDS


def search_words(
    segments: Parts, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]
) -> list[Found]:
    """The k best documents of each query, all being searched by words alone: one call of compiled code."""
    from denslice.search.cpu import score_units
    from denslice.search.cpu.lexical import best_by_words

    if not segments:
        return [NONE_FOUND] * len(queries)
    k = min(options.k, segments.docs)
    most = 0 if options.pruning == 0 else k + int(4 * k**0.5) + ROUGH
    firsts = [count if any(map(len, masks)) else _share_of_first_block(count, segments) for count in (k, most)]
    starts = np.fromiter(accumulate((len(query.keys) for query in queries), initial=0), np.int64, len(queries) + 1)
    one = queries[0]
    keys = one.keys if len(queries) == 1 else np.concatenate([query.keys for query in queries])
    weights = one.weights if len(queries) == 1 else np.concatenate([query.weights for query in queries])
    counts, at, rows, scores, letters, is_whole = best_by_words(
        segments.table_with(masks), starts, keys, weights, (k, most, *firsts), options.pruning,
        max(ROOM, 4 * k), _working_sums(score_units.NARROW.dtype, SUMS),
    )  # fmt: skip
    ids = _ids(segments, at, rows, letters, is_whole)
    ends = list(accumulate(counts.tolist(), initial=0))
    return [
        Found(at[cut], rows[cut], ids[cut], scores[cut], scores[cut], NO_SCORES) for cut in map(slice, ends, ends[1:])
    ]


def _best_of_candidates(segments: Parts, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
    """The k best, by both scores, of the best `candidates` by words: the paper's fusion (its section 5.3)."""
    wide = replace(options, k=max(options.k, options.candidates), rerank=False)  # the bounds choose
    by_words, bounds = retrieve(segments, query, wide, masks, [NO_SCORES] * len(segments))
    positions = np.unique(by_words[best_of(bounds, wide.k)])
    lexical = rerank(segments, positions, query)
    return rank(segments, positions, lexical, dense_scores_of(segments, positions, query), options.k)


def first_stage(segments: Parts, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
    """The k best documents by stage one alone: lexical scores of the weights above θ, as postings round them up."""
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
    """Stage one: positions, counted over all segments, of every document that may be among the k best.

    Beside each stands a score that the document's exact one does not exceed. `dense` has per segment a score to add
    to each row's lexical one, or nothing.
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
        np.empty(max(ROOM, 4 * k), np.int64), _working_sums(score_units.WIDE.dtype, SUMS),
    )  # fmt: skip
    if most:
        best = best_of(bounds, most)
        held, bounds = held[best], bounds[best]
    return held, (bounds / unit * (1 + 1e-6) + (lowest + unseen)).astype(np.float32)


def _share_of_first_block(k: int, segments: Parts) -> int:
    """How many of the first block's best are surely as many as its share of the k best, were blocks alike."""
    expected = k * min(1.0, segments[0].block / max(1, segments.docs))
    return min(k, int(expected + 3 * expected**0.5 + 4))


def rerank_best(
    segments: Parts, positions: Ints, bounds: Floats, query: QueryVectors, dense: Floats, k: int
) -> tuple[Ints, Floats]:
    """Positions and exact lexical scores of all that can be among the k best, now that k exact scores can be known.

    The k with the highest bounds are scored first; of the others only those whose bound reaches the least of them.
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


def rerank(segments: Parts, positions: Ints, query: QueryVectors) -> Floats:
    """Stage two: the exact lexical score of each position, with every query weight. Positions must rise."""
    from denslice.search.cpu.rescore import rescore

    scores: Floats = rescore(segments.table, positions, query.keys, query.weights)
    return scores


def rank(segments: Parts, positions: Ints, lexical: Floats, dense: Floats, k: int) -> Found:
    """The k best of these by the sum of both scores, best first, equal sums by id; `dense` may be empty."""
    from denslice.search.cpu.rescore import ranked

    scores = lexical + dense if len(dense) else lexical
    best, at, rows, letters, is_whole = ranked(segments.table, positions, scores, k)
    ids = _ids(segments, at, rows, letters, is_whole)
    return Found(at, rows, ids, scores[best], lexical[best], dense[best] if len(dense) else dense)


def _ids(segments: Parts, at: Ints, rows: Ints, letters: npt.NDArray[np.uint8], is_whole: bool) -> list[str]:
    """Ids whose letters stand there with line feeds between them."""
    ids: list[str] = []
    if is_whole and len(at):
        with suppress(UnicodeDecodeError):
            ids = letters.tobytes().decode().split("\n")
    if len(ids) != len(at):  # no id has a line feed: a file is damaged, and says so now
        ids = [segments[s].ids(rows[i : i + 1])[0] for i, s in enumerate(at.tolist())]
    return ids


def _dense_scores(segment: Segment, query: QueryVectors, rows: Ints | None = None) -> Floats:
    """λ times the inner product of each row, or of these, with the query's dense vector; nothing where it has none."""
    if query.dense is None or segment.dense is None:
        return NO_SCORES
    from denslice.search.cpu.rescore import dense_products

    if segment.dense.shape[1] != len(query.dense):
        raise InputError(f"the query has {len(query.dense)} dimensions, the index {segment.dense.shape[1]}")
    vectors = segment.dense if rows is None else segment.dense[rows]
    products: Floats = dense_products(vectors.view(np.uint16), query.dense)
    return products


def dense_scores_of(segments: Parts, positions: Ints, query: QueryVectors) -> Floats:
    """The dense score of each position; nothing where there are no dense vectors."""
    if any(s.dense is None for s in segments):
        return NO_SCORES
    scores = np.zeros(len(positions), dtype=np.float32)
    base = 0
    for s in segments:
        here = (positions >= base) & (positions < base + s.rows)
        scores[here] = _dense_scores(s, query, positions[here] - base)
        base += s.rows
    return scores


def _working_sums(dtype: type[np.unsignedinteger[Any]], count: int) -> npt.NDArray[Any]:
    """This thread's array for sums: made anew for each query, it would cost a page fault for every page."""
    if not hasattr(_thread, "sums"):
        _thread.sums = {}
    if dtype not in _thread.sums:
        _thread.sums[dtype] = np.zeros(count, dtype)
    sums: npt.NDArray[Any] = _thread.sums[dtype]
    return sums


def _unseen(segments: Parts, query: QueryVectors, strong: QueryVectors) -> float:
    """The most that the weights left out of stage one can add to a score."""
    from denslice.search.cpu import postings, score_units

    weak = ~np.isin(query.keys, strong.keys)
    _, largest = postings.find(segments.table, query.keys[weak])
    return float(score_units.reach_of(query.weights[weak], largest))
