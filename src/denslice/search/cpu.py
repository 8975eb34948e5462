"""Compiled loops of search on the CPU: posting lists to candidates, candidates to exact scores.

Import this module inside the function that needs it: numba is slow to load. Scores of stage one are whole numbers
of a unit chosen per query; they are never below the exact score, and above it by less than the query's margin.
Arrays come from files that may be damaged: no number in them may make a loop leave an array. Inner loops count with
unsigned numbers, for which numba need not ask whether an index is counted from the end.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from denslice.kernels import compiled, compiled_reordering

LARGEST_SCORE = 2**31 - 1  # of stage one, in units
BIN_SHIFT = 20
BINS = 1 << 12  # as many as 32 bits can need
ROWS = 1 << 16  # as many as a posting can name
CHUNK = 32  # scores looked at together; a block is a whole number of these
LEVELS = 255  # steps of a posting's value
EMPTY = 0xFFFFFFFF
SIEVE = 4096  # a table this size stays in a core's first cache


@intrinsic
def _as_float(context, bits):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@compiled
def half(bits):
    """The float32 of a non-negative float16, given its bits."""
    return _as_float(np.uint32(bits) << np.uint32(13)) * np.float32(2.0**112)


@compiled
def find_lists(block_starts, list_keys, keys):
    """Where each key's posting list stands in each block, (blocks, keys), -1 for none. Keys must rise."""
    found = np.full((len(block_starts) - 1, len(keys)), -1, np.int64)
    for block in range(len(block_starts) - 1):
        low, end = np.int64(block_starts[block]), min(np.int64(block_starts[block + 1]), len(list_keys))
        for j in range(len(keys)):
            high = end
            while low < high:
                middle = (low + high) >> 1
                if list_keys[middle] < keys[j]:
                    low = middle + 1
                else:
                    high = middle
            if low < end and list_keys[low] == keys[j]:
                found[block, j] = low
    return found


@compiled
def list_maxima(found, maxima):
    """The largest weight each key has in any block."""
    largest = np.zeros(found.shape[1], np.float32)
    for block in range(found.shape[0]):
        for j in range(found.shape[1]):
            if found[block, j] >= 0:
                largest[j] = max(largest[j], half(maxima[found[block, j]]))
    return largest


@compiled
def scan(found, starts, maxima, rows, values, weights, unit, extra, allowed, docs, block, base, k, margin, most, best):
    """Scores a segment block by block, and keeps what can still be among the k best of all segments.

    `extra` is a score of 0 or more that each document has besides its lexical one, or is empty. `allowed` has a 0
    for each document to leave out, or is empty. `best` is (documents, scores, bins, counts, sums): the first counts[0]
    entries are held, all above the threshold counts[1]; `bins` is a histogram of the scores ever taken in; and ROWS
    sums to work with.
    Returns documents and scores, in larger arrays where they were too small.
    """
    held, scores, bins, counts, sums = best
    for b in range(found.shape[0]):
        sums[:block] = 0
        if not _add_lists(found[b], starts, maxima, rows, values, weights, unit, sums) and not len(extra):
            continue
        size = min(block, docs - b * block)
        sums[size:block] = 0
        if len(extra):
            for r in range(size):  # one more than nothing: with an extra score every document is a result
                sums[r] += np.uint32(np.ceil(extra[b * block + r] * unit)) + np.uint32(1)
        if len(allowed):
            for r in range(size):
                sums[r] *= allowed[b * block + r]
        if counts[1] == 0:
            first = np.zeros_like(bins)
            for r in range(block):
                first[sums[r] >> np.uint32(BIN_SHIFT)] += 1
            counts[1] = threshold(first, k, margin, most)
        held, scores = _collect(sums[:block], base + b * block, held, scores, bins, counts)
        counts[1] = max(counts[1], threshold(bins, k, margin, most))
    return held, scores


@compiled
def _add_lists(lists, starts, maxima, rows, values, weights, unit, sums):
    """Adds the lists' values to the scores of the block's documents; whether there were any."""
    touched = False
    for j in range(len(lists)):
        at = lists[j]
        if at >= 0:
            touched = True
            step = np.uint32(np.ceil(np.float64(weights[j]) * half(maxima[at]) * unit / LEVELS))
            for p in range(np.uint64(starts[at]), np.uint64(min(np.int64(starts[at + 1]), len(rows)))):
                sums[rows[p]] += step * np.uint32(values[p])
    return touched


