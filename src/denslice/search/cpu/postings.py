"""Stage one on the CPU: posting lists to candidates, block by block, in compiled loops.

Import this module inside the function that needs it: numba is slow to load.
Arrays come from files that may be damaged: no number in them may make a loop leave an array. Inner loops count with
unsigned numbers, for which numba need not ask whether an index is counted from the end.
"""

from __future__ import annotations

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
from denslice.search.cpu.list_cuts import ends_of_lists
from denslice.search.cpu.scan_state import (
    BINS,
    BLOCK_NUMBER,
    CHUNK,
    COUNTS,
    ENDS,
    KEPT,
    LEAST,
    NOTHING,
    PER_UNIT,
    PRICE,
    PRICES,
    PROVEN,
    READ,
    RESCORED,
    SHIFTS,
    STEPS,
    THRESHOLD,
    WHOLES,
)
from denslice.search.cpu.score_units import (
    NARROW_FRACTION,
    NARROW_LARGEST,
    in_units,
    most_of,
    scores_of,
    share_of,
    step_of,
)
from denslice.search.cpu.top_k import collect, first_threshold, keep_above, threshold

PLANNED = 4  # blocks that are cut by one plan, or fewer to begin with
RESCORING = 250  # postings that could be read while one document is rescored


@compiled
def find(parts, keys):
    """Return where each key's posting list stands in each block of all parts, and the largest weight of each key.

    The first is (blocks, keys), -1 for no list.
    """
    return lists_of(parts, keys)


@helper
def lists_of(parts, keys):
    """Return what `find` returns, for compiled callers."""
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


@inlined
def by_words(parts, keys, weights, wanted, pruning, held, sums):
    """Return positions that may be among the k best lexically, and bounds that their exact scores do not exceed.

    `wanted` is (k, most, k_first, most_first). With pruning above 0 the positions are `most` or a few more that are
    likely among the best, and the bounds mean little. `held` is room to begin with, `sums` are SUMS zeros.
    """
    k, most, k_first, most_first = wanted
    found, largest = lists_of(parts, keys)
    reach = most_of(weights, largest)
    if reach == 0:
        return held[:0], np.zeros(0, np.float32)
    unit, margin = in_units(reach, reach, len(keys), NARROW_LARGEST, NARROW_FRACTION)
    rough = pruning * reach * unit / len(keys)
    if most:
        margin = np.int64(NARROW_LARGEST)
    wholes = np.empty(len(keys), np.int64)
    for j in range(len(keys)):
        wholes[j] = np.int64(np.ceil(weights[j] * largest[j] * unit)) + 1
    steps, ends = np.empty(len(keys), np.uint32), np.empty(len(keys), np.uint64)
    query, counts = (weights, unit, NARROW_FRACTION), np.zeros(COUNTS, np.int64)
    bounds = np.empty(len(held), np.uint32)
    while True:
        price = np.zeros(PRICES, np.float64)
        price[LEAST] = rough
        plan = (price, np.zeros(len(keys), np.int64), wholes, steps, ends)
        best = (held, bounds, np.zeros(BINS, np.int64), counts, sums)
        held, bounds = scan(parts, found, query, (k, margin, most, k_first, most_first), plan, best)
        if (k_first, most_first) == (k, most) or (counts[KEPT] >= k if most else counts[PROVEN] >= counts[THRESHOLD]):
            break
        # The guess was too high: scan again, with the threshold that is proven.
        k_first, most_first, known = k, most, counts[PROVEN]
        counts[:] = 0
        counts[THRESHOLD] = known
    count = keep_above(counts[THRESHOLD], held, bounds, counts[KEPT])
    return held[:count], scores_of(bounds[:count], unit)


@compiled
def scan_whole(parts, found, query, wanted, held, sums):
    """Return the candidates and bounds of `scan` if every list is read whole. `wanted` is (k, margin, most)."""
    k, margin, most = wanted
    terms, counts = found.shape[1], np.zeros(COUNTS, np.int64)
    shifts, wholes = np.zeros(terms, np.int64), np.zeros(terms, np.int64)
    price = np.zeros(PRICES, np.float64)
    price[PER_UNIT] = -1.0
    plan = (price, shifts, wholes, np.empty(terms, np.uint32), np.empty(terms, np.uint64))
    best = (held, np.empty(len(held), np.uint32), np.zeros(BINS, np.int64), counts, sums)
    held, bounds = scan(parts, found, query, (k, margin, most, k, most), plan, best)
    count = keep_above(counts[THRESHOLD], held, bounds, counts[KEPT])
    return held[:count], bounds[:count]


