"""Candidates for the k best: a threshold from a histogram of scores, and the documents whose score is above it.

Import this module inside the function that needs it: numba is slow to load.
"""

from __future__ import annotations

import numpy as np

from denslice.compiling import helper, inlined
from denslice.search.cpu.scan_state import (
    CHUNK_SUMS,
    HISTOGRAM_BINS,
    K_BIN,
    K_COUNT,
    KEPT,
    MOST_BIN,
    MOST_COUNT,
    PART_SUMS,
    SUMS,
    THRESHOLD,
)
from denslice.search.cpu.score_units import bin_shift


@inlined
def first_threshold(sums, k, margin, most, fraction):
    """Return a threshold from the first block: the best of each 8 or 32 documents are counted, and k are above it."""
    bins, counts, shift = np.zeros(HISTOGRAM_BINS, np.int64), np.zeros(6, np.int64), bin_shift(fraction)
    few = np.uint64(32 if 8 * 32 * max(k, most) < len(sums) else 8)
    for start in range(np.uint64(0), np.uint64(len(sums)), few):
        bins[largest_of(sums, start, few) >> shift] += 1
    counts[K_COUNT] = counts[MOST_COUNT] = len(sums) // np.int64(few)
    return threshold(bins, counts, k, margin, most, fraction)


@helper
def threshold(bins, counts, k, margin, most, fraction):
    """Return a score that every candidate exceeds: k documents are better by the margin, or `most` are better.

    `most` is 0 if there is no such limit.
    """
    shift = np.int64(bin_shift(fraction))
    lowest = (_risen(bins, counts[K_BIN : K_BIN + 2], k) << shift) - margin - 1
    if most:
        lowest = max(lowest, (_risen(bins, counts[MOST_BIN : MOST_BIN + 2], most) << shift) - 1)
    return max(0, lowest)


@helper
def _risen(bins, place, wanted):
    """Return the highest bin with `wanted` documents in it and above. `place` is (bin, documents) of the last call."""
    while place[1] - bins[place[0]] >= wanted:
        place[1] -= bins[place[0]]
        place[0] += 1
    return place[0]


@inlined
def collect(sums, first, left_out, held, bounds, bins, counts, fraction):
    """Keep the documents that can exceed the threshold, and set the sums to 0 for the next block.

    If the arrays are full, candidates that have fallen below the threshold are dropped, or the arrays are doubled.
    """
    count, lowest, shift = counts[KEPT], max(0, counts[THRESHOLD] - left_out), bin_shift(fraction)
    chunks = np.empty(SUMS // 128, np.uint64)
    for start in chunks[: _passing(sums, lowest, chunks)]:
        if count + np.int64(CHUNK_SUMS) >= len(held):
            count = keep_above(counts[THRESHOLD], held, bounds, count)
            if count + np.int64(CHUNK_SUMS) >= len(held) // 2:
                held, bounds = (
                    _doubled(held, np.empty(2 * len(held), np.int64)),
                    _doubled(bounds, np.empty(2 * len(bounds), np.uint32)),
                )
        before = count
        for part in range(start, start + CHUNK_SUMS, PART_SUMS):
            if largest_of(sums, part, PART_SUMS) > lowest:
                for r in range(part, part + PART_SUMS):  # without a branch: which are above cannot be foreseen
                    held[count] = np.int64(r)
                    count += np.int64(sums[r] > lowest)
        for i in range(before, count):
            score = np.int64(sums[held[i]])
            held[i] += first
            bounds[i] = score + left_out
            at = score >> shift
            bins[at] += 1
            counts[K_COUNT] += at >= counts[K_BIN]
            counts[MOST_COUNT] += at >= counts[MOST_BIN]
        clear(sums, start)
    counts[KEPT] = count
    return held, bounds


@inlined
def _doubled(array, larger):
    """Return the larger array, with the elements of the other at its beginning."""
    for i in range(len(array)):
        larger[i] = array[i]
    return larger


@inlined
def _passing(sums, lowest, chunks):
    """Write the start of each chunk that has a sum above `lowest`, and return how many there are; clear the others."""
    count = 0
    for start in range(np.uint64(0), np.uint64(len(sums)), CHUNK_SUMS):
        largest = sums[start]
        for r in range(start, start + CHUNK_SUMS):  # in vectors
            largest = max(largest, sums[r])
        chunks[count] = start
        if np.int64(largest) > lowest:
            count += 1
        else:
            clear(sums, start)
    return count


@helper
def clear(sums, start):
    """Set a chunk of sums to 0."""
    for r in range(start, start + CHUNK_SUMS):
        sums[r] = 0


@helper
def largest_of(sums, start, count):
    """Return the largest of `count` sums, without a branch, so that vector instructions are used."""
    largest = sums[start]
    for r in range(start, start + count):
        largest = max(largest, sums[r])
    return largest


@helper
def keep_above(lowest, held, bounds, count):
    """Move the entries with bounds above `lowest` to the front, and return how many there are."""
    kept = 0
    for i in range(count):
        if bounds[i] > lowest:
            held[kept] = held[i]
            bounds[kept] = bounds[i]
            kept += 1
    return kept
