"""The arrays of segments as memory addresses, so that one call of compiled code searches all segments.

A table has a row for each segment and a column for each name below: a count, or the address of an array. The caller
keeps the segments, masks and scores alive while a table of their addresses is in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from denslice.store.byte_planes import BytePlanes
from denslice.store.segment import Segment

(
    N_DOCS, BASE, BLOCK_DOCS, N_BLOCKS, N_LISTS, N_POSTINGS, N_WEIGHTS, KEY_BYTES, N_LETTERS, KEY_WORDS,  # counts
    LIST_STARTS, LIST_MAXIMA, LIST_ROWS, LIST_VALUES, KEY_BITMAPS, LISTS_BEFORE,  # addresses of posting lists
    ROW_STARTS, ROW_KEYS, ROW_WEIGHTS, ID_STARTS, ID_LETTERS,  # addresses of documents
    ALLOWED, EXTRA_SCORES,  # addresses of a query's own arrays, 0 if it has none
) = range(23)  # fmt: skip
Table = npt.NDArray[np.int64]
Arrays = Sequence[npt.NDArray[Any]]


class Centres(NamedTuple):
    """The centres of the clusters of all segments, one after another, so that one call compares them with a query."""

    vectors: BytePlanes
    starts: npt.NDArray[np.int64]  # (segments + 1,): those of a segment begin here
    length: float  # of a centre on average, which is as long as the vectors of its cluster


class Parts(tuple[Segment, ...]):
    """Segments that are searched together, by any number of threads."""

    def __init__(self, segments: Sequence[Segment] = ()) -> None:
        self._lock = Lock()
        self._made: Table | None = None
        self._filled: dict[str, tuple[Table, Arrays]] = {}  # by segment: its row, and the arrays it has addresses of

    @classmethod
    def of(cls, segments: Sequence[Segment], before: Parts) -> Parts:
        """Return these segments. If the earlier parts have a table, its rows are used again."""
        parts = cls(segments)
        if before._made is not None:
            parts._filled = before._filled
            parts._made = parts._make()
        return parts

    @cached_property
    def docs(self) -> int:
        """Return the number of rows, including deleted ones."""
        return sum(segment.rows for segment in self)

    @cached_property
    def weights(self) -> int:
        """Return the number of weights of all rows."""
        return sum(len(segment.kept.keys) for segment in self)

    @cached_property
    def centres(self) -> Centres:
        """Return the centres of all clusters. At least one segment must have clusters."""
        every = [None if one.dense is None else one.dense.clusters for one in self]
        planes = BytePlanes.joined([one.centres for one in every if one is not None])
        counts = [0 if one is None else len(one.centres) for one in every]
        lengths = np.linalg.norm(planes[:].astype(np.float32), axis=1)
        return Centres(planes, np.concatenate([[0], np.cumsum(counts)]), float(lengths.mean()))

    @property
    def table(self) -> Table:
        """Return the table of addresses, which is made once."""
        if self._made is None:
            with self._lock:  # only one table may be made: the arrays of another would be freed
                if self._made is None:
                    self._made = self._make()
        return self._made

    def table_with(self, masks: Arrays, extra: Arrays = ()) -> Table:
        """Return the table with the addresses of those masks and extra scores that are not empty."""
        if not any(map(len, masks)) and not any(map(len, extra)):
            return self.table
        table = self.table.copy()
        for column, arrays in ((ALLOWED, masks), (EXTRA_SCORES, extra)):
            for row, array in zip(table, arrays, strict=False):
                if len(array):
                    row[column] = array.ctypes.data
        return table

    def _make(self) -> Table:
        known = self._filled  # rows of segments that are gone are dropped
        self._filled = {s.entry.name: known.get(s.entry.name) or _filled(s) for s in self}
        table = np.zeros((len(self), EXTRA_SCORES + 1), dtype=np.int64)
        base = 0
        for row, segment in zip(table, self, strict=True):
            row[:] = self._filled[segment.entry.name][0]
            row[BASE] = base
            base += segment.rows
        return table


def _filled(segment: Segment) -> tuple[Table, Arrays]:
    """Return a segment's row of the table, and the arrays whose addresses are in it."""
    from denslice.search.cpu.key_bitmaps import known_keys

    row = np.zeros(EXTRA_SCORES + 1, dtype=np.int64)
    p, kept, (id_starts, letters) = segment.postings, segment.kept, segment.id_arrays
    highest = min(int(p.keys.max(initial=0)), segment.highest_key)
    known, before = known_keys(p.block_starts, p.keys, highest)
    row[N_DOCS], row[BLOCK_DOCS], row[N_BLOCKS] = segment.rows, p.block, len(p.block_starts) - 1
    row[N_LISTS], row[N_POSTINGS], row[N_WEIGHTS] = len(p.keys), len(p.rows), len(kept.keys)
    row[KEY_BYTES], row[N_LETTERS], row[KEY_WORDS] = kept.keys.itemsize, len(letters), known.shape[1]
    arrays = {LIST_STARTS: p.starts, LIST_MAXIMA: p.maxima, LIST_ROWS: p.rows, LIST_VALUES: p.values}
    arrays |= {KEY_BITMAPS: known, LISTS_BEFORE: before}
    arrays |= {ROW_STARTS: kept.starts, ROW_KEYS: kept.keys, ROW_WEIGHTS: kept.weights}
    arrays |= {ID_STARTS: id_starts, ID_LETTERS: letters}
    for column, array in arrays.items():
        row[column] = array.ctypes.data
    return row, list(arrays.values())
