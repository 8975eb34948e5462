"""Compiled loops of search on the CPU: posting lists to candidates, candidates to exact scores.

Import this module inside the function that needs it: numba is slow to load. Scores of stage one are whole numbers
of a unit chosen per query; they are never below the exact score, and above it by less than the query's margin.
Sums are kept in 16 bits where that is fine enough, for speed, and in 32 otherwise: each has its own Scale.
Arrays come from files that may be damaged: no number in them may make a loop leave an array. Inner loops count with
unsigned numbers, for which numba need not ask whether an index is counted from the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from denslice.kernels import compiled, compiled_reordering

BINS = 1 << 12  # of a histogram of scores
ROWS = 1 << 16  # as many as a posting can name
CHUNK, PART = np.uint64(128), np.uint64(16)  # scores looked at together, by vector instructions
LEVELS = 255  # steps of a posting's value
EMPTY = 0xFFFFFFFF
NEAR = 64  # lists around a guess
AHEAD = 8  # rows whose memory is asked for before they are needed
SIEVE = 4096  # a table this size stays in a core's first cache
SHORT = 32  # postings below which a list is read whole or not at all
LEFT_OUT = 0.4  # of the threshold: what the postings left out of a block may add up to, to begin with
LEFT_OUT_AT_MOST = 0.75  # and later
RAISE = 1.5  # how fast the price is changed that postings are left out at
KEEP = (1, 2, 4, 6)  # how often a list may be halved
NOTHING = 63  # or left out
PLANNED = 4  # blocks that are cut by one plan, or fewer to begin with
RESCORING, OPENING = 250, 100  # postings that could be read while one document is rescored, or one list looked up


class Scale(NamedTuple):
    """How scores of stage one are counted: the largest, bits of a posting's share below one unit, and of a bin."""

    dtype: Any
    largest: int
    fraction: int
    bin_shift: int

    def spare(self, terms: int) -> int:
        """Units that rounding up may add to the score of a query of so many terms."""
        return (2 if self.fraction else LEVELS) * (terms + 2)


NARROW = Scale(np.uint16, 2**16 - 1, 16, 4)
WIDE = Scale(np.uint32, 2**31 - 1, 0, 20)
NARROW_TERMS = 1_024  # up to which rounding in 16 bits is small beside that of the postings


@intrinsic
def _as_float(context, bits):
    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), generate


