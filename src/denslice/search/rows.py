"""Compiled loops over documents' own arrays: exact scores from weights, dense scores, and ids.

Import this module inside the function that needs it: numba is slow to load. Arrays come from files that may be
damaged: no number in them may make a loop leave an array.
"""

from __future__ import annotations

import numpy as np

from denslice.kernels import compiled, compiled_reordering
from denslice.search.memory import as_float, bytes_at, half, prefetch, shorts_at, words_at
from denslice.search.parts import (
    BASE,
    DOCS,
    ID_LETTERS,
    ID_STARTS,
    KEY_BYTES,
    LETTERS,
    ROW_KEYS,
    ROW_STARTS,
    ROW_WEIGHTS,
    WEIGHTS,
)

EMPTY = 0xFFFFFFFF
AHEAD = 16  # rows whose place is asked for before it is needed; the row itself half as far ahead
LINE_FEED = 10
SIEVE = 4096  # a table this size stays in a core's first cache


@compiled
def rescore(parts, positions, keys, weights):
    """The exact score of each position: the sum over the query's keys of query weight · row weight. They must rise."""
    query = _hashed(keys, weights)
    maybe = np.zeros(SIEVE, np.uint8)
    for j in range(len(keys)):
        maybe[keys[j] & (SIEVE - 1)] = 1
    exact = np.empty(len(positions), np.float32)
    start = 0
    for part in parts:
        end = start
        while end < len(positions) and positions[end] < part[BASE] + part[DOCS]:
            end += 1
        if end > start:
            rows = positions[start:end] - part[BASE]
            starts, row_weights = (
                words_at(part[ROW_STARTS], part[DOCS] + 1),
                shorts_at(part[ROW_WEIGHTS], part[WEIGHTS]),
            )
            if part[KEY_BYTES] == 2:
                row_keys = shorts_at(part[ROW_KEYS], part[WEIGHTS])
                _rescore(rows, starts, row_keys, row_weights, query, maybe, exact[start:end])
            else:
                wide_keys = words_at(part[ROW_KEYS], part[WEIGHTS])
                _rescore(rows, starts, wide_keys, row_weights, query, maybe, exact[start:end])
        start = end
    return exact


@compiled
def _rescore(rows, row_starts, row_keys, row_weights, query, maybe, exact):
    table, table_weights = query
    places = np.empty(1024, np.uint64)
    for i in range(min(AHEAD, len(rows))):
        prefetch(row_starts, rows[i])
    for i in range(min(AHEAD // 2, len(rows))):
        _prefetch_row(rows[i], row_starts, row_keys, row_weights)
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            prefetch(row_starts, rows[i + AHEAD])
        if i + AHEAD // 2 < len(rows):
            _prefetch_row(rows[i + AHEAD // 2], row_starts, row_keys, row_weights)
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


@compiled
def _prefetch_row(row, row_starts, row_keys, row_weights):
    start, end = np.int64(row_starts[row]), np.int64(row_starts[row + 1])
    for p in range(start, min(end, start + 256), 32):  # a line of memory holds so many
        prefetch(row_keys, p)
        prefetch(row_weights, p)


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


@compiled
def located(parts, positions):
    """The part of each position, the row in it, the ids' letters with line feeds between them, and where each ends.

    Where an id's place is damaged there are no ends.
    """
    at, rows = np.empty(len(positions), np.int64), np.empty(len(positions), np.int64)
    ends = np.empty(len(positions), np.int64)
    letters = np.empty(16 * len(positions) + 1, np.uint8)
    total = 0
    for i in range(len(positions)):
        number = 0
        while positions[i] >= parts[number, BASE] + parts[number, DOCS]:
            number += 1
        at[i], rows[i] = number, positions[i] - parts[number, BASE]
        prefetch(words_at(parts[number, ID_STARTS], parts[number, DOCS] + 1), rows[i])
    for i in range(len(positions)):
        if i + AHEAD < len(positions):
            part = parts[at[i + AHEAD]]
            start = np.int64(words_at(part[ID_STARTS], part[DOCS] + 1)[rows[i + AHEAD]])
            prefetch(bytes_at(part[ID_LETTERS], part[LETTERS]), start)
        part = parts[at[i]]
        starts = words_at(part[ID_STARTS], part[DOCS] + 1)
        start, end = np.int64(starts[rows[i]]), np.int64(starts[rows[i] + 1])
        if start > end or end > part[LETTERS]:
            return at, rows, letters[:0], ends[:0]
        if total + end - start >= len(letters):
            more = np.empty(2 * len(letters) + end - start, np.uint8)
            more[:total] = letters[:total]
            letters = more
        text = bytes_at(part[ID_LETTERS], part[LETTERS])
        for p in range(start, end):
            letters[total] = text[p]
            total += 1
        ends[i] = total
        letters[total] = LINE_FEED
        total += 1
    return at, rows, letters[: max(0, total - 1)], ends


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
            total += as_float(np.uint32(sign_and_rest)) * query[j]
        products[i] = total * np.float32(2.0**112)
    return products
