"""Search by words alone in one compiled call: candidates, exact scores, the best in order, their ids.

Import this module inside the function that needs it: numba is slow to load.
"""

from __future__ import annotations

import numpy as np

from denslice.kernels import compiled
from denslice.search.cpu import by_words
from denslice.search.retrieve import FEW
from denslice.search.rows import LINE_FEED, ranked, rescore


@compiled
def best_by_words(parts, starts, keys, weights, wanted, caution, room, sums):
    """The best documents of each query, one after the other: how many, their parts, rows, scores, and ids.

    A query's keys and weights are those between its start and the next; `wanted` and `caution` are those of
    `by_words`, `room` is how many candidates are held to begin with. Ids are letters with line feeds between them;
    the last is whether all could be read.
    """
    queries, k = len(starts) - 1, wanted[0]
    counts, letters, used = np.zeros(queries, np.int64), np.empty(16 * k * queries + 1, np.uint8), 0
    at, rows = np.empty(k * queries, np.int64), np.empty(k * queries, np.int64)
    scores = np.empty(k * queries, np.float32)
    total, is_whole = 0, True
    for q in range(queries):
        ours = keys[starts[q] : starts[q + 1]], weights[starts[q] : starts[q + 1]]
        positions, bounds = by_words(parts, *ours, wanted, caution, np.empty(room, np.int64), sums)
        if wanted[1] or len(positions) <= k + FEW:  # with caution the bounds mean little
            exact = rescore(parts, positions, *ours)
        else:
            positions, exact = _within_reach(parts, positions, bounds, *ours, k)
        best, parts_of_best, rows_of_best, ids, could_be_read = ranked(parts, positions, exact, k)
        is_whole &= could_be_read
        counts[q] = min(k, len(best))
        for i in range(counts[q]):
            at[total], rows[total], scores[total] = parts_of_best[i], rows_of_best[i], exact[best[i]]
            total += 1
        if used + len(ids) + 1 > len(letters):
            letters = np.append(letters, np.empty(len(letters) + len(ids) + 1, np.uint8))
        letters[used : used + len(ids)] = ids
        used += len(ids)
        if counts[q]:
            letters[used] = LINE_FEED
            used += 1
    return counts, at[:total], rows[:total], scores[:total], letters[: max(0, used - 1)], is_whole


@compiled
def _within_reach(parts, positions, bounds, keys, weights, k):
    """The positions that can be among the k best, and their exact scores.

    The k with the highest bounds are scored first; of the others only those whose bound reaches the least of them.
    """
    likely = bounds >= np.partition(bounds, len(bounds) - k)[len(bounds) - k]
    scores = rescore(parts, positions[likely], keys, weights)
    least = scores.min()
    others = ~likely & (bounds >= least - np.float32(1e-5) * abs(least))
    more = rescore(parts, positions[others], keys, weights)
    return np.concatenate((positions[likely], positions[others])), np.concatenate((scores, more))
