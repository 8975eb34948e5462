"""Compiled loops of search on the CPU, stage one: posting lists to candidates.

Import this module inside the function that needs it: numba is slow to load. Scores of stage one are whole numbers
of a unit chosen per query; they are never below the exact score, and above it by less than the query's margin.
Sums are kept in 16 bits where that is fine enough, for speed, and in 32 otherwise: each has its own Scale.
Arrays come from files that may be damaged: no number in them may make a loop leave an array. Inner loops count with
unsigned numbers, for which numba need not ask whether an index is counted from the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from denslice.compiling import compiled, helper, inlined
from denslice.search.cpu.addresses import (
    ALLOWED,
    BASE,
    BLOCK,
    BLOCKS,
    DOCS,
    EXTRA,
    KEY_WORDS,
    KNOWN,
    KNOWN_BEFORE,
    LIST_STARTS,
    LISTS,
    MAXIMA,
    POSTINGS,
    ROWS,
    VALUES,
)
from denslice.search.cpu.intrinsics import bytes_at, floats_at, half, longs_at, ones, prefetch, shorts_at, words_at

BINS = 1 << 12  # of a histogram of scores
SUMS = 1 << 16  # as many rows as a posting can name
CHUNK, PART = np.uint64(128), np.uint64(16)  # scores looked at together, by vector instructions
LEVELS = 255  # steps of a posting's value
SHORT = 32  # postings below which a list is read whole or not at all
LEFT_OUT = 0.4  # of the threshold: what the postings left out of a block may add up to, to begin with
LEFT_OUT_AT_MOST = 0.75  # and later
RAISE = 1.5  # how fast the price is changed that postings are left out at
KEEP = (1, 2, 4, 6)  # how often a list may be halved
NOTHING = 63  # or left out
PLANNED = 4  # blocks that are cut by one plan, or fewer to begin with
RESCORING, OPENING = 250, 100  # postings that could be read while one document is rescored, or one list looked up


class Scale(NamedTuple):
    """How scores of stage one are counted: the largest, and bits of a posting's share below one unit."""

    dtype: Any
    largest: int
    fraction: int


NARROW = Scale(np.uint16, 2**16 - 1, 16)
WIDE = Scale(np.uint32, 2**31 - 1, 0)
NARROW_LARGEST, NARROW_FRACTION = NARROW.largest, NARROW.fraction


@compiled
def find(parts, keys):
    """Where each key's posting list stands in each block of all parts, and the largest weight each key has.

    The first is (blocks, keys), -1 for no list.
    """
    return lists_of(parts, keys)


@helper
def lists_of(parts, keys):
    """What `find` returns."""
    blocks = 0
    for part in parts:
        blocks += part[BLOCKS]
    found, largest = np.full((blocks, len(keys)), -1, np.int64), np.zeros(len(keys), np.float32)
    at = 0
    for part in parts:
        words, maxima = part[KEY_WORDS], shorts_at(part[MAXIMA], part[LISTS])
        known = longs_at(part[KNOWN], part[BLOCKS] * words)
        before = words_at(part[KNOWN_BEFORE], part[BLOCKS] * words)
        for block in range(part[BLOCKS]):
            for j in range(len(keys)):
                word, bit = block * words + (keys[j] >> 6), np.uint64(keys[j] & 63)
                if keys[j] >> 6 < words and known[word] >> bit & np.uint64(1):
                    lower = known[word] & ((np.uint64(1) << bit) - np.uint64(1))
                    found[at, j] = np.int64(before[word]) + np.int64(ones(lower))
                    if found[at, j] < part[LISTS]:
                        largest[j] = max(largest[j], half(maxima[found[at, j]]))
                    else:
                        found[at, j] = -1  # in a damaged file
            at += 1
    return found, largest


def unit_and_margin(reach: float, lexical_reach: float, terms: int, scale: Scale) -> tuple[float, int]:
    """How many units a score of 1 is, where none exceeds `reach`; and what rounding may add to one, in units."""
    unit, margin = _unit_and_margin.py_func(reach, lexical_reach, terms, scale.largest, scale.fraction)
    return float(unit), int(margin)


@inlined
def _unit_and_margin(reach, lexical_reach, terms, largest, fraction):
    spare = (2 if fraction else LEVELS) * (terms + 2)  # units that rounding up may add, term by term
    unit = (largest - spare) / (reach if reach > 0 else 1.0)
    return unit, np.int64(np.ceil(lexical_reach * unit / LEVELS)) + spare


@compiled
def reach_of(weights, largest):
    """What weights can add to a score, where each meets its largest; in their order, as cards sum it."""
    return _reach(weights, largest)


@inlined
def _reach(weights, largest):
    reach = 0.0
    for j in range(len(weights)):
        reach += np.float64(weights[j]) * largest[j]
    return reach


