"""Where the arrays of segments lie in memory, as numbers: one call of compiled code then searches all of them.

A table has a row for each segment and a column for each of the names below: how many there are of something, or the
address of an array. Whoever uses a table holds on to the segments, masks and scores meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.store.segment import Segment

(
    DOCS, BASE, BLOCK, BLOCKS, LISTS, POSTINGS, WEIGHTS, KEY_BYTES, LETTERS, KEY_WORDS,  # counts
    BLOCK_STARTS, LIST_KEYS, LIST_STARTS, MAXIMA, ROWS, VALUES, KNOWN, KNOWN_BEFORE,  # addresses: posting lists
    ROW_STARTS, ROW_KEYS, ROW_WEIGHTS, ID_STARTS, ID_LETTERS,  # documents
    ALLOWED, EXTRA,  # a query's own, 0 where it has none
) = range(25)  # fmt: skip
Table = npt.NDArray[np.int64]
Arrays = Sequence[npt.NDArray[Any]]


class Parts(tuple[Segment, ...]):
    """Segments that are searched together."""

    @cached_property
    def docs(self) -> int:
        """How many rows they have, deleted ones among them."""
        return sum(segment.rows for segment in self)

    @cached_property
    def table(self) -> Table:
        """Where their arrays lie."""
        table = np.zeros((len(self), EXTRA + 1), dtype=np.int64)
        base = 0
        for row, segment, known in zip(table, self, self._known_keys, strict=True):
            _fill(row, segment, known)
            row[BASE] = base
            base += segment.rows
        return table

    def table_with(self, masks: Arrays, extra: Arrays = ()) -> Table:
        """The same with the masks and extra scores that are not empty."""
        if not any(map(len, masks)) and not any(map(len, extra)):
            return self.table
        table = self.table.copy()
        for column, arrays in ((ALLOWED, masks), (EXTRA, extra)):
            for row, array in zip(table, arrays, strict=False):
                if len(array):
                    row[column] = array.ctypes.data
        return table

    @cached_property
    def _known_keys(self) -> list[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]]:
        """Per segment and block, a bit for each key that has a list, and the lists before each 64 of them."""
        from denslice.search.cpu import known_keys

        lists = [segment.postings for segment in self]
        highest = [min(int(p.keys.max(initial=0)), s.highest_key) for p, s in zip(lists, self, strict=True)]
        return [known_keys(p.block_starts, p.keys, key) for p, key in zip(lists, highest, strict=True)]


def _fill(row: Table, segment: Segment, known: tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]) -> None:
    p, kept, (id_starts, letters) = segment.postings, segment.kept, segment.id_arrays
    row[DOCS], row[BLOCK], row[BLOCKS], row[LISTS] = segment.rows, p.block, len(p.block_starts) - 1, len(p.keys)
    row[POSTINGS], row[WEIGHTS], row[KEY_WORDS] = len(p.rows), len(kept.keys), known[0].shape[1]
    row[KEY_BYTES], row[LETTERS] = kept.keys.itemsize, len(letters)
    arrays = {BLOCK_STARTS: p.block_starts, LIST_KEYS: p.keys, LIST_STARTS: p.starts, MAXIMA: p.maxima}
    arrays |= {ROWS: p.rows, VALUES: p.values, KNOWN: known[0], KNOWN_BEFORE: known[1]}
    arrays |= {ROW_STARTS: kept.starts, ROW_KEYS: kept.keys, ROW_WEIGHTS: kept.weights}
    arrays |= {ID_STARTS: id_starts, ID_LETTERS: letters}
    for column, array in arrays.items():
        row[column] = array.ctypes.data
