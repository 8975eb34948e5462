"""Rows in the order of a filterable field: by value, equal values by score and id, rows without a value last."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from denslice.search.facets import count_rows
from denslice.search.found_rows import FindWithin, best_rows, chosen, concatenated, score_order
from denslice.search.query import Found, Mask
from denslice.store.field_values import FieldKey, FieldValues
from denslice.store.segment import Segment
from denslice.vectors import Array


class KeyedRows(NamedTuple):
    """Documents that were found, and the value of a field of each; None for one that has no value."""

    found: Found
    keys: list[FieldKey | None]


@dataclass(frozen=True)
class FieldOrder:
    """The order by a field. A list counts with its lowest value, or in descending order with its highest."""

    field: str
    is_descending: bool

    @classmethod
    def of(cls, sort_by: str) -> FieldOrder:
        """Return the order that the option `sort_by` asks for."""
        return cls(sort_by.removeprefix("-"), sort_by.startswith("-"))

    def first(self, find: FindWithin, segments: Sequence[Segment], masks: Sequence[Mask], k: int) -> KeyedRows:
        """Return the first k of the rows that pass the masks.

        Rows before the k-th value are all taken, and of those with that value the best: only these are scored.
        """
        values = [segment.documents.field_values(self.field, segment.rows) for segment in segments]
        last = self._kth_value(values, masks, k)
        cuts = [self._cut(one, mask, last) for one, mask in zip(values, masks, strict=True)]
        before, at_last = [cut[0] for cut in cuts], [cut[1] for cut in cuts]
        count = count_rows(segments, before)
        parts = [best_rows(find, segments, before, count), best_rows(find, segments, at_last, k - count)]
        found = concatenated(parts)
        both = zip(found.segments.tolist(), found.rows.tolist(), strict=True)
        numbers = [(values[at], int(self._numbers(values[at])[row])) for at, row in both]
        keys = [one.keys[number] if number >= 0 else None for one, number in numbers]
        return self.merged([KeyedRows(found, keys)], k)

    def merged(self, parts: Sequence[KeyedRows], k: int) -> KeyedRows:
        """Return the first k of the rows of all parts."""
        found, keys = concatenated([part.found for part in parts]), [key for part in parts for key in part.keys]
        order = score_order(found)
        having = sorted([at for at in order if keys[at]], key=lambda at: keys[at] or (), reverse=self.is_descending)
        order = [*having, *(at for at in order if not keys[at])][:k]
        return KeyedRows(chosen(found, order), [keys[at] for at in order])

    def _numbers(self, values: FieldValues) -> Array:
        return values.highest if self.is_descending else values.lowest

    def _kth_value(self, values: Sequence[FieldValues], masks: Sequence[Mask], k: int) -> FieldKey | None:
        """Return the value of the k-th row, or None if that has no value."""
        counts: Counter[FieldKey] = Counter()
        for one, mask in zip(values, masks, strict=True):
            numbers = self._numbers(one)[mask != 0] if len(mask) else self._numbers(one)
            rows = np.bincount(numbers[numbers >= 0], minlength=len(one.keys))
            order = np.flatnonzero(rows)[:: -1 if self.is_descending else 1]
            enough = int(np.searchsorted(np.cumsum(rows[order]), k)) + 1
            counts.update({one.keys[code]: int(rows[code]) for code in order[:enough].tolist()})
        total = 0
        for key in sorted(counts, reverse=self.is_descending):
            total += counts[key]
            if total >= k:
                return key
        return None

    def _cut(self, values: FieldValues, mask: Mask, last: FieldKey | None) -> tuple[Mask, Mask]:
        """Return the rows of a mask that come before a value, and those that have it."""
        numbers = self._numbers(values)
        if last is None:
            at_last = numbers < 0
            before = ~at_last
        else:
            low, high = bisect_left(values.keys, last), bisect_right(values.keys, last)
            at_last = (numbers >= low) & (numbers < high)
            before = numbers >= high if self.is_descending else (numbers >= 0) & (numbers < low)
        allowed = mask != 0 if len(mask) else np.ones(values.rows, dtype=np.bool_)
        return (before & allowed).astype(np.uint8), (at_last & allowed).astype(np.uint8)
