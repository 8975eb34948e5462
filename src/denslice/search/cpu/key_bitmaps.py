"""Bitmaps of the keys that have a posting list in each block: a key's list is found by counting bits.

Import this module inside the function that needs it: numba is slow to load.
"""

from __future__ import annotations

import numpy as np

from denslice.compiling import compiled
from denslice.search.cpu.intrinsics import ones


@compiled
def known_keys(block_starts, list_keys, highest):
    """Return a bitmap of the keys of each block, up to `highest`, and how many lists come before each of its words.

    Both are (blocks, words).
    """
    shape = len(block_starts) - 1, (highest >> 6) + 1
    known, before = np.zeros(shape, np.uint64), np.zeros(shape, np.uint32)
    for block in range(shape[0]):
        start, end = np.int64(block_starts[block]), min(np.int64(block_starts[block + 1]), len(list_keys))
        for at in range(start, end):
            if list_keys[at] <= highest:
                known[block, list_keys[at] >> 6] |= np.uint64(1) << np.uint64(list_keys[at] & 63)
        count = np.uint32(start)
        for word in range(shape[1]):
            before[block, word] = count
            count += np.uint32(ones(known[block, word]))
    return known, before
