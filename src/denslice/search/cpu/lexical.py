"""Lexical search in one compiled call: candidates, exact scores, the order of the best, and their ids.

Import this module inside the function that needs it: numba is slow to load.
"""

from __future__ import annotations

import numpy as np

from denslice.compiling import compiled, inlined
from denslice.search.cpu.postings import by_words
from denslice.search.cpu.rescore import LINE_FEED, exact_scores, falling, in_order
from denslice.search.query import FEW_MORE


@compiled
def best_by_words(parts, starts, keys, weights, wanted, pruning, room, sums, named):
    """Return the best documents of all queries: how many each query has, and their parts, rows, scores and ids.

    Then come how many postings were read and how many documents were scored exactly.

    The keys and weights of a query are those between its start and the next one. `wanted` and `pruning` are those of
    `by_words`, and `room` is how many candidates the arrays can hold at first. Ids are letters with line feeds between
    them. The value after them says whether all ids could be read, which fails if a file is damaged. Unless `named`,
    there are no ids, and equal scores are in any order.
    """
    queries, k = len(starts) - 1, wanted[0]
    counts, letters, used = np.zeros(queries, np.int64), np.empty(16 * k * queries + 1, np.uint8), 0
    at, rows = np.empty(k * queries, np.int64), np.empty(k * queries, np.int64)
    scores = np.empty(k * queries, np.float32)
    total, is_whole, read, scored = 0, True, np.int64(0), np.int64(0)
    for q in range(queries):
        q_keys, q_weights = keys[starts[q] : starts[q + 1]], weights[starts[q] : starts[q + 1]]
        positions, bounds, more = by_words(parts, q_keys, q_weights, wanted, pruning, np.empty(room, np.int64), sums)
        read += more
        all_at_once = wanted[1] > 0 or len(positions) <= k + FEW_MORE  # with pruning the bounds mean little
        positions, exact = _within_reach(parts, positions, bounds, q_keys, q_weights, k, all_at_once)
        scored += len(positions)
        best, parts_of_best, rows_of_best, ids, could_be_read = in_order(parts, positions, exact, k, named)
        is_whole &= could_be_read
        counts[q] = len(best)
        for i in range(len(best)):
            at[total], rows[total], scores[total] = parts_of_best[i], rows_of_best[i], exact[best[i]]
            total += 1
        letters = _with_room(letters, used, len(ids) + 1)
        for i in range(len(ids)):
            letters[used + i] = ids[i]
        used += len(ids)
        if counts[q]:
            letters[used] = LINE_FEED
            used += 1
    return counts, at[:total], rows[:total], scores[:total], letters[: max(0, used - 1)], is_whole, (read, scored)


@inlined
def _with_room(letters, used, more):
    """Return the letters, in a larger array if `more` do not fit."""
    if used + more <= len(letters):
        return letters
    larger = np.empty(2 * len(letters) + more, np.uint8)
    for i in range(used):
        larger[i] = letters[i]
    return larger


@inlined
def _within_reach(parts, positions, bounds, keys, weights, k, all_at_once):
    """Return the positions that can be among the k best, and their exact scores.

    The k with the highest bounds are scored first. The others are scored only if their bound reaches the lowest of
    these scores.
    """
    chosen, exact, count = np.empty(len(positions), np.int64), np.empty(len(positions), np.float32), 0
    below = np.float32(np.inf)
    lowest = -below if all_at_once else bounds[falling(bounds)[k - 1]]
    while True:
        first = count
        for i in range(len(positions)):
            if lowest <= bounds[i] and bounds[i] < below:
                chosen[count] = positions[i]
                count += 1
        scores = exact_scores(parts, chosen[first:count], keys, weights)
        for i in range(len(scores)):
            exact[first + i] = scores[i]
        if all_at_once or first > 0:
            return chosen[:count], exact[:count]
        least = exact[0]
        for i in range(count):
            least = min(least, exact[i])
        below, lowest = lowest, least - np.float32(1e-5) * abs(least)
