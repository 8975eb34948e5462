"""Tests of store/field_values.py: how many rows of a mask have each value."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from denslice.store.field_values import NUMBER, FieldValues


def values_of(lists: list[list[int]]) -> FieldValues:
    """The values of rows, each with a list."""
    entries = sorted((value, row, at) for row, some in enumerate(lists) for at, value in enumerate(some))
    different = sorted({value for value, _, _ in entries})
    counts = [sum(value == one for value, _, _ in entries) for one in different]
    places = np.array([(row, at) for _, row, at in entries], np.int64).reshape(-1, 2)
    return FieldValues.of([(NUMBER, value) for value in different], counts, places, len(lists))


def counted(lists: list[list[int]], mask: list[bool]) -> dict[int, int]:
    """How many rows of the mask have each value: the definition."""
    having = [set(some) for some, is_in in zip(lists, mask, strict=True) if is_in]
    return {value: sum(value in some for some in having) for value in {value for some in lists for value in some}}


@given(
    rows=st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=3), st.booleans()), max_size=8),
    longest=st.sampled_from([1, 3]),
)
def test_counts_are_those_of_the_rows_of_a_mask(rows: list[tuple[list[int], bool]], longest: int) -> None:
    lists, mask = [some[:longest] for some, _ in rows], [is_in for _, is_in in rows]
    values = values_of(lists)
    assert shown(values, np.array(mask, np.uint8)) == counted(lists, mask)
    assert shown(values, np.zeros(0, np.uint8)) == counted(lists, [True] * len(lists))


def shown(values: FieldValues, mask: npt.NDArray[np.uint8]) -> dict[int, int]:
    return {value: count for (_, value), count in zip(values.keys, values.counts(mask).tolist(), strict=True)}
