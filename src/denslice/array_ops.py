"""What densifying and writing postings do to each weight: small inputs in numpy, larger ones in compiled loops.

Both give the same. Compiling the loops takes longer than a small input does in numpy, and numba is slow to load.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from denslice.vectors import Array

SMALL_INPUT = 1 << 15  # weights up to which numpy is taken


def largest_per_slice(
    indptr: Array, indices: Array, data: Array, slice_of: Array, slices: int
) -> npt.NDArray[np.bool_]:
    """Mark, in each CSR row, the largest weight of every slice; of equals the lower token (rows sorted by column)."""
    if len(data) <= SMALL_INPUT:
        return largest_by_sorting(indptr, indices, data, slice_of, slices)
    from denslice import array_loops

    kept: npt.NDArray[np.bool_] = array_loops.largest_per_slice(indptr, indices, data, slice_of, slices)
    return kept


def largest_by_sorting(
    indptr: Array, indices: Array, data: Array, slice_of: Array, slices: int
) -> npt.NDArray[np.bool_]:
    """Return what `largest_per_slice` returns: with the weights sorted by cell, falling, a cell's first is kept."""
    slice_of_each = slice_of[indices].astype(np.int64)
    cells = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)) * slices + slice_of_each
    placed = np.flatnonzero((slice_of_each >= 0) & (data > 0))
    order = placed[np.lexsort((-data[placed], cells[placed]))]  # stable: of equals the lower token
    kept = np.zeros(len(data), np.bool_)
    kept[order[np.diff(cells[order], prepend=-1) != 0]] = True
    return kept


def sort_by_value(starts: Array, rows: Array, values: Array) -> None:
    """Put the postings of each list in order, in place: values falling, rows of equal values as they were."""
    if len(rows) <= SMALL_INPUT:
        lists_by_sorting(starts, rows, values)
    else:
        from denslice import array_loops

        array_loops.sort_by_value(starts, rows, values)


def lists_by_sorting(starts: Array, rows: Array, values: Array) -> None:
    """Do what `sort_by_value` does with one stable sort of all lists."""
    lists = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.lexsort((np.iinfo(values.dtype).max - values, lists))
    rows[:], values[:] = rows[order], values[order]
