"""Token counts: they are those of the collection, and each token is looked up once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denslice.search import token_counts
from denslice.search.token_counts import TokenCounts
from denslice.vectors import Ints

some_ids = st.lists(st.integers(0, 9), max_size=6)


@given(st.lists(some_ids), st.integers(1, 12), st.sampled_from([0, 10]), st.integers(1, 10))
def test_counts_are_those_of_the_collection_whatever_is_remembered(
    asked: list[list[int]], most: int, whole: int, as_long: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("CACHED_TOKENS", most), ("WHOLE", whole), ("AS_LONG", as_long)):
            patch.setattr(token_counts, name, value)
        counts = TokenCounts(lambda ids: ids * 10, 10)
        assert [counts.of(ids) for ids in asked] == [[id * 10 for id in ids] for ids in asked]


def asked_of(tokens: int, *requests: list[int]) -> list[list[int]]:
    """The tokens that are looked up for some requests."""
    asked: list[list[int]] = []

    def frequencies(ids: Ints) -> Ints:
        asked.append(ids.tolist())
        return np.ones_like(ids)

    counts = TokenCounts(frequencies, tokens)
    for ids in requests:
        assert counts.of(ids) == [1] * len(ids)
    return asked


def test_a_token_is_looked_up_once() -> None:
    assert asked_of(1 << 30, [3, 1], [1, 2], [2, 3], []) == [[3, 1], [2]]


def test_all_tokens_are_counted_when_this_takes_no_longer_than_the_lookups_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(token_counts, "AS_LONG", 3)
    assert asked_of(6, [1], [1], [4, 5], [0], [3]) == [[1], [4, 5], [0, 1, 2, 3, 4, 5]]