@helper
def scan(parts, found, query, wanted, plan, best):
    """Score all documents block by block, and keep those that can still be among the k best.

    `found` says where each key's list stands in each block. `query` is (weights, unit, fraction), `wanted` is
    (k, margin, most, k_first, most_first). The best `k_first` or `most_first` of the first block set the threshold; if
    those are fewer than k or most, it is a guess, which was right if it is not above counts[PROVEN] in the end.
    `plan` is (price, shifts, wholes, steps, ends), and `best` is (candidates, bounds, bins, counts, sums): see
    scan_state.py. Every bound that is kept is above the threshold; `bins` is a histogram of all scores that were kept;
    `sums` are SUMS zeros to work with. Return candidates and bounds, in larger arrays if they were too small.
    """
    held, bounds, bins, counts, sums = best
    _, unit, fraction = query
    k, margin, most, k_first, most_first = wanted
    price = plan[PRICE]
    sums[:] = 0
    for j in range(len(plan[SHIFTS])):
        plan[SHIFTS][j] = NOTHING if plan[WHOLES][j] < price[LEAST] else 0
    at = np.int64(0)
    for number in range(len(parts)):
        part = parts[number]
        lists, block = _lists(part), part[BLOCK]
        padded = -(-block // np.int64(CHUNK)) * np.int64(CHUNK)
        for b in range(part[BLOCKS]):
            _prefetch_next(parts, number, b, found, at, plan[SHIFTS])
            counts[BLOCK_NUMBER] += 1
            is_due = counts[BLOCK_NUMBER] & (counts[BLOCK_NUMBER] - 1) == 0 or counts[BLOCK_NUMBER] % PLANNED == 0
            some, left_out, read = _add_block(found[at], lists, query, counts[THRESHOLD], is_due, plan, sums)
            at += 1
            if not some and not part[EXTRA]:
                continue
            first, size = b * block, min(block, part[DOCS] - b * block)
            sums[size:padded] = 0
            if part[EXTRA]:
                _add_extra(floats_at(part[EXTRA] + 4 * first, size), unit, sums)
            if part[ALLOWED]:
                _leave_out(bytes_at(part[ALLOWED] + first, size), sums)
            if counts[THRESHOLD] == 0:
                counts[THRESHOLD] = first_threshold(sums[:padded], k_first, margin, most_first, fraction)
            before = counts[KEPT]
            held, bounds = collect(sums[:padded], part[BASE] + first, left_out, held, bounds, bins, counts, fraction)
            if counts[KEPT] > before:
                counts[PROVEN] = threshold(bins, counts, k, margin, most, fraction)
                counts[THRESHOLD] = max(counts[THRESHOLD], counts[PROVEN])
            price[RESCORED] += RESCORING * max(0, counts[KEPT] - before - k_first)
            price[READ] += read
    return held, bounds


@helper
def _lists(part):
    """Return a part's posting lists: starts, maxima, rows, values."""
    starts, maxima = words_at(part[LIST_STARTS], part[LISTS] + 1), shorts_at(part[MAXIMA], part[LISTS])
    return starts, maxima, shorts_at(part[ROWS], part[POSTINGS]), bytes_at(part[VALUES], part[POSTINGS])


@inlined
def _add_block(found, lists, query, threshold, is_due, plan, sums):
    """Add a block's lists to its sums. Return whether there are any, what a sum may lack, and the postings read."""
    price = plan[PRICE]
    if price[LEAST] > 0:
        some, read = _add_roughly(found, lists, query, plan[WHOLES], price[LEAST], sums)
        return some, np.int64(0), read
    some, left_out = ends_of_lists(found, lists, query, threshold, is_due, plan)
    read = _add_lists(found, lists, query[2], plan[STEPS], plan[ENDS], sums) if some else np.int64(0)
    return some, left_out, read


@helper
def _add_roughly(found, lists, query, wholes, least, sums):
    """Add the postings of each list that add `least` or more; values fall, so they come first."""
    starts, maxima, rows, values = lists
    weights, unit, fraction = query
    some, read = False, np.int64(0)
    for j in range(len(found)):
        if found[j] < 0 or wholes[j] < least:
            continue
        some = True
        step = step_of(weights[j], maxima[found[j]], unit, fraction)
        lowest = np.int64(np.ceil(least * (1 << fraction) / step)) if step else np.int64(256)
        start, end = np.uint64(starts[found[j]]), np.uint64(min(np.int64(starts[found[j] + 1]), len(rows)))
        p = start
        while p + np.uint64(4) <= end and np.int64(values[p + np.uint64(3)]) >= lowest:
            for i in range(np.uint64(4)):
                sums[rows[p + i]] += share_of(step, values[p + i], fraction)
            p += np.uint64(4)
        while p < end and np.int64(values[p]) >= lowest:
            sums[rows[p]] += share_of(step, values[p], fraction)
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
    """Prefetch the next block's postings, and where those of the block after it stand."""
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
    """Return the part of a block that is counted from the first block of part `number`; -1 for none."""
    while number < len(parts) and b >= parts[number, BLOCKS]:
        b -= parts[number, BLOCKS]
        number += 1
    return number if number < len(parts) else -1


@helper
def _add_lists(found, lists, fraction, steps, ends, sums):
    """Add the lists' values to the scores of the block's documents, and return how many postings were read."""
    starts, _, rows, values = lists
    read = np.int64(0)
    for j in range(len(found)):
        if ends[j]:
            step, start = steps[j], np.uint64(starts[found[j]])
            for p in range(start, ends[j]):
                sums[rows[p]] += share_of(step, values[p], fraction)
            read += np.int64(ends[j]) - np.int64(start)
    return read
