"""Array operations of densifying and of writing postings: in numpy for small inputs, in compiled loops for larger ones.

Both return the same. Loading numba and the loops takes longer than a small input takes in numpy.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from denslice.vectors import Array

SMALL_INPUT = 1 << 15  # weights up to which numpy is used
FEW_POSTINGS = 1 << 18  # up to which it sorts them: in a twentieth of the time that numba takes to load
Marks = npt.NDArray[np.bool_]


def largest_per_slice(indptr: Array, indices: Array, data: Array, slice_of: Array, slices: int) -> Marks:
    """Mark the largest weight of every slice in each CSR row, of equal ones that of the lower token.

    The columns of a row must be sorted.
    """
    if len(data) <= SMALL_INPUT:
        return largest_by_sorting(indptr, indices, data, slice_of, slices)
    from denslice import array_loops

    kept: Marks = array_loops.largest_per_slice(indptr, indices, data, slice_of, slices)
    return kept


def largest_by_sorting(indptr: Array, indices: Array, data: Array, slice_of: Array, slices: int) -> Marks:
    """Do what `largest_per_slice` does: sort by slice and by descending weight, and mark the first of each slice."""
    slice_of_each = slice_of[indices].astype(np.int64)
    cells = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)) * slices + slice_of_each
    placed = np.flatnonzero((slice_of_each >= 0) & (data > 0))
    order = placed[np.lexsort((-data[placed], cells[placed]))]  # stable, so the lower token comes first
    kept = np.zeros(len(data), np.bool_)
    kept[order[np.diff(cells[order], prepend=-1) != 0]] = True
    return kept


def sort_by_value(starts: Array, rows: Array, values: Array) -> None:
    """Sort the postings of each list in place by descending value; rows of equal values keep their order."""
    if len(rows) <= FEW_POSTINGS:
        lists_by_sorting(starts, rows, values)
    else:
        from denslice import array_loops

        array_loops.sort_by_value(starts, rows, values)


def lists_by_sorting(starts: Array, rows: Array, values: Array) -> None:
    """Do what `sort_by_value` does with one stable sort of all lists."""
    lists = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.lexsort((np.iinfo(values.dtype).max - values, lists))
    rows[:], values[:] = rows[order], values[order]