@intrinsic
def _prefetch(context, array, index):
    """Asks for the memory of an element, which may be any: nothing is read. Files are too large for caches."""

    def generate(context, builder, signature, arguments):
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        shape = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        read, keep, is_data = (ir.Constant(whole, number) for number in (0, 3, 1))
        builder.call(builder.module.declare_intrinsic("llvm.prefetch", [byte], shape), [place, read, keep, is_data])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


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
        if low >= end:
            continue
        share = (end - low) / (np.float64(list_keys[end - 1]) + 1)
        first = low
        for j in range(len(keys)):
            high = end
            guess = first + np.int64(keys[j] * share)  # near it, if the block has most keys: few steps in one place
            if low + NEAR < guess < end - NEAR and list_keys[guess - NEAR] < keys[j] <= list_keys[guess + NEAR]:
                low, high = guess - NEAR, guess + NEAR
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
def scan(found, lists, query, allowed, extra, docs, block, base, wanted, plan, best):
    """Scores a segment block by block, and keeps what can still be among the k best of all segments.

    `found` says where each key's list stands in each block. `lists` are the postings' (starts, maxima, rows, values),
    `query` its (weights, unit, fraction). `allowed` has a 0 for each document to leave out, or is empty; `extra` is a
    score of 0 or more that each document has besides its lexical one, or is empty.
    `wanted` is (k, k_first, margin, most). The first block's best `k_first` settle the threshold to begin with; where
    those are fewer than k it is a guess, and right if the threshold of the k best in the end, counts[6], is not below.
    `plan` is (price, shifts, wholes, steps, ends): see `_planned`; price[0] below 0 is for lists to be read whole, and
    price[1] above 0 for those to be read roughly, what they then lack being nobody's concern.
    `best` is (documents, bounds, bins, counts, sums): the first counts[0] entries are held, all bounds above the
    threshold counts[1]; `bins` is a histogram of the scores ever taken in, counts[2:4] and counts[4:6] say where in
    it the best k and the best `most` begin, counts[7] counts blocks; and ROWS sums to work with.
    Returns documents and bounds, in larger arrays where they were too small.
    """
    held, bounds, bins, counts, sums = best
    _, unit, fraction = query
    k, k_first, margin, most = wanted
    price = plan[0]
    padded = -(-block // np.int64(CHUNK)) * np.int64(CHUNK)
    for b in range(len(found)):
        _prefetch_next(found, b, lists, plan[1])
        counts[7] += 1
        is_due = counts[7] & (counts[7] - 1) == 0 or counts[7] % PLANNED == 0
        some, left_out = _ends(found[b], lists, query, counts[1], is_due, plan)
        if not some and not len(extra):
            continue
        sums[:padded] = 0
        read = _add_lists(found[b], lists, fraction, plan[3], plan[4], sums)
        first, size = b * block, min(block, docs - b * block)
        sums[size:padded] = 0
        _add_extra(extra[first : first + size], unit, sums)
        _leave_out(allowed[first : first + size], sums)
        if counts[1] == 0:
            counts[1] = _first_threshold(sums[:padded], k_first, margin, most, fraction)
        before = counts[0]
        held, bounds = _collect(sums[:padded], base + first, left_out, held, bounds, bins, counts, fraction)
        if counts[0] > before:
            counts[6] = threshold(bins, counts, k, margin, most, fraction)
            counts[1] = max(counts[1], counts[6])
        price[2] += RESCORING * max(0, counts[0] - before - k_first)
        price[3] += read
    return held, bounds


@compiled
def _add_extra(extra, unit, sums):
    for r in range(len(extra)):  # one more than nothing: with an extra score every document is a result
        sums[r] += np.uint32(np.ceil(extra[r] * unit)) + np.uint32(1)


@compiled
def _leave_out(allowed, sums):
    for r in range(len(allowed)):
        sums[r] *= allowed[r]


@compiled
def _prefetch_next(found, b, lists, shifts):
    """Asks for the memory of the next block's postings, and of the places of those after it."""
    starts, maxima, rows, values = lists
    for j in range(len(shifts)):
        if shifts[j] < NOTHING:
            if b + 2 < len(found):
                _prefetch(starts, found[b + 2, j])
                _prefetch(maxima, found[b + 2, j])
            if b + 1 < len(found) and found[b + 1, j] >= 0:
                start, end = np.int64(starts[found[b + 1, j]]), np.int64(starts[found[b + 1, j] + 1])
                _prefetch(rows, start)
                _prefetch(values, start)
                _prefetch(values, start + ((end - start) >> shifts[j]))


@compiled
def _ends(found, lists, query, threshold, is_due, plan):
    """Sets where each list of a block ends, cut as planned; whether there are any, and what a sum may lack for it."""
    price, shifts = plan[0], plan[1]
    if price[1] > 0:
        if is_due:
            _planned_roughly(found, lists, query, plan)
        some, _ = _cut_lists(found, lists, query, plan)
        return some, np.int64(0)
    if price[0] < 0 or threshold <= 0:
        shifts[:] = 0
        return _cut_lists(found, lists, query, plan)
    if is_due:
        _planned(found, lists, query, threshold, plan)
    some, left_out = _cut_lists(found, lists, query, plan)
    while left_out > LEFT_OUT_AT_MOST * threshold:
        price[0] *= RAISE
        _planned(found, lists, query, threshold, plan)
        some, left_out = _cut_lists(found, lists, query, plan)
    return some, left_out


@compiled
def _cut_lists(found, lists, query, plan):
    starts, maxima, rows, values = lists
    weights, unit, fraction = query
    _, shifts, wholes, steps, ends = plan
    some, left_out = False, np.int64(0)
    for j in range(len(found)):
        ends[j] = 0
        if found[j] < 0:
            continue
        some = True
        if shifts[j] == NOTHING:
            left_out += wholes[j]
            continue
        steps[j] = _step(weights[j], maxima[found[j]], unit, fraction)
        start, end = np.int64(starts[found[j]]), min(np.int64(starts[found[j] + 1]), len(rows))
        if shifts[j] > 0 and start < end:
            end = start + ((end - start) >> shifts[j])
            left_out += np.int64(_share(steps[j], values[np.uint64(end)], fraction))
        ends[j] = np.uint64(end)
    return some, left_out


@compiled
def _planned(found, lists, query, threshold, plan):
    """Plans how much of each list is read: all, a half, a quarter, a sixteenth, or nothing.

    A list's values fall, so the first one left out bounds the rest. Of each list so much is left out as pays at a
    price of so many postings for each unit of score, price[0]; never so much that sums tell nothing. `shifts` says
    how often a list is halved, NOTHING for one not read at all; `wholes` what that costs. price[2:] is what rescoring
    and reading took since the last plan.
    """
    starts, maxima, rows, values = lists
    weights, unit, fraction = query
    price, shifts, wholes, _, _ = plan
    most = LEFT_OUT_AT_MOST
    _adjust(price)
    if price[0] == 0:
        most = LEFT_OUT
        for j in range(len(found)):
            if found[j] >= 0:
                price[0] += (np.int64(starts[found[j] + 1]) - np.int64(starts[found[j]])) / (4.0 * threshold)
    while True:
        left_out = 0.0
        for j in range(len(found)):
            if found[j] >= 0:
                step = _step(weights[j], maxima[found[j]], unit, fraction)
                start, end = np.int64(starts[found[j]]), min(np.int64(starts[found[j] + 1]), len(rows))
                shifts[j], cost = _paying(start, end, values, step, fraction, price[0], wholes[j])
                left_out += cost
        if left_out <= most * threshold:
            return
        price[0] *= RAISE


@compiled
def _planned_roughly(found, lists, query, plan):
    """Plans to read of each list the postings that add price[1] or more, and some beyond: what else is not asked."""
    starts, maxima, rows, values = lists
    weights, unit, fraction = query
    price, shifts, wholes, _, _ = plan
    for j in range(len(found)):
        if found[j] >= 0:
            shifts[j] = NOTHING if wholes[j] < price[1] else 0
            step = _step(weights[j], maxima[found[j]], unit, fraction)
            start, end = np.int64(starts[found[j]]), min(np.int64(starts[found[j] + 1]), len(rows))
            for shift in KEEP:
                if shifts[j] < shift and end - start > SHORT:
                    next_value = values[np.uint64(start + ((end - start) >> shift))]
                    if _share(step, next_value, fraction) <= price[1]:
                        shifts[j] = shift


@compiled
def _paying(start, end, values, step, fraction, price, whole):
    """How often to halve a list, the rest being what pays most to leave out at this price; and what that costs."""
    length = end - start
    best, best_shift, best_cost = 0.0, 0, np.int64(0)
    if length + OPENING > price * whole:
        best, best_shift, best_cost = length + OPENING - price * whole, NOTHING, whole
    if length > SHORT:
        for shift in KEEP:
            keep = length >> shift
            cost = np.int64(_share(step, values[np.uint64(start + keep)], fraction))
            gain = length - keep - price * cost
            if gain > best:
                best, best_shift, best_cost = gain, shift, cost
    return best_shift, best_cost


@compiled
def _adjust(price):
    """Moves the price to where rescoring takes a part of the time that reading postings takes."""
    if 2 * price[2] > price[3]:
        price[0] *= 2 * RAISE if price[2] > price[3] else RAISE
    elif 5 * price[2] < price[3]:
        price[0] /= 2 * RAISE if 20 * price[2] < price[3] else RAISE
    price[2:] = 0


@compiled
def _step(weight, maximum, unit, fraction):
    """What one step of a list's values adds to a score, in units and parts of one, rounded up."""
    return np.uint32(np.ceil(np.float64(weight) * half(maximum) * unit / LEVELS * (1 << fraction)))


@compiled
def _add_lists(found, lists, fraction, steps, ends, sums):
    """Adds the lists' values to the scores of the block's documents; how many postings there were."""
    starts, _, rows, values = lists
    read = np.int64(0)
    for j in range(len(found)):
        if ends[j]:
            step, start = steps[j], np.uint64(starts[found[j]])
            for p in range(start, ends[j]):
                sums[rows[p]] += _share(step, values[p], fraction)
            read += np.int64(ends[j]) - np.int64(start)
    return read


@compiled
def _share(step, value, fraction):
    """What a posting adds to a score, rounded up."""
    return (step * np.uint32(value) + np.uint32((1 << fraction) - 1)) >> np.uint32(fraction)


@compiled
def _bin_shift(fraction):
    """Of scores of 16 or 32 bits the first twelve tell their place in a histogram."""
    return np.uint32(4 if fraction else 20)


@compiled
def _first_threshold(sums, k, margin, most, fraction):
    """The threshold after the first block. The best of each eight documents stand for all: k of those are better."""
    bins, counts, shift = np.zeros(BINS, np.int64), np.zeros(6, np.int64), _bin_shift(fraction)
    for start in range(np.uint64(0), np.uint64(len(sums)), np.uint64(8)):
        bins[_largest(sums, start, np.uint64(8)) >> shift] += 1
    counts[3] = counts[5] = len(sums) // 8
    return threshold(bins, counts, k, margin, most, fraction)


@compiled
def threshold(bins, counts, k, margin, most, fraction):
    """No document at or below it is of use: k are better by the margin, or `most` are better (0: no such limit)."""
    shift = np.int64(_bin_shift(fraction))
    lowest = (_risen(bins, counts[2:4], k) << shift) - margin - 1
    if most:
        lowest = max(lowest, (_risen(bins, counts[4:6], most) << shift) - 1)
    return max(0, lowest)


@compiled
def _risen(bins, place, wanted):
    """The highest bin with so many documents in it and above. `place` is one, and how many those are, from before."""
    while place[1] - bins[place[0]] >= wanted:
        place[1] -= bins[place[0]]
        place[0] += 1
    return place[0]


@compiled
def _collect(sums, first, left_out, held, bounds, bins, counts, fraction):
    """Takes in what can exceed the threshold; full arrays are freed of what has fallen below it, or doubled."""
    count, lowest, shift = counts[0], max(0, counts[1] - left_out), _bin_shift(fraction)
    for start in range(np.uint64(0), np.uint64(len(sums)), CHUNK):
        if _largest(sums, start, CHUNK) <= lowest:
            continue
        if count + np.int64(CHUNK) >= len(held):
            count = keep_above(counts[1], held, bounds, count)
            if count + np.int64(CHUNK) >= len(held) // 2:
                held = np.concatenate((held, np.empty_like(held)))
                bounds = np.concatenate((bounds, np.empty_like(bounds)))
        before = count
        for part in range(start, start + CHUNK, PART):
            if _largest(sums, part, PART) > lowest:
                for r in range(part, part + PART):  # without a branch: which are above cannot be foreseen
                    held[count] = np.int64(r)
                    count += np.int64(sums[r] > lowest)
        for i in range(before, count):
            score = np.int64(sums[held[i]])
            held[i] += first
            bounds[i] = score + left_out
            at = score >> shift
            bins[at] += 1
            counts[3] += at >= counts[2]
            counts[5] += at >= counts[4]
    counts[0] = count
    return held, bounds


@compiled
def _largest(sums, start, count):
    """The largest of so many sums, in a fixed number of steps without a branch: vector instructions."""
    largest = sums[start]
    for r in range(start, start + count):
        largest = max(largest, sums[r])
    return largest


@compiled
def keep_above(lowest, held, bounds, count):
    """Moves the entries with bounds above `lowest` to the front; how many there are."""
    kept = 0
    for i in range(count):
        if bounds[i] > lowest:
            held[kept] = held[i]
            bounds[kept] = bounds[i]
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
        if i + AHEAD < len(rows):
            _prefetch(row_starts, rows[i + AHEAD])
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
    return exact


@compiled
def _prefetch_row(row, row_starts, row_keys, row_weights):
    start, end = np.int64(row_starts[row]), np.int64(row_starts[row + 1])
    for p in range(start, min(end, start + 256), 32):  # a line of memory holds so many
        _prefetch(row_keys, p)
        _prefetch(row_weights, p)


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
