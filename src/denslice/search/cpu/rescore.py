"""Compiled loops over the rows of documents: exact lexical scores, and the order of the best with ids.

Import this module inside the function that needs it: numba is slow to load. Files may be damaged: no number in them
may make a loop leave an array. `parts` is a table of addresses.py.
"""

from __future__ import annotations

import numpy as np

from denslice.compiling import compiled, helper
from denslice.search.cpu.addresses import (
    BASE,
    ID_LETTERS,
    ID_STARTS,
    KEY_BYTES,
    N_DOCS,
    N_LETTERS,
    N_WEIGHTS,
    ROW_KEYS,
    ROW_STARTS,
    ROW_WEIGHTS,
)
from denslice.search.cpu.intrinsics import as_bits, bytes_at, half, prefetch, shorts_at, words_at

EMPTY = 0xFFFFFFFF
PREFETCHED_ROWS = 16  # rows whose starts are prefetched; the rows themselves are prefetched half as far ahead
LINE_FEED = 10
SIEVE_SLOTS = 4096  # a table of this size stays in the first cache of a core


@compiled
def rescore(parts, positions, keys, weights):
    """Return the exact score of each position: the sum of query weight · row weight. Positions must be sorted."""
    return exact_scores(parts, positions, keys, weights)


@helper
def exact_scores(parts, positions, keys, weights):
    """Return the same as `rescore`, for compiled callers."""
    query = _hashed(keys, weights)
    maybe = np.zeros(SIEVE_SLOTS, np.uint8)
    for j in range(len(keys)):
        maybe[keys[j] & (SIEVE_SLOTS - 1)] = 1
    exact = np.empty(len(positions), np.float32)
    start = 0
    for part in parts:
        end = start
        while end < len(positions) and positions[end] < part[BASE] + part[N_DOCS]:
            end += 1
        if end > start:
            rows = positions[start:end] - part[BASE]
            starts, row_weights = (
                words_at(part[ROW_STARTS], part[N_DOCS] + 1),
                shorts_at(part[ROW_WEIGHTS], part[N_WEIGHTS]),
            )
            if part[KEY_BYTES] == 2:
                row_keys = shorts_at(part[ROW_KEYS], part[N_WEIGHTS])
                _rescore(rows, starts, row_keys, row_weights, query, maybe, exact[start:end])
            else:
                wide_keys = words_at(part[ROW_KEYS], part[N_WEIGHTS])
                _rescore(rows, starts, wide_keys, row_weights, query, maybe, exact[start:end])
        start = end
    return exact


