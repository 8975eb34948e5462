"""Token counts: they are those of the collection, and each token is looked up once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denslice.search import token_counts
from denslice.search.token_counts import TokenCounts
from denslice.vectors import Ints

some_ids = st.lists(st.integers(0, 9), max_size=6)


@given(st.lists(some_ids), st.integers(1, 12))
def test_counts_are_those_of_the_collection_however_few_are_remembered(asked: list[list[int]], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_counts, "CACHED_TOKENS", most)
        counts = TokenCounts(lambda ids: ids * 10)
        assert [counts.of(ids) for ids in asked] == [[id * 10 for id in ids] for ids in asked]


def test_a_token_is_looked_up_once() -> None:
    asked: list[int] = []

    def frequencies(ids: Ints) -> Ints:
        asked.extend(ids.tolist())
        return np.ones_like(ids)

    counts = TokenCounts(frequencies)
    for ids in ([3, 1], [1, 2], [2, 3], []):
        assert counts.of(ids) == [1] * len(ids)
    assert asked == [3, 1, 2]


def test_a_token_that_is_remembered_is_still_known_when_others_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_counts, "CACHED_TOKENS", 2)
    counts = TokenCounts(lambda ids: ids)
    assert [counts.of(ids) for ids in ([1, 2], [2, 3], [1])] == [[1, 2], [2, 3], [1]]
