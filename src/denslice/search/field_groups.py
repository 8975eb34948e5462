"""Groups of documents with the same value of a filterable field. A document without a value is a group of its own.

A list counts with its first value.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from denslice.search.field_order import KeyedRows
from denslice.search.found_rows import FindWithin, chosen, concatenated, score_order
from denslice.search.query import NONE_FOUND, Found, Mask
from denslice.store.field_values import FieldKey, FieldValues
from denslice.store.segment import Segment

FEWEST = 64  # documents that are searched for new groups at a time


def best_of_groups(
    find: FindWithin, segments: Sequence[Segment], masks: Sequence[Mask], field: str, k: int
) -> KeyedRows:
    """Return the best document of each of the k best groups, best first.

    Groups that are known are left out of the next search, so that large ones do not hide small ones.
    """
    values = [segment.documents.field_values(field, segment.rows) for segment in segments]
    best, asked = KeyedRows(NONE_FOUND, []), max(k, FEWEST)
    while len(best.keys) < k:
        found = find(masks, asked)
        places = zip(found.segments.tolist(), found.rows.tolist(), strict=True)
        best = first_of_groups([best, KeyedRows(found, [_key(values[at], row) for at, row in places])], k)
        if len(found.ids) < asked:
            break
        masks = _without(masks, values, best)
    return best


def first_of_groups(parts: Sequence[KeyedRows], k: int) -> KeyedRows:
    """Return the best document of each of the k best groups, among the rows of all parts."""
    found, keys = concatenated([part.found for part in parts]), [key for part in parts for key in part.keys]
    places: list[int] = []
    seen: set[FieldKey] = set()
    for at in score_order(found):
        key = keys[at]
        if key is None or key not in seen:
            places.append(at)
        if key is not None:
            seen.add(key)
    places = places[:k]
    return KeyedRows(chosen(found, places), [keys[at] for at in places])


def group_members(
    find: FindWithin, segments: Sequence[Segment], masks: Sequence[Mask], field: str, keys: Sequence[FieldKey], n: int
) -> list[Found]:
    """Return the n best documents of each group."""
    values = [segment.documents.field_values(field, segment.rows) for segment in segments]
    return [find(_within(masks, values, key), n) for key in keys]


def _key(values: FieldValues, row: int) -> FieldKey | None:
    number = int(values.first[row])
    return values.keys[number] if number >= 0 else None


def _code(values: FieldValues, key: FieldKey) -> int:
    """Return the number of a value; -2, which no row has, for one that the segment does not have."""
    at = bisect_left(values.keys, key)
    return at if at < len(values.keys) and values.keys[at] == key else -2


def _within(masks: Sequence[Mask], values: Sequence[FieldValues], key: FieldKey) -> list[Mask]:
    """Return the masks without the rows that are not in the group."""
    groups = [(one.first == _code(one, key)).astype(np.uint8) for one in values]
    return [mask & group if len(mask) else group for mask, group in zip(masks, groups, strict=True)]


def _without(masks: Sequence[Mask], values: Sequence[FieldValues], known: KeyedRows) -> list[Mask]:
    """Return the masks without the rows of known groups, and without known documents that have no value."""
    left = []
    for at, (mask, one) in enumerate(zip(masks, values, strict=True)):
        codes = [_code(one, key) for key in known.keys if key is not None]
        others = (~np.isin(one.first, codes)).astype(np.uint8)
        others[known.found.rows[known.found.segments == at]] = 0
        left.append(mask & others if len(mask) else others)
    return left