@helper
def _rescore(rows, row_starts, row_keys, row_weights, query, maybe, exact):
    table, table_weights = query
    places = np.empty(1024, np.uint64)
    for i in range(min(PREFETCHED_ROWS, len(rows))):
        prefetch(row_starts, rows[i])
    for i in range(min(PREFETCHED_ROWS // 2, len(rows))):
        _prefetch_row(rows[i], row_starts, row_keys, row_weights)
    for i in range(len(rows)):
        if i + PREFETCHED_ROWS < len(rows):
            prefetch(row_starts, rows[i + PREFETCHED_ROWS])
        if i + PREFETCHED_ROWS // 2 < len(rows):
            _prefetch_row(rows[i + PREFETCHED_ROWS // 2], row_starts, row_keys, row_weights)
        start, end = np.int64(row_starts[rows[i]]), min(np.int64(row_starts[rows[i] + 1]), len(row_keys))
        if end - start > len(places):
            places = np.empty(end - start, np.uint64)
        count = 0
        for p in range(np.uint64(start), np.uint64(end)):  # without a branch: which keys match cannot be foreseen
            places[count] = p
            count += maybe[row_keys[p] & (SIEVE_SLOTS - 1)]
        total = 0.0
        for p in places[:count]:
            at = _slot(row_keys[p], len(table))
            while table[at] != EMPTY and table[at] != row_keys[p]:
                at = (at + 1) & (len(table) - 1)
            total += np.float64(table_weights[at]) * half(row_weights[p])
        exact[i] = total


@helper
def _prefetch_row(row, row_starts, row_keys, row_weights):
    start, end = np.int64(row_starts[row]), np.int64(row_starts[row + 1])
    for p in range(start, min(end, start + 256), 32):  # a line of memory holds so many
        prefetch(row_keys, p)
        prefetch(row_weights, p)


@helper
def _hashed(keys, weights):
    """Return the query as an open hash table of keys and weights. A free slot has the key EMPTY and the weight 0."""
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


@helper
def _slot(key, size):
    return np.int64(((np.uint64(key) * np.uint64(0x9E3779B1)) >> np.uint64(15)) & np.uint64(size - 1))


@compiled
def ranked(parts, positions, scores, k):
    """Return the indexes of the k best scores, equal ones by id, the part and row of each, and their ids.

    Ids are letters with line feeds between them. The last value says whether all ids could be read.
    """
    return in_order(parts, positions, scores, k, True)


@helper
def in_order(parts, positions, scores, k, named):
    """Return the same as `ranked`, for compiled callers; unless `named`, equal scores stay in order, without ids."""
    order = falling(scores)
    count = min(k, len(order))
    tied = count  # what ties the k-th may come before it by its id
    while named and count and tied < len(order) and scores[order[tied]] == scores[order[count - 1]]:
        tied += 1
    order = order[:tied]
    at, rows = _located(parts, positions, order)
    names, is_whole = _names(parts, at, rows[: tied if named else 0])
    places = np.arange(tied)
    first = np.int64(0 if named and is_whole else tied)
    while first < tied:
        end = first + 1
        while end < tied and scores[order[end]] == scores[order[first]]:
            end += 1
        if end - first > 1:
            _sort_by_name(parts, at, names, places[first:end])
        first = end
    best, best_at, best_rows = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
    for i in range(count):
        best[i], best_at[i], best_rows[i] = order[places[i]], at[places[i]], rows[places[i]]
    letters = _joined(parts, at, names, places[: count if named and is_whole else 0])
    return best, best_at, best_rows, letters, is_whole


@helper
def falling(scores):
    """Return the indexes of scores in falling order, equal ones in rising order, by a radix sort of 11 bits a pass."""
    keys, other = np.empty(len(scores), np.uint32), np.empty(len(scores), np.uint32)
    order, moved = np.empty(len(scores), np.int64), np.empty(len(scores), np.int64)
    for i in range(len(scores)):
        bits = as_bits(scores[i] + np.float32(0))  # -0 is 0
        keys[i] = bits if bits >> np.uint32(31) else bits ^ np.uint32(0x7FFFFFFF)  # falls as the score rises
        order[i] = i
    for shift in (0, 11, 22):
        starts = np.zeros(2049, np.int64)
        for key in keys:
            starts[((key >> np.uint32(shift)) & np.uint32(2047)) + np.uint32(1)] += 1
        for digit in range(2048):
            starts[digit + 1] += starts[digit]
        for i in range(len(keys)):
            digit = (keys[i] >> np.uint32(shift)) & np.uint32(2047)
            other[starts[digit]], moved[starts[digit]] = keys[i], order[i]
            starts[digit] += 1
        keys, other, order, moved = other, keys, moved, order
    return order


@helper
def _located(parts, positions, order):
    """Return the part of each of these positions, and the row in it."""
    at, rows = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    for i in range(len(order)):
        position, number = positions[order[i]], 0
        while position >= parts[number, BASE] + parts[number, N_DOCS]:
            number += 1
        at[i], rows[i] = number, position - parts[number, BASE]
        prefetch(words_at(parts[number, ID_STARTS], parts[number, N_DOCS] + 1), rows[i])
    return at, rows


@helper
def _names(parts, at, rows):
    """Return where the id of each row begins and ends among the letters of its part, and whether all are valid."""
    names = np.empty((len(rows), 2), np.int64)
    for i in range(len(rows)):
        part = parts[at[i]]
        starts = words_at(part[ID_STARTS], part[N_DOCS] + 1)
        names[i, 0], names[i, 1] = starts[rows[i]], starts[rows[i] + 1]
        if names[i, 0] > names[i, 1] or names[i, 1] > part[N_LETTERS]:
            return names, False
        prefetch(bytes_at(part[ID_LETTERS], part[N_LETTERS]), names[i, 0])
    return names, True


@helper
def _sort_by_name(parts, at, names, places):
    """Sort places by their ids, with a merge sort."""
    order, other = places, np.empty(len(places), np.int64)
    width = 1
    while width < len(order):
        for start in range(0, len(order), 2 * width):
            middle, stop = min(start + width, len(order)), min(start + 2 * width, len(order))
            left, right = start, middle
            for to in range(start, stop):
                if right >= stop or (left < middle and not _is_before(parts, at, names, order[right], order[left])):
                    other[to] = order[left]
                    left += 1
                else:
                    other[to] = order[right]
                    right += 1
        order, other = other, order
        width *= 2
    for i in range(len(places)):
        places[i] = order[i]


@helper
def _is_before(parts, at, names, one, other):
    """Return whether one id comes before another. UTF-8 bytes have the same order as the characters they encode."""
    first = bytes_at(parts[at[one], ID_LETTERS], parts[at[one], N_LETTERS])
    second = bytes_at(parts[at[other], ID_LETTERS], parts[at[other], N_LETTERS])
    i, j = names[one, 0], names[other, 0]
    while i < names[one, 1] and j < names[other, 1]:
        if first[i] != second[j]:
            return first[i] < second[j]
        i += 1
        j += 1
    return i == names[one, 1] and j < names[other, 1]


@helper
def _joined(parts, at, names, places):
    """Return the ids at these places, with line feeds between them."""
    total = len(places)
    for i in places:
        total += names[i, 1] - names[i, 0]
    letters = np.empty(total, np.uint8)
    to = 0
    for i in places:
        text = bytes_at(parts[at[i], ID_LETTERS], parts[at[i], N_LETTERS])
        for p in range(names[i, 0], names[i, 1]):
            letters[to] = text[p]
            to += 1
        letters[to] = LINE_FEED
        to += 1
    return letters[: max(0, total - 1)]
