"""Facets: which documents match a query, and how many of them have each value of a filterable field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from denslice.search.holding_rows import rows_with
from denslice.search.query import Mask
from denslice.store.field_values import FieldKey, shown_value
from denslice.store.segment import Segment
from denslice.vectors import Ints


def holding_any(segments: Sequence[Segment], masks: Sequence[Mask], keys: Ints) -> list[Mask]:
    """Return the masks without the rows that hold none of the tokens."""
    both = zip(segments, masks, strict=True)
    return [(rows_with(segment, keys) & mask) if len(mask) else rows_with(segment, keys) for segment, mask in both]


def count_rows(segments: Sequence[Segment], masks: Sequence[Mask]) -> int:
    """Return how many rows pass the masks."""
    both = zip(segments, masks, strict=True)
    return sum(int(np.count_nonzero(mask)) if len(mask) else segment.rows for segment, mask in both)


def count_values(segments: Sequence[Segment], masks: Sequence[Mask], field: str) -> Counter[FieldKey]:
    """Return how many rows that pass the masks have each value; a row of a list counts once for each of its values."""
    total: Counter[FieldKey] = Counter()
    for segment, mask in zip(segments, masks, strict=True):
        values = segment.documents.field_values(field, segment.rows)
        counts = values.counts(mask)
        found = np.flatnonzero(counts)
        keys = [values.keys[code] for code in found.tolist()]
        here = dict(zip(keys, counts[found].tolist(), strict=True))
        total.update(here)
    return total


def facet(counts: Counter[FieldKey]) -> dict[Any, int]:
    """Return the counts by value as JSON has it, most frequent first, then by value.

    A dict holds true and 1 as one key: their counts are added.
    """
    shown: dict[Any, int] = {}
    for key, count in sorted(counts.items()):
        value = shown_value(key)
        shown[value] = shown.get(value, 0) + count
    return dict(sorted(shown.items(), key=itemgetter(1), reverse=True))  # equal counts stay in the order of values