@inlined
def by_words(parts, keys, weights, wanted, pruning, held, sums):
    """Positions that may be among the k best by their words, and scores that their exact ones do not exceed.

    `wanted` is (k, most, k_first, most_first). With pruning above 0 the positions are `most` or a few more that are
    likely among the best, and the scores mean little. `held` is room to begin with, `sums` SUMS sums.
    """
    k, most, k_first, most_first = wanted
    found, largest = lists_of(parts, keys)
    reach = _reach(weights, largest)
    if reach == 0:
        return held[:0], np.zeros(0, np.float32)
    unit, margin = _unit_and_margin(reach, reach, len(keys), NARROW_LARGEST, NARROW_FRACTION)
    rough = pruning * reach * unit / len(keys)
    if most:
        margin = np.int64(NARROW_LARGEST)
    wholes = np.empty(len(keys), np.int64)
    for j in range(len(keys)):
        wholes[j] = np.int64(np.ceil(weights[j] * largest[j] * unit)) + 1
    steps, ends = np.empty(len(keys), np.uint32), np.empty(len(keys), np.uint64)
    query, counts = (weights, unit, NARROW_FRACTION), np.zeros(8, np.int64)
    bounds = np.empty(len(held), np.uint32)
    while True:
        price = np.zeros(4, np.float64)
        price[1] = rough
        plan = (price, np.zeros(len(keys), np.int64), wholes, steps, ends)
        best = (held, bounds, np.zeros(BINS, np.int64), counts, sums)
        held, bounds = scan(parts, found, query, (k, margin, most, k_first, most_first), plan, best)
        if (k_first, most_first) == (k, most) or (counts[0] >= k if most else counts[6] >= counts[1]):
            break
        k_first, most_first, known = k, most, counts[6]  # the guess was too high: again, with what is known for sure
        counts[:] = 0
        counts[1] = known
    count = keep_above(counts[1], held, bounds, counts[0])
    return held[:count], _scores_of(bounds[:count], unit)


@inlined
def _scores_of(bounds, unit):
    scores = np.empty(len(bounds), np.float32)
    for i in range(len(bounds)):
        scores[i] = bounds[i] / unit * (1 + 1e-6)
    return scores


@compiled
def scan_whole(parts, found, query, wanted, held, sums):
    """What `scan` keeps where every list is read whole: documents and bounds. `wanted` is (k, margin, most)."""
    k, margin, most = wanted
    terms, counts = found.shape[1], np.zeros(8, np.int64)
    shifts, wholes = np.zeros(terms, np.int64), np.zeros(terms, np.int64)
    price = np.zeros(4, np.float64)
    price[0] = -1.0
    plan = (price, shifts, wholes, np.empty(terms, np.uint32), np.empty(terms, np.uint64))
    best = (held, np.empty(len(held), np.uint32), np.zeros(BINS, np.int64), counts, sums)
    held, bounds = scan(parts, found, query, (k, margin, most, k, most), plan, best)
    count = keep_above(counts[1], held, bounds, counts[0])
    return held[:count], bounds[:count]


