"""How much of each posting list is read: postings that cannot change the k best are skipped if that saves time.

The values of a list fall, so the first value that is skipped bounds all that follow.

Import this module inside the function that needs it: numba is slow to load.
"""

from __future__ import annotations

import numpy as np

from denslice.compiling import helper, inlined
from denslice.search.cpu.scan_state import LIST_SKIPPED, PER_UNIT, PRICE, READ, RESCORED, SHIFTS
from denslice.search.cpu.score_units import share_of, step_of

SHORT_LIST = 32  # postings below which a list is read whole or not at all
CUT_SHARE = 0.4  # share of the threshold that the skipped postings of a block may add up to, in the first plan
MAX_CUT_SHARE = 0.75  # the same in later plans
PRICE_STEP = 1.5  # factor by which the price of skipping changes
LIST_HALVINGS = (1, 2, 4, 6)  # how often a list may be halved
LOOKUP_COST = 100  # cost of looking up one list, in postings read


@inlined
def ends_of_lists(found, lists, query, threshold, is_due, plan):
    """Set where reading each list of a block ends. Return whether there is a list, and how much a sum may lack."""
    price, shifts = plan[PRICE], plan[SHIFTS]
    if price[PER_UNIT] < 0 or threshold <= 0:
        shifts[:] = 0
        return _cut_lists(found, lists, query, plan)
    if is_due:
        _planned(found, lists, query, threshold, plan)
    some, left_out = _cut_lists(found, lists, query, plan)
    while left_out > MAX_CUT_SHARE * threshold:
        price[PER_UNIT] *= PRICE_STEP
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
        if shifts[j] == LIST_SKIPPED:
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

    A part is skipped if the postings that are saved are worth more than the score that is lost, at price[PER_UNIT]
    postings for each unit of score. The loss stays below a share of the threshold, so that sums remain meaningful.
    """
    starts, maxima, rows, values = lists
    weights, unit, fraction = query
    price, shifts, wholes, _, _ = plan
    most = MAX_CUT_SHARE
    _adjust(price)
    if price[PER_UNIT] == 0:
        most = CUT_SHARE
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
        price[PER_UNIT] *= PRICE_STEP


@inlined
def _paying(start, end, values, step, fraction, price, whole):
    """Return how often to halve a list so that skipping the rest saves most at this price, and the score it costs."""
    length = end - start
    best, best_shift, best_cost = 0.0, 0, np.int64(0)
    if length + LOOKUP_COST > price * whole:
        best, best_shift, best_cost = length + LOOKUP_COST - price * whole, LIST_SKIPPED, whole
    if length > SHORT_LIST:
        for shift in LIST_HALVINGS:
            keep = length >> shift
            cost = np.int64(share_of(step, values[np.uint64(start + keep)], fraction))
            gain = length - keep - price * cost
            if gain > best:
                best, best_shift, best_cost = gain, shift, cost
    return best_shift, best_cost


@inlined
def _adjust(price):
    """Move the price so that rescoring takes between a fifth and a half of the time that reading postings takes."""
    if 2 * price[RESCORED] > price[READ]:
        price[PER_UNIT] *= 2 * PRICE_STEP if price[RESCORED] > price[READ] else PRICE_STEP
    elif 5 * price[RESCORED] < price[READ]:
        price[PER_UNIT] /= 2 * PRICE_STEP if 20 * price[RESCORED] < price[READ] else PRICE_STEP
    price[RESCORED:] = 0
