"""The keys and weights of a query as a GPU takes them, in one compiled call, because GPU searches are short."""

from __future__ import annotations

import numpy as np

from denslice.compiling import compiled


@compiled
def laid_out(keys, weights, above, maxima):
    """Return the keys that occur in the index and their weights, strong ones first, and how many are strong.

    The last two values are the most that strong weights, and that other weights, can add to a score. `above` says
    which weights are strong; if it is empty, all are.
    """
    to_keys, to_weights = np.empty(len(keys), np.uint32), np.empty(len(keys), np.float32)
    count = strong = 0
    reach = unseen = 0.0
    for others in (False, True):
        if others and len(above) == 0:
            break
        for j in range(len(keys)):
            if len(above) and above[j] == others:
                continue
            largest = maxima[keys[j]] if keys[j] < len(maxima) else np.float32(0)
            if others:
                unseen += np.float64(weights[j]) * largest
            else:
                reach += np.float64(weights[j]) * largest
            if largest > 0:
                to_keys[count], to_weights[count] = keys[j], weights[j]
                count += 1
        if not others:
            strong = count
    return to_keys[:count], to_weights[:count], strong, reach, unseen
