"""Search by words on the CPU: the best documents of lexical queries, in one call of compiled code."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.options import SearchOptions
from denslice.profiling import count, open_profile
from denslice.search.cpu.addresses import BASE, Parts
from denslice.search.cpu.exact_scores import ids_of
from denslice.search.cpu.scan_state import SUMS
from denslice.search.query import NO_SCORES, NONE_FOUND, Found, Mask, QueryVectors
from denslice.vectors import Floats, Ints

MAX_NARROW_TOKENS = 1_024  # tokens of a query up to which sums of 16 bits are precise enough
MORE_IF_PRUNED = 96  # documents that are rescored beside the k best, at least, if pruning is above 0
INITIAL_CANDIDATES = 1_024  # candidates that fit the arrays at the start of a scan
Letters = npt.NDArray[np.uint8]
Best = tuple[Ints, Ints, Ints, Floats, Letters, bool, tuple[int, int]]
_thread = threading.local()


def is_lexical(query: QueryVectors, options: SearchOptions) -> bool:
    """Return whether a search is lexical and uses every token of the query, exactly or with pruning."""
    return query.dense is None and options.rerank and options.theta == 0 and len(query.keys) <= MAX_NARROW_TOKENS


def search_lexical(
    segments: Parts, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]
) -> list[Found]:
    """Return the k best documents of each lexical query, in one call of compiled code."""
    if not segments:
        return [NONE_FOUND] * len(queries)
    found = _best(segments, queries, options.k, options.pruned_words, masks, True)
    counts, at, rows, scores, letters, is_whole, _ = found
    ids = ids_of(segments, at, rows, letters, is_whole)
    ends = list(accumulate(counts.tolist(), initial=0))
    return [
        Found(at[cut], rows[cut], ids[cut], scores[cut], scores[cut], NO_SCORES) for cut in map(slice, ends, ends[1:])
    ]


def best_by_words(
    segments: Parts, query: QueryVectors, k: int, pruning: float, masks: Sequence[Mask]
) -> tuple[Ints, Floats]:
    """Return the k best documents by words: their positions over all segments, in rising order, and lexical scores."""
    _, at, rows, scores, *_ = _best(segments, [query], k, pruning, masks, False)
    positions = segments.table[at, BASE] + rows
    order = np.argsort(positions)
    return positions[order], scores[order]


def _best(
    segments: Parts, queries: Sequence[QueryVectors], k: int, pruning: float, masks: Sequence[Mask], named: bool
) -> Best:
    """Return what the compiled `best_by_words` returns."""
    from denslice.search.cpu import lexical, score_units

    k = min(k, segments.docs)
    most = 0 if pruning == 0 else k + int(4 * k**0.5) + MORE_IF_PRUNED
    firsts = [count if any(map(len, masks)) else _share_of_first_block(count, segments) for count in (k, most)]
    starts = np.fromiter(accumulate((len(query.keys) for query in queries), initial=0), np.int64, len(queries) + 1)
    one = queries[0]
    keys = one.keys if len(queries) == 1 else np.concatenate([query.keys for query in queries])
    weights = one.weights if len(queries) == 1 else np.concatenate([query.weights for query in queries])
    found: Best = lexical.best_by_words(
        segments.table_with(masks), starts, keys, weights, (k, most, *firsts), pruning,
        max(INITIAL_CANDIDATES, 4 * k), working_sums(score_units.NARROW.dtype), named,
    )  # fmt: skip
    read, scored = found[-1]
    count_words(segments, queries, scored, read)
    return found


def count_words(segments: Parts, queries: Sequence[QueryVectors], scored: int, read: int | None = None) -> None:
    """Add to the profile what queries read of the posting lists of their tokens: everything unless `read` is given."""
    if open_profile() is None:
        return
    there = sum(segment.postings.count(query.keys) for query in queries for segment in segments)
    count("terms", sum(len(query.keys) for query in queries))
    count("postings", there)
    count("postings_read", there if read is None else read)
    count("words_scored", scored)


def _share_of_first_block(k: int, segments: Parts) -> int:
    """Return how many of the k best the first block has at most, very likely, if all blocks are alike."""
    expected = k * min(1.0, segments[0].block / max(1, segments.docs))
    return min(k, int(expected + 3 * expected**0.5 + 4))


def working_sums(dtype: type[np.unsignedinteger[Any]]) -> npt.NDArray[Any]:
    """Return this thread's array for sums. A new one for each query would cost a page fault for every page."""
    if not hasattr(_thread, dtype.__name__):
        setattr(_thread, dtype.__name__, np.zeros(SUMS, dtype))
    sums: npt.NDArray[Any] = getattr(_thread, dtype.__name__)
    return sums
