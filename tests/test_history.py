"""Stored weights depend on the document and on the index's options alone, never on what was added before or with it."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from denslice import Index

WORDS = ("ant", "bees", "cat", "dogs", "elk", "foxes", "gnu", "hens")
QUESTIONS = ("ants", "bee cat", "dog dog elk", "ant bee cat dog elk fox gnu hen")
Operation = tuple[str, Any]
Scores = list[list[tuple[str, float]]]


def made(folder: str, name: str, encoder: str, **options: Any) -> Index:
    return Index.create(Path(folder, name), encoder, options=options)


def add(index: Index, docs: Mapping[str, str]) -> None:
    index.add([{"id": id, "text": text} for id, text in docs.items()])


def lived(index: Index, operations: Sequence[Operation]) -> dict[str, str]:
    """The documents that are left after everything that was done to the index."""
    left: dict[str, str] = {}
    for name, what in operations:
        if name == "add":
            add(index, what)
            left.update(what)
        elif name == "delete":
            index.delete(what)
            left = {id: text for id, text in left.items() if id not in what}
        else:
            index.merge()
    return left


def scores(index: Index) -> Scores:
    return [[(hit.id, hit.score) for hit in index.search(text, 100)] for text in QUESTIONS]


IDS = st.sampled_from([f"d{n}" for n in range(8)])
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.dictionaries(IDS, TEXTS, min_size=1, max_size=5)),
        st.tuples(st.just("delete"), st.lists(IDS, min_size=1, max_size=3)),
        st.tuples(st.just("merge"), st.none()),
    ),
    min_size=2,
    max_size=6,
)


@settings(max_examples=40, deadline=None)
@given(OPERATIONS, st.randoms(use_true_random=False), st.sampled_from([0.0, 0.3]))
def test_an_index_of_bm25_scores_as_one_built_at_once_whatever_it_lived_through(
    operations: Sequence[Operation], random: Any, phrases: float
) -> None:
    check_history(operations, random, "bm25", phrases=phrases)


@settings(max_examples=6, deadline=None)
@given(OPERATIONS, st.randoms(use_true_random=False))
def test_an_index_of_mini_scores_as_one_built_at_once_whatever_it_lived_through(
    operations: Sequence[Operation], random: Any
) -> None:
    check_history(operations, random, "mini")


def check_history(operations: Sequence[Operation], random: Any, encoder: str, **options: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        old, new = (made(folder, name, encoder, **options) for name in ("old", "new"))
        left = lived(old, operations)
        order = list(left.items())
        random.shuffle(order)
        add(new, dict(order))
        assert scores(old) == scores(new)