@compiled
def threshold(bins, k, margin, most):
    """No document at or below it is of use: k are better by the margin, or `most` are better (0: no such limit)."""
    reached = 0
    lowest = 0
    for b in range(LARGEST_SCORE >> BIN_SHIFT, 0, -1):
        before = reached
        reached += bins[b]
        if before < k <= reached:
            lowest = max(lowest, (b << BIN_SHIFT) - margin - 1)
        if before < most <= reached:
            lowest = max(lowest, (b << BIN_SHIFT) - 1)
        if reached >= k and reached >= most:
            break
    return lowest


@compiled
def _collect(sums, first, held, scores, bins, counts):
    """Takes in the scores above the threshold; full arrays are freed of what has fallen below it, or doubled."""
    count, lowest = counts[0], np.uint32(counts[1])
    for start in range(0, len(sums), CHUNK):
        above = np.uint32(0)
        for r in range(CHUNK):  # a fixed number of steps without a branch: one vector comparison
            above += np.uint32(sums[start + r] > lowest)
        if above == 0:
            continue
        if count + CHUNK > len(held):
            count = keep_above(lowest, held, scores, count)
            if count + CHUNK > len(held) // 2:
                held = np.concatenate((held, np.empty_like(held)))
                scores = np.concatenate((scores, np.empty_like(scores)))
        for r in range(start, start + CHUNK):
            if sums[r] > lowest:
                held[count] = first + r
                scores[count] = sums[r]
                bins[sums[r] >> np.uint32(BIN_SHIFT)] += 1
                count += 1
    counts[0] = count
    return held, scores


@compiled
def keep_above(lowest, held, scores, count):
    """Moves the entries with scores above `lowest` to the front; how many there are."""
    kept = 0
    for i in range(count):
        if scores[i] > lowest:
            held[kept] = held[i]
            scores[kept] = scores[i]
            kept += 1
    return kept


@compiled
def rescore(rows, row_starts, row_keys, row_weights, keys, weights):
    """The exact score of each row: the sum over the query's keys of query weight · row weight."""
    table, table_weights = _hashed(keys, weights)
    maybe = np.zeros(SIEVE, np.uint8)
    for j in range(len(keys)):
        maybe[keys[j] & (SIEVE - 1)] = 1
    places = np.empty(1024, np.uint64)
    exact = np.empty(len(rows), np.float32)
    for i in range(len(rows)):
        start, end = np.int64(row_starts[rows[i]]), min(np.int64(row_starts[rows[i] + 1]), len(row_keys))
        if end - start > len(places):
            places = np.empty(end - start, np.uint64)
        count = 0
        for p in range(np.uint64(start), np.uint64(end)):  # without a branch: which keys match cannot be foreseen
            places[count] = p
            count += maybe[row_keys[p] & (SIEVE - 1)]
        total = 0.0
        for p in places[:count]:
            at = _slot(row_keys[p], len(table))
            while table[at] != EMPTY and table[at] != row_keys[p]:
                at = (at + 1) & (len(table) - 1)
            total += np.float64(table_weights[at]) * half(row_weights[p])
        exact[i] = total
    return exact


@compiled
def _hashed(keys, weights):
    """The query as an open hash table: keys, EMPTY where there is none, and weights, 0 there."""
    size = 256
    while size < 4 * len(keys):
        size *= 2
    table = np.full(size, EMPTY, np.uint32)
    table_weights = np.zeros(size, np.float32)
    for j in range(len(keys)):
        at = _slot(keys[j], size)
        while table[at] != EMPTY:
            at = (at + 1) & (size - 1)
        table[at] = keys[j]
        table_weights[at] = weights[j]
    return table, table_weights


@compiled
def _slot(key, size):
    return np.int64(((np.uint64(key) * np.uint64(0x9E3779B1)) >> np.uint64(15)) & np.uint64(size - 1))


@compiled_reordering
def dense_products(vectors, query):
    """The inner product of each row, given as the bits of float16 numbers, with the query."""
    products = np.empty(len(vectors), np.float32)
    for i in range(len(vectors)):
        total = np.float32(0)
        for j in range(vectors.shape[1]):
            bits = np.uint32(vectors[i, j])
            sign_and_rest = ((bits & np.uint32(0x8000)) << np.uint32(16)) | (
                (bits & np.uint32(0x7FFF)) << np.uint32(13)
            )
            total += _as_float(np.uint32(sign_and_rest)) * query[j]
        products[i] = total * np.float32(2.0**112)
    return products
