"""Where the arrays of segments lie in memory, as numbers: one call of compiled code then searches all of them.

A table has a row for each segment and a column for each of the names below: how many there are of something, or the
address of an array. Whoever uses a table holds on to the parts, masks and scores meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.store.segment import Segment

(
    DOCS, BASE, BLOCK, BLOCKS, LISTS, POSTINGS, WEIGHTS, KEY_BYTES, LETTERS, KEY_WORDS,  # counts
    LIST_STARTS, MAXIMA, ROWS, VALUES, KNOWN, KNOWN_BEFORE,  # addresses: posting lists
    ROW_STARTS, ROW_KEYS, ROW_WEIGHTS, ID_STARTS, ID_LETTERS,  # documents
    ALLOWED, EXTRA,  # a query's own, 0 where it has none
) = range(23)  # fmt: skip
Table = npt.NDArray[np.int64]
Arrays = Sequence[npt.NDArray[Any]]


class Parts(tuple[Segment, ...]):
    """Segments that are searched together, by any number of threads."""

    def __init__(self, segments: Sequence[Segment] = ()) -> None:
        self._lock = Lock()
        self._made: Table | None = None
        self._filled: dict[str, tuple[Table, Arrays]] = {}  # by segment: its row, and the arrays it has addresses of

    @classmethod
    def of(cls, segments: Sequence[Segment], before: Parts) -> Parts:
        """Return these segments, with a table made from an earlier one's rows if that had been made."""
        parts = cls(segments)
        if before._made is not None:
            parts._filled = before._filled
            parts._made = parts._make()
        return parts

    @cached_property
    def docs(self) -> int:
        """How many rows they have, deleted ones among them."""
        return sum(segment.rows for segment in self)

    @cached_property
    def weights(self) -> int:
        """How many weights all rows have."""
        return sum(len(segment.kept.keys) for segment in self)

    @property
    def table(self) -> Table:
        """Where their arrays lie."""
        if self._made is None:
            with self._lock:  # two tables would be one whose arrays nobody holds on to
                if self._made is None:
                    self._made = self._make()
        return self._made

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

    def _make(self) -> Table:
        known = self._filled  # what is not needed any more is let go of
        self._filled = {s.entry.name: known.get(s.entry.name) or _filled(s) for s in self}
        table = np.zeros((len(self), EXTRA + 1), dtype=np.int64)
        base = 0
        for row, segment in zip(table, self, strict=True):
            row[:] = self._filled[segment.entry.name][0]
            row[BASE] = base
            base += segment.rows
        return table


def _filled(segment: Segment) -> tuple[Table, Arrays]:
    """A segment's row of the table, which says where its arrays lie, and the arrays."""
    from denslice.search.cpu.key_bitmaps import known_keys

    row = np.zeros(EXTRA + 1, dtype=np.int64)
    p, kept, (id_starts, letters) = segment.postings, segment.kept, segment.id_arrays
    highest = min(int(p.keys.max(initial=0)), segment.highest_key)
    known, before = known_keys(p.block_starts, p.keys, highest)
    row[DOCS], row[BLOCK], row[BLOCKS], row[LISTS] = segment.rows, p.block, len(p.block_starts) - 1, len(p.keys)
    row[POSTINGS], row[WEIGHTS], row[KEY_WORDS] = len(p.rows), len(kept.keys), known.shape[1]
    row[KEY_BYTES], row[LETTERS] = kept.keys.itemsize, len(letters)
    arrays = {LIST_STARTS: p.starts, MAXIMA: p.maxima, ROWS: p.rows, VALUES: p.values}
    arrays |= {KNOWN: known, KNOWN_BEFORE: before}
    arrays |= {ROW_STARTS: kept.starts, ROW_KEYS: kept.keys, ROW_WEIGHTS: kept.weights}
    arrays |= {ID_STARTS: id_starts, ID_LETTERS: letters}
    for column, array in arrays.items():
        row[column] = array.ctypes.data
    return row, list(arrays.values())