@helper
def scan(parts, found, query, wanted, plan, best):
    """Scores all documents block by block, and keeps what can still be among the k best.

    `found` says where each key's list stands in each block. `query` is its (weights, unit, fraction).
    `wanted` is (k, margin, most, k_first, most_first). The first block's best `k_first`, or `most_first`, settle the
    threshold to begin with; where those are fewer than k or most it is a guess, and right if the threshold in the end,
    counts[6], is not below.
    `plan` is (price, shifts, wholes, steps, ends): see `_planned`; price[0] below 0 is for lists to be read whole, and
    price[1] above 0 for those to be read roughly, what they then lack being nobody's concern.
    `best` is (documents, bounds, bins, counts, sums): the first counts[0] entries are held, all bounds above the
    threshold counts[1]; `bins` is a histogram of the scores ever taken in, counts[2:4] and counts[4:6] say where in
    it the best k and the best `most` begin, counts[7] counts blocks; and SUMS sums to work with.
    Returns documents and bounds, in larger arrays where they were too small.
    """
    held, bounds, bins, counts, sums = best
    _, unit, fraction = query
    k, margin, most, k_first, most_first = wanted
    price = plan[0]
    sums[:] = 0
    for j in range(len(plan[1])):
        plan[1][j] = NOTHING if plan[2][j] < price[1] else 0
    at = np.int64(0)
    for number in range(len(parts)):
        part = parts[number]
        lists, block = _lists(part), part[BLOCK]
        padded = -(-block // np.int64(CHUNK)) * np.int64(CHUNK)
        for b in range(part[BLOCKS]):
            _prefetch_next(parts, number, b, found, at, plan[1])
            counts[7] += 1
            is_due = counts[7] & (counts[7] - 1) == 0 or counts[7] % PLANNED == 0
            some, left_out, read = _add_block(found[at], lists, query, counts[1], is_due, plan, sums)
            at += 1
            if not some and not part[EXTRA]:
                continue
            first, size = b * block, min(block, part[DOCS] - b * block)
            sums[size:padded] = 0
            if part[EXTRA]:
                _add_extra(floats_at(part[EXTRA] + 4 * first, size), unit, sums)
            if part[ALLOWED]:
                _leave_out(bytes_at(part[ALLOWED] + first, size), sums)
            if counts[1] == 0:
                counts[1] = _first_threshold(sums[:padded], k_first, margin, most_first, fraction)
            before = counts[0]
            held, bounds = _collect(sums[:padded], part[BASE] + first, left_out, held, bounds, bins, counts, fraction)
            if counts[0] > before:
                counts[6] = threshold(bins, counts, k, margin, most, fraction)
                counts[1] = max(counts[1], counts[6])
            price[2] += RESCORING * max(0, counts[0] - before - k_first)
            price[3] += read
    return held, bounds


@helper
def _lists(part):
    """A part's posting lists: starts, maxima, rows, values."""
    starts, maxima = words_at(part[LIST_STARTS], part[LISTS] + 1), shorts_at(part[MAXIMA], part[LISTS])
    return starts, maxima, shorts_at(part[ROWS], part[POSTINGS]), bytes_at(part[VALUES], part[POSTINGS])


@inlined
def _add_block(found, lists, query, threshold, is_due, plan, sums):
    """Adds a block's lists to its sums; whether there are any, what a sum may lack, and how many postings were read."""
    price = plan[0]
    if price[1] > 0:
        some, read = _add_roughly(found, lists, query, plan[2], price[1], sums)
        return some, np.int64(0), read
    some, left_out = _ends(found, lists, query, threshold, is_due, plan)
    read = _add_lists(found, lists, query[2], plan[3], plan[4], sums) if some else np.int64(0)
    return some, left_out, read


@helper
def _add_roughly(found, lists, query, wholes, least, sums):
    """Adds of each list the postings that add `least` or more: values fall, so the others follow."""
    starts, maxima, rows, values = lists
    weights, unit, fraction = query
    some, read = False, np.int64(0)
    for j in range(len(found)):
        if found[j] < 0 or wholes[j] < least:
            continue
        some = True
        step = _step(weights[j], maxima[found[j]], unit, fraction)
        lowest = np.int64(np.ceil(least * (1 << fraction) / step)) if step else np.int64(256)
        start, end = np.uint64(starts[found[j]]), np.uint64(min(np.int64(starts[found[j] + 1]), len(rows)))
        p = start
        while p + np.uint64(4) <= end and np.int64(values[p + np.uint64(3)]) >= lowest:
            for i in range(np.uint64(4)):
                sums[rows[p + i]] += _share(step, values[p + i], fraction)
            p += np.uint64(4)
        while p < end and np.int64(values[p]) >= lowest:
            sums[rows[p]] += _share(step, values[p], fraction)
            p += np.uint64(1)
        read += np.int64(p) - np.int64(start)
    return some, read


@inlined
def _add_extra(extra, unit, sums):
    for r in range(len(extra)):  # one more than nothing: with an extra score every document is a result
        sums[r] += np.uint32(np.ceil(extra[r] * unit)) + np.uint32(1)


@inlined
def _leave_out(allowed, sums):
    for r in range(len(allowed)):
        sums[r] *= allowed[r]


@helper
def _prefetch_next(parts, number, b, found, at, shifts):
    """Asks for the memory of the next block's postings, and of the places of those after it."""
    after, last = _part_of(parts, number, b + 2), _part_of(parts, number, b + 1)
    if after >= 0:
        starts, maxima, _, _ = _lists(parts[after])
        for j in range(len(shifts)):
            if shifts[j] < NOTHING:
                prefetch(starts, found[at + 2, j])
                prefetch(maxima, found[at + 2, j])
    if last >= 0:
        starts, _, rows, values = _lists(parts[last])
        for j in range(len(shifts)):
            if shifts[j] < NOTHING and found[at + 1, j] >= 0:
                start, end = np.int64(starts[found[at + 1, j]]), np.int64(starts[found[at + 1, j] + 1])
                prefetch(rows, start)
                prefetch(values, start)
                if shifts[j] > 0:
                    prefetch(values, start + ((end - start) >> shifts[j]))


@helper
def _part_of(parts, number, b):
    """Which part a block is in, counted from the first block of part `number`; -1 for none."""
    while number < len(parts) and b >= parts[number, BLOCKS]:
        b -= parts[number, BLOCKS]
        number += 1
    return number if number < len(parts) else -1


@inlined
def _ends(found, lists, query, threshold, is_due, plan):
    """Sets where each list of a block ends, cut as planned; whether there are any, and what a sum may lack for it."""
    price, shifts = plan[0], plan[1]
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


@helper
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


@helper
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


@inlined
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


@inlined
def _adjust(price):
    """Moves the price to where rescoring takes a part of the time that reading postings takes."""
    if 2 * price[2] > price[3]:
        price[0] *= 2 * RAISE if price[2] > price[3] else RAISE
    elif 5 * price[2] < price[3]:
        price[0] /= 2 * RAISE if 20 * price[2] < price[3] else RAISE
    price[2:] = 0


@helper
def _step(weight, maximum, unit, fraction):
    """What one step of a list's values adds to a score, in units and parts of one, rounded up."""
    return np.uint32(np.ceil(np.float64(weight) * half(maximum) * unit / LEVELS * (1 << fraction)))


@helper
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


@helper
def _share(step, value, fraction):
    """What a posting adds to a score, rounded up."""
    return (step * np.uint32(value) + np.uint32((1 << fraction) - 1)) >> np.uint32(fraction)


@helper
def _bin_shift(fraction):
    """Of scores of 16 or 32 bits the first twelve tell their place in a histogram."""
    return np.uint32(4 if fraction else 20)


@inlined
def _first_threshold(sums, k, margin, most, fraction):
    """The threshold after the first block. The best of each few documents stand for all: k of those are better."""
    bins, counts, shift = np.zeros(BINS, np.int64), np.zeros(6, np.int64), _bin_shift(fraction)
    few = np.uint64(32 if 8 * 32 * max(k, most) < len(sums) else 8)
    for start in range(np.uint64(0), np.uint64(len(sums)), few):
        bins[_largest(sums, start, few) >> shift] += 1
    counts[3] = counts[5] = len(sums) // np.int64(few)
    return threshold(bins, counts, k, margin, most, fraction)


@helper
def threshold(bins, counts, k, margin, most, fraction):
    """No document at or below it is of use: k are better by the margin, or `most` are better (0: no such limit)."""
    shift = np.int64(_bin_shift(fraction))
    lowest = (_risen(bins, counts[2:4], k) << shift) - margin - 1
    if most:
        lowest = max(lowest, (_risen(bins, counts[4:6], most) << shift) - 1)
    return max(0, lowest)


@helper
def _risen(bins, place, wanted):
    """The highest bin with so many documents in it and above. `place` is one, and how many those are, from before."""
    while place[1] - bins[place[0]] >= wanted:
        place[1] -= bins[place[0]]
        place[0] += 1
    return place[0]


@inlined
def _collect(sums, first, left_out, held, bounds, bins, counts, fraction):
    """Takes in what can exceed the threshold; full arrays are freed of what has fallen below it, or doubled.

    Leaves sums of 0 for the next block.
    """
    count, lowest, shift = counts[0], max(0, counts[1] - left_out), _bin_shift(fraction)
    chunks = np.empty(SUMS // 128, np.uint64)
    for start in chunks[: _passing(sums, lowest, chunks)]:
        if count + np.int64(CHUNK) >= len(held):
            count = keep_above(counts[1], held, bounds, count)
            if count + np.int64(CHUNK) >= len(held) // 2:
                held, bounds = (
                    _doubled(held, np.empty(2 * len(held), np.int64)),
                    _doubled(bounds, np.empty(2 * len(bounds), np.uint32)),
                )
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
    sums[:] = 0
    return held, bounds


@inlined
def _doubled(array, larger):
    """The larger array, which begins with what the other holds."""
    for i in range(len(array)):
        larger[i] = array[i]
    return larger


@inlined
def _passing(sums, lowest, chunks):
    """Writes down where the chunks begin that have a sum above the lowest; how many they are."""
    count = 0
    for start in range(np.uint64(0), np.uint64(len(sums)), CHUNK):
        largest = sums[start]
        for r in range(start, start + CHUNK):  # in vectors
            largest = max(largest, sums[r])
        chunks[count] = start
        count += np.int64(largest) > lowest
    return count


@helper
def _largest(sums, start, count):
    """The largest of so many sums, in a fixed number of steps without a branch: vector instructions."""
    largest = sums[start]
    for r in range(start, start + count):
        largest = max(largest, sums[r])
    return largest


@helper
def keep_above(lowest, held, bounds, count):
    """Moves the entries with bounds above `lowest` to the front; how many there are."""
    kept = 0
    for i in range(count):
        if bounds[i] > lowest:
            held[kept] = held[i]
            bounds[kept] = bounds[i]
            kept += 1
    return kept
