"""The values of a filterable field in one segment, as arrays: for counting, sorting and grouping its rows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from denslice.vectors import Array, Ints, spread

PRESENT, NULL, BOOLEAN, NUMBER, STRING = range(5)  # kinds of values
FieldKey = tuple[int, Any]  # the kind and the stored value: keys of one kind can be compared


def shown_value(key: FieldKey) -> Any:
    """Return the value of a key as JSON has it."""
    kind, value = key
    return bool(value) if kind == BOOLEAN else value


@dataclass(frozen=True)
class FieldValues:
    """The different values of a field in rising order, and which row has which.

    An entry is a row with one of its values. Entries are ordered by value and row, and none is there twice.
    """

    rows: int  # of the segment
    keys: list[FieldKey]  # (values,) ascending
    entry_codes: Array  # (entries,) int32, the number of each entry's value
    entry_rows: Array  # (entries,) int32
    entry_order: Array  # (entries,) where the value came in its document: the first of a list has the least

    @classmethod
    def of(cls, keys: list[FieldKey], counts: Sequence[int], entries: Ints, rows: int) -> FieldValues:
        """Return the values, given how many entries each has, and the row and the order of the entries."""
        codes = np.repeat(np.arange(len(keys), dtype=np.int32), np.array(counts, dtype=np.int64))
        of_row, order = entries[:, 0].astype(np.int32), entries[:, 1]
        is_new = np.ones(len(codes), dtype=np.bool_)  # a list may have a value twice
        is_new[1:] = (codes[1:] != codes[:-1]) | (of_row[1:] != of_row[:-1])
        return cls(rows, keys, codes[is_new], of_row[is_new], order[is_new])

    def counts(self, mask: Array) -> Ints:
        """Return how many rows of a mask have each value (values,). An empty mask stands for all rows."""
        if not len(mask):
            return np.bincount(self.entry_codes, minlength=len(self.keys))
        starts, codes = self._by_row
        rows = np.flatnonzero(mask.astype(np.bool_, copy=False))
        entries = rows if starts is None else spread(starts[rows], starts[rows + 1])
        return np.bincount(codes[entries], minlength=len(self.keys) + 1)[: len(self.keys)]

    @cached_property
    def _by_row(self) -> tuple[Ints | None, Array]:
        """The values of the entries in the order of rows, and where those of each row begin.

        If no row has two, each has one instead, and that of a row without any is behind the last value.
        """
        sizes = np.bincount(self.entry_rows, minlength=self.rows)
        if sizes.max(initial=0) > 1:
            return np.concatenate([[0], np.cumsum(sizes)]), self.entry_codes[np.argsort(self.entry_rows, kind="stable")]
        codes = np.full(self.rows, len(self.keys), dtype=np.int32)
        codes[self.entry_rows] = self.entry_codes
        return None, codes

    def having(self, operator: str, key: FieldKey) -> Ints:
        """Return the rows with a value of the same kind that satisfies the comparison with this one."""
        kind = key[0]
        low, high = bisect_left(self.keys, key), bisect_right(self.keys, key)
        first, last = bisect_left(self.keys, (kind,)), bisect_left(self.keys, (kind + 1,))
        start, end = {
            "eq": (low, high), "gt": (high, last), "gte": (low, last), "lt": (first, low), "lte": (first, high),
        }[operator]  # fmt: skip
        begin, stop = np.searchsorted(self.entry_codes, [start, end])
        return self.entry_rows[begin:stop].astype(np.int64)

    @cached_property
    def lowest(self) -> Array:
        """The number of each row's lowest value (rows,) int32; -1 if it has none but null."""
        return self._of_rows(slice(None, None, -1))

    @cached_property
    def highest(self) -> Array:
        """The number of each row's highest value (rows,) int32; -1 if it has none but null."""
        return self._of_rows(slice(None))

    @cached_property
    def first(self) -> Array:
        """The number of each row's value, the first of a list (rows,) int32; -1 if it has none but null."""
        return self._of_rows(np.argsort(-self.entry_order, kind="stable"))

    def _of_rows(self, order: slice | Array) -> Array:
        """Return the value of each row that comes last in an order of the entries."""
        numbers = np.full(self.rows, -1, dtype=np.int32)
        codes, of_row = self.entry_codes[order], self.entry_rows[order]
        is_value = codes >= self.nulls
        numbers[of_row[is_value]] = codes[is_value]
        return numbers

    @cached_property
    def nulls(self) -> int:
        """How many of the first keys are null: 1 or 0."""
        return int(bool(self.keys) and self.keys[0][0] == NULL)
