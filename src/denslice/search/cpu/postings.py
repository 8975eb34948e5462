"""Stage one on the CPU: compiled loops that read posting lists block by block and return candidates.

Import this module inside the function that needs it: numba is slow to load.
Files may be damaged: no number in them may make a loop leave an array. Inner loops count with unsigned numbers, so
that numba need not check for negative indexes.
"""

from __future__ import annotations

import numpy as np

from denslice.compiling import compiled, helper, inlined
from denslice.search.cpu.addresses import (
    ALLOWED,
    BASE,
    BLOCK_DOCS,
    EXTRA_SCORES,
    KEY_BITMAPS,
    KEY_WORDS,
    LIST_MAXIMA,
    LIST_ROWS,
    LIST_STARTS,
    LIST_VALUES,
    LISTS_BEFORE,
    N_BLOCKS,
    N_DOCS,
    N_LISTS,
    N_POSTINGS,
)
from denslice.search.cpu.intrinsics import bytes_at, floats_at, half, longs_at, ones, prefetch, shorts_at, words_at
from denslice.search.cpu.list_cuts import ends_of_lists
from denslice.search.cpu.scan_state import (
    BLOCK_NUMBER,
    CHUNK_SUMS,
    COUNTS,
    ENDS,
    HISTOGRAM_BINS,
    KEPT,
    LIST_SKIPPED,
    PER_UNIT,
    POSTINGS_READ,
    PRICE,
    PRICES,
    PROVEN,
    PRUNE_BELOW,
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

PLAN_BLOCKS = 4  # blocks that share a plan, or fewer at first
RESCORE_COST = 250  # cost of rescoring one document, in postings read


@compiled
def find(parts, keys):
    """Return the number of each key's posting list in each block of all parts, and the largest weight of each key.

    The first is (blocks, keys), with -1 if the key has no list in the block.
    """
    return lists_of(parts, keys)


@helper
def lists_of(parts, keys):
    """Return the same as `find`, for compiled callers."""
    blocks = 0
    for part in parts:
        blocks += part[N_BLOCKS]
    found, largest = np.full((blocks, len(keys)), -1, np.int64), np.zeros(len(keys), np.float32)
    at = 0
    for part in parts:
        words, maxima = part[KEY_WORDS], shorts_at(part[LIST_MAXIMA], part[N_LISTS])
        known = longs_at(part[KEY_BITMAPS], part[N_BLOCKS] * words)
        before = words_at(part[LISTS_BEFORE], part[N_BLOCKS] * words)
        for block in range(part[N_BLOCKS]):
            for j in range(len(keys)):
                word, bit = block * words + (keys[j] >> 6), np.uint64(keys[j] & 63)
                if keys[j] >> 6 < words and known[word] >> bit & np.uint64(1):
                    lower = known[word] & ((np.uint64(1) << bit) - np.uint64(1))
                    found[at, j] = np.int64(before[word]) + np.int64(ones(lower))
                    if found[at, j] < part[N_LISTS]:
                        largest[j] = max(largest[j], half(maxima[found[at, j]]))
                    else:
                        found[at, j] = -1  # in a damaged file
            at += 1
    return found, largest


@inlined
def by_words(parts, keys, weights, wanted, pruning, held, sums):
    """Return positions that may be among the k best lexically, bounds of their exact scores, and the postings read.

    `wanted` is (k, most, k_first, most_first). With pruning above 0, about `most` positions are returned that are
    likely among the best, and their bounds may be too low. `held` is an array for candidates, `sums` are SUMS zeros.
    """
    k, most, k_first, most_first = wanted
    found, largest = lists_of(parts, keys)
    reach = most_of(weights, largest)
    if reach == 0:
        return held[:0], np.zeros(0, np.float32), np.int64(0)
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
        price[PRUNE_BELOW] = rough
        plan = (price, np.zeros(len(keys), np.int64), wholes, steps, ends)
        best = (held, bounds, np.zeros(HISTOGRAM_BINS, np.int64), counts, sums)
        held, bounds = scan(parts, found, query, (k, margin, most, k_first, most_first), plan, best)
        if (k_first, most_first) == (k, most) or (counts[KEPT] >= k if most else counts[PROVEN] >= counts[THRESHOLD]):
            break
        # The guess was too high: scan again, with the threshold that is proven.
        k_first, most_first, known, read = k, most, counts[PROVEN], counts[POSTINGS_READ]
        counts[:] = 0
        counts[THRESHOLD], counts[POSTINGS_READ] = known, read
    count = keep_above(counts[THRESHOLD], held, bounds, counts[KEPT])
    return held[:count], scores_of(bounds[:count], unit), counts[POSTINGS_READ]


@compiled
def scan_whole(parts, found, query, wanted, held, sums):
    """Return candidates and bounds of a scan that reads every list whole. `wanted` is (k, margin, most)."""
    k, margin, most = wanted
    terms, counts = found.shape[1], np.zeros(COUNTS, np.int64)
    shifts, wholes = np.zeros(terms, np.int64), np.zeros(terms, np.int64)
    price = np.zeros(PRICES, np.float64)
    price[PER_UNIT] = -1.0
    plan = (price, shifts, wholes, np.empty(terms, np.uint32), np.empty(terms, np.uint64))
    best = (held, np.empty(len(held), np.uint32), np.zeros(HISTOGRAM_BINS, np.int64), counts, sums)
    held, bounds = scan(parts, found, query, (k, margin, most, k, most), plan, best)
    count = keep_above(counts[THRESHOLD], held, bounds, counts[KEPT])
    return held[:count], bounds[:count]


@helper
def scan(parts, found, query, wanted, plan, best):
    """Score all documents block by block, keep those that can still be among the k best, and return them.

    `found` has the number of each key's list in each block. `query` is (weights, unit, fraction), `wanted` is
    (k, margin, most, k_first, most_first). The best `k_first` or `most_first` of the first block set the threshold. If
    these are below k or `most`, it is a guess, which was right if it does not exceed counts[PROVEN] in the end.
    `plan` is (price, shifts, wholes, steps, ends), and `best` is (candidates, bounds, bins, counts, sums): see
    scan_state.py. `bins` is a histogram of the scores of all candidates, `sums` are SUMS zeros. Candidates and bounds
    are returned in larger arrays if those of `best` were too small.
    """
    held, bounds, bins, counts, sums = best
    _, unit, fraction = query
    k, margin, most, k_first, most_first = wanted
    price = plan[PRICE]
    sums[:] = 0
    for j in range(len(plan[SHIFTS])):
        plan[SHIFTS][j] = LIST_SKIPPED if plan[WHOLES][j] < price[PRUNE_BELOW] else 0
    at = np.int64(0)
    for number in range(len(parts)):
        part = parts[number]
        lists, block = _lists(part), part[BLOCK_DOCS]
        padded = -(-block // np.int64(CHUNK_SUMS)) * np.int64(CHUNK_SUMS)
        for b in range(part[N_BLOCKS]):
            _prefetch_next(parts, number, b, found, at, plan[SHIFTS])
            counts[BLOCK_NUMBER] += 1
            is_due = counts[BLOCK_NUMBER] & (counts[BLOCK_NUMBER] - 1) == 0 or counts[BLOCK_NUMBER] % PLAN_BLOCKS == 0
            some, left_out, read = _add_block(found[at], lists, query, counts[THRESHOLD], is_due, plan, sums)
            at += 1
            if not some and not part[EXTRA_SCORES]:
                continue
            first, size = b * block, min(block, part[N_DOCS] - b * block)
            sums[size:padded] = 0
            if part[EXTRA_SCORES]:
                _add_extra(floats_at(part[EXTRA_SCORES] + 4 * first, size), unit, sums)
            if part[ALLOWED]:
                _leave_out(bytes_at(part[ALLOWED] + first, size), sums)
            if counts[THRESHOLD] == 0:
                counts[THRESHOLD] = first_threshold(sums[:padded], k_first, margin, most_first, fraction)
            before = counts[KEPT]
            held, bounds = collect(sums[:padded], part[BASE] + first, left_out, held, bounds, bins, counts, fraction)
            if counts[KEPT] > before:
                counts[PROVEN] = threshold(bins, counts, k, margin, most, fraction)
                counts[THRESHOLD] = max(counts[THRESHOLD], counts[PROVEN])
            price[RESCORED] += RESCORE_COST * max(0, counts[KEPT] - before - k_first)
            price[READ] += read
            counts[POSTINGS_READ] += read
    return held, bounds


@helper
def _lists(part):
    """Return the posting lists of a part: starts, maxima, rows and values."""
    starts, maxima = words_at(part[LIST_STARTS], part[N_LISTS] + 1), shorts_at(part[LIST_MAXIMA], part[N_LISTS])
    return starts, maxima, shorts_at(part[LIST_ROWS], part[N_POSTINGS]), bytes_at(part[LIST_VALUES], part[N_POSTINGS])


@inlined
def _add_block(found, lists, query, threshold, is_due, plan, sums):
    """Add a block's lists to its sums. Return whether it has any, how much a sum may lack, and the postings read."""
    price = plan[PRICE]
    if price[PRUNE_BELOW] > 0:
        some, read = _add_roughly(found, lists, query, plan[WHOLES], price[PRUNE_BELOW], sums)
        return some, np.int64(0), read
    some, left_out = ends_of_lists(found, lists, query, threshold, is_due, plan)
    read = _add_lists(found, lists, query[2], plan[STEPS], plan[ENDS], sums) if some else np.int64(0)
    return some, left_out, read


@helper
def _add_roughly(found, lists, query, wholes, least, sums):
    """Add the postings that add `least` or more to a score. They come first in a list, because its values fall."""
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
    """Prefetch the postings of the next block, and the starts of the lists of the block after it."""
    after, last = _part_of(parts, number, b + 2), _part_of(parts, number, b + 1)
    if after >= 0:
        starts, maxima, _, _ = _lists(parts[after])
        for j in range(len(shifts)):
            if shifts[j] < LIST_SKIPPED:
                prefetch(starts, found[at + 2, j])
                prefetch(maxima, found[at + 2, j])
    if last >= 0:
        starts, _, rows, values = _lists(parts[last])
        for j in range(len(shifts)):
            if shifts[j] < LIST_SKIPPED and found[at + 1, j] >= 0:
                start, end = np.int64(starts[found[at + 1, j]]), np.int64(starts[found[at + 1, j] + 1])
                prefetch(rows, start)
                prefetch(values, start)
                if shifts[j] > 0:
                    prefetch(values, start + ((end - start) >> shifts[j]))


@helper
def _part_of(parts, number, b):
    """Return the number of the part that block `b` is in, counted from part `number` on, or -1 if there is none."""
    while number < len(parts) and b >= parts[number, N_BLOCKS]:
        b -= parts[number, N_BLOCKS]
        number += 1
    return number if number < len(parts) else -1


@helper
def _add_lists(found, lists, fraction, steps, ends, sums):
    """Add the values of the lists to the sums of the block's documents, and return how many postings were read."""
    starts, _, rows, values = lists
    read = np.int64(0)
    for j in range(len(found)):
        if ends[j]:
            step, start = steps[j], np.uint64(starts[found[j]])
            for p in range(start, ends[j]):
                sums[rows[p]] += share_of(step, values[p], fraction)
            read += np.int64(ends[j]) - np.int64(start)
    return read
