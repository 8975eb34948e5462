"""The benchmarks of lexical search: typos as they are made, and the plain definitions that answers are checked by."""

from __future__ import annotations

import importlib
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denslice import Query
from denslice.search.edit_distance import edit_distance, rows_for


@pytest.fixture(scope="module")
def typos() -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
        return importlib.import_module("typos")


@given(st.text("abcdé", min_size=2, max_size=8), st.integers(0, 1000))
def test_a_misspelt_word_is_one_edit_away(typos: Any, word: str, seed: int) -> None:
    edited = typos.one_edit(word, random.Random(seed))
    assert edit_distance([*map(ord, edited)], [*map(ord, word)], 3, rows_for(len(word))) == 1


def test_a_fifth_of_the_content_words_is_misspelt(typos: Any) -> None:
    queries = [Query("1", "What is the red fox?"), Query("2", "grey wolves of 2020 hunt")]
    made = typos.misspelt(queries, random.Random(3))
    words = [zip(one.text.split(), other.text.split(), strict=True) for one, other in zip(queries, made, strict=True)]
    assert sum(word != typed for pairs in words for word, typed in pairs) == 1
    assert [query.id for query in made] == ["1", "2"]
    assert made == typos.misspelt(queries, random.Random(3))


def test_stop_words_numbers_and_single_letters_are_no_content_words(typos: Any) -> None:
    assert [match.group() for match in typos.content_words("What is the R value of x2 in 2020?")] == ["value"]
