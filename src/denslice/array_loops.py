"""Compiled loops for slicing, densifying and writing postings, each tested equal to a plain definition.

Import this module inside the function that needs it: numba is slow to load.
"""

from __future__ import annotations

import numpy as np

from denslice.compiling import compiled


@compiled
def largest_per_slice(indptr, indices, data, slice_of, slices):
    """Mark the largest weight of every slice in each CSR row, of equal ones that of the lower token."""
    kept = np.zeros(len(data), np.bool_)
    best = np.full(slices, -1, np.int64)
    for row in range(len(indptr) - 1):
        for p in range(indptr[row], indptr[row + 1]):
            s = slice_of[indices[p]]
            if s >= 0 and data[p] > 0 and (best[s] < 0 or data[p] > data[best[s]]):
                best[s] = p
        for p in range(indptr[row], indptr[row + 1]):
            s = slice_of[indices[p]]
            if s >= 0 and best[s] >= 0:
                kept[best[s]] = True
                best[s] = -1
    return kept


@compiled
def place_greedily(starts, docs, weights, order, doc_count, slices, room):
    """Return the slice of each token of `order` (CSC columns), placed in turn where it collides least.

    A token's collision with a slice is the sum over its documents of the smaller of its weight and the slice's
    largest weight so far. Of equal collisions the slice with fewest tokens wins, then the first.
    """
    placed = np.empty(len(order), np.int64)
    largest = np.zeros((doc_count, slices), np.float32)
    taken = np.zeros(slices, np.int64)
    collision = np.empty(slices, np.float32)
    for i in range(len(order)):
        token = order[i]
        collision[:] = 0
        for p in range(starts[token], starts[token + 1]):
            weight = weights[p]
            row = largest[docs[p]]
            for s in range(slices):
                collision[s] += min(weight, row[s])
        best = -1
        for s in range(slices):
            if taken[s] < room and (
                best < 0
                or collision[s] < collision[best]
                or (collision[s] == collision[best] and taken[s] < taken[best])
            ):
                best = s
        placed[i] = best
        taken[best] += 1
        for p in range(starts[token], starts[token + 1]):
            if weights[p] > largest[docs[p], best]:
                largest[docs[p], best] = weights[p]
    return placed


@compiled
def sort_by_value(starts, rows, values):
    """Sort the postings of each list in place by descending value; rows of equal values keep their order."""
    counts = np.zeros(257, np.int64)
    old_rows, old_values = np.empty_like(rows), np.empty_like(values)
    for at in range(len(starts) - 1):
        start, end = starts[at], starts[at + 1]
        counts[:] = 0
        for p in range(start, end):
            old_rows[p - start] = rows[p]
            old_values[p - start] = values[p]
            counts[256 - np.int64(values[p])] += 1
        for level in range(1, 257):
            counts[level] += counts[level - 1]
        for i in range(end - start):
            level = 255 - np.int64(old_values[i])
            rows[start + counts[level]] = old_rows[i]
            values[start + counts[level]] = old_values[i]
            counts[level] += 1
