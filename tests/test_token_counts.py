"""Token counts: they are those of the collection, and are looked up once for each page of tokens."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denslice.search import token_counts
from denslice.search.token_counts import PAGE, TokenCounts
from denslice.vectors import Ints

TOKENS = 3 * PAGE + 7


@given(st.lists(st.lists(st.integers(0, TOKENS - 1), max_size=6)), st.integers(1, 4))
def test_counts_are_those_of_the_collection_however_few_are_remembered(asked: list[list[int]], most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_counts, "CACHED_PAGES", most)
        counts = TokenCounts(lambda ids: ids * 10, TOKENS)
        assert [counts.of(ids) for ids in asked] == [[id * 10 for id in ids] for ids in asked]
        assert len(counts._pages) <= most


def test_a_page_of_tokens_is_looked_up_once_and_no_token_beyond_the_last() -> None:
    asked: list[Ints] = []

    def frequencies(ids: Ints) -> Ints:
        asked.append(ids)
        return np.ones_like(ids)

    counts = TokenCounts(frequencies, PAGE + 2)
    for ids in ([3, 1], [1, PAGE], [PAGE + 1, 3], []):
        assert counts.of(ids) == [1] * len(ids)
    assert [(ids[0], ids[-1]) for ids in asked] == [(0, PAGE - 1), (PAGE, PAGE + 1)]
