"""How much of each posting list is read: what cannot change the k best is left out, if that pays.

The values of a list fall, so the first value that is left out bounds all that follow.

Import this module inside the function that needs it: numba is slow to load.
"""

from __future__ import annotations

import numpy as np

from denslice.compiling import helper, inlined
from denslice.search.cpu.scan_state import NOTHING, PER_UNIT, PRICE, READ, RESCORED, SHIFTS
from denslice.search.cpu.score_units import share_of, step_of

SHORT = 32  # postings below which a list is read whole or not at all
LEFT_OUT = 0.4  # of the threshold: what the postings left out of a block may add up to, to begin with
LEFT_OUT_AT_MOST = 0.75  # and later
RAISE = 1.5  # how fast the price is changed that postings are left out at
KEEP = (1, 2, 4, 6)  # how often a list may be halved
OPENING = 100  # postings that could be read while one list is looked up


@inlined
def ends_of_lists(found, lists, query, threshold, is_due, plan):
    """Set where reading each list of a block ends. Return whether there are any, and what a sum may lack for it."""
    price, shifts = plan[PRICE], plan[SHIFTS]
    if price[PER_UNIT] < 0 or threshold <= 0:
        shifts[:] = 0
        return _cut_lists(found, lists, query, plan)
    if is_due:
        _planned(found, lists, query, threshold, plan)
    some, left_out = _cut_lists(found, lists, query, plan)
    while left_out > LEFT_OUT_AT_MOST * threshold:
        price[PER_UNIT] *= RAISE
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
        steps[j] = step_of(weights[j], maxima[found[j]], unit, fraction)
        start, end = np.int64(starts[found[j]]), min(np.int64(starts[found[j] + 1]), len(rows))
        if shifts[j] > 0 and start < end:
            end = start + ((end - start) >> shifts[j])
            left_out += np.int64(share_of(steps[j], values[np.uint64(end)], fraction))
        ends[j] = np.uint64(end)
    return some, left_out


@helper
def _planned(found, lists, query, threshold, plan):
    """Plan how much of each list is read: all, a half, a quarter, a sixteenth, a sixty-fourth, or nothing.

    A part is left out if the postings that are saved are worth more than the score that is lost, at price[PER_UNIT]
    postings for each unit of score; never so much that the sums tell nothing.
    """
    starts, maxima, rows, values = lists
    weights, unit, fraction = query
    price, shifts, wholes, _, _ = plan
    most = LEFT_OUT_AT_MOST
    _adjust(price)
    if price[PER_UNIT] == 0:
        most = LEFT_OUT
        for j in range(len(found)):
            if found[j] >= 0:
                price[PER_UNIT] += (np.int64(starts[found[j] + 1]) - np.int64(starts[found[j]])) / (4.0 * threshold)
    while True:
        left_out = 0.0
        for j in range(len(found)):
            if found[j] >= 0:
                step = step_of(weights[j], maxima[found[j]], unit, fraction)
                start, end = np.int64(starts[found[j]]), min(np.int64(starts[found[j] + 1]), len(rows))
                shifts[j], cost = _paying(start, end, values, step, fraction, price[PER_UNIT], wholes[j])
                left_out += cost
        if left_out <= most * threshold:
            return
        price[PER_UNIT] *= RAISE


@inlined
def _paying(start, end, values, step, fraction, price, whole):
    """Return how often to halve a list so that leaving out the rest pays most at this price, and what that costs."""
    length = end - start
    best, best_shift, best_cost = 0.0, 0, np.int64(0)
    if length + OPENING > price * whole:
        best, best_shift, best_cost = length + OPENING - price * whole, NOTHING, whole
    if length > SHORT:
        for shift in KEEP:
            keep = length >> shift
            cost = np.int64(share_of(step, values[np.uint64(start + keep)], fraction))
            gain = length - keep - price * cost
            if gain > best:
                best, best_shift, best_cost = gain, shift, cost
    return best_shift, best_cost


@inlined
def _adjust(price):
    """Move the price to where rescoring takes a part of the time that reading postings takes."""
    if 2 * price[RESCORED] > price[READ]:
        price[PER_UNIT] *= 2 * RAISE if price[RESCORED] > price[READ] else RAISE
    elif 5 * price[RESCORED] < price[READ]:
        price[PER_UNIT] /= 2 * RAISE if 20 * price[RESCORED] < price[READ] else RAISE
    price[RESCORED:] = 0
