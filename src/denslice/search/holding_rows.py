"""The rows of a segment that hold a token, from the posting lists."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from denslice.search.query import Mask
from denslice.store.segment import ForwardIndex, Segment
from denslice.vectors import Ints, spread


def rows_with(segment: Segment, keys: Ints) -> Mask:
    """Return a 1 for each row that holds any of the tokens, also one that the slicing dropped; deleted rows count."""
    mask = np.zeros(segment.rows, dtype=np.uint8)
    wanted = np.unique(keys)
    postings = segment.postings
    blocks = postings.block_starts.astype(np.int64).tolist()
    for block, (start, end) in enumerate(pairwise(blocks)):
        lists = start + _places(postings.keys[start:end], wanted)
        found = spread(postings.starts[lists].astype(np.int64), postings.starts[lists + 1].astype(np.int64))
        mask[block * postings.block + postings.rows[found].astype(np.int64)] = 1
    mask[_rows_of(segment.lost, wanted)] = 1
    return mask


def _places(known: Ints, wanted: Ints) -> Ints:
    """Return where the wanted keys are among the known ones, which ascend."""
    if not len(known):
        return np.zeros(0, dtype=np.int64)
    at = np.minimum(np.searchsorted(known, wanted.astype(known.dtype)), len(known) - 1)
    found: Ints = at[known[at] == wanted].astype(np.int64)
    return found


def _rows_of(index: ForwardIndex, wanted: Ints) -> Ints:
    """Return the rows of a forward index that have any of the keys."""
    if not len(index.keys):
        return np.zeros(0, dtype=np.int64)
    at = np.flatnonzero(np.isin(index.keys, wanted))
    return np.unique(np.searchsorted(index.starts, at, side="right") - 1).astype(np.int64)
