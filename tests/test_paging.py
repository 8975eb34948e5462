"""Pages: by cursor and by offset they give every hit once, in the order of one search with a large k."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from denslice import Index, InputError, Query, Ranking
from denslice.index.paging import Cursor
from denslice.options import SearchOptions
from denslice.search.cpu import two_stage

WORDS = ["cats", "dogs", "birds", "sleep", "run", "sing", "by", "day", "night", "rivers"]
KINDS: list[dict[str, Any]] = [
    {"mode": "lexical"},
    {"mode": "hybrid"},
    {"mode": "dense"},
    {"mode": "hybrid", "group": False},
    {"mode": "lexical", "group": False},
    {"mode": "hybrid", "where": {"year": {"gte": 2003}}},
    {"mode": "hybrid", "min_score": 6.0},
    {"mode": "lexical", "sort_by": "-year"},
    {"mode": "hybrid", "sort_by": "year"},
    {"mode": "lexical", "group_by": "year"},
    {"mode": "hybrid", "group_by": "author"},
]


@pytest.fixture(params=["numpy", "compiled loops"], scope="module", autouse=True)
def _small_indexes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small indexes searched as they are shipped to be, and as larger ones are."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "compiled loops":
            patch.setattr(two_stage, "SMALL_INDEX", 0)
        yield


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """Sixty documents in three segments, some long, many with equal scores."""
    folder = tmp_path_factory.mktemp("paging") / "my.idx"
    chance = np.random.default_rng(3)
    with Index.create(folder, "mini", filterable=["year", "author"]) as index:
        for first in range(0, 60, 20):
            docs = []
            for at in range(first, first + 20):
                text = " ".join(chance.choice(WORDS, 600 if at % 9 == 0 else 4).tolist())
                docs.append({"id": f"d{at}", "text": text, "year": 2000 + at % 7, "author": f"a{at % 4}"})
            index.add(docs)
        yield index


def by_cursor(index: Index, text: str, k: int, **options: Any) -> list[Ranking]:
    """All pages, each after the cursor of the one before."""
    pages = [index.search(text, k, **options)]
    while cursor := pages[-1].cursor:
        pages.append(index.search(text, k, cursor=cursor, **options))
    return pages


def hits(*pages: Ranking) -> list[tuple[str, float, int | None]]:
    """The id, score and passage of each hit."""
    found = []
    for page in pages:
        numbers: tuple[int | None, ...] = page.passages or (None,) * len(page)
        found += list(zip(page.ids, page.scores, numbers, strict=True))
    return found


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("k", [1, 7, 30])
def test_pages_give_every_hit_once_in_the_order_of_one_search(index: Index, options: dict[str, Any], k: int) -> None:
    every = hits(index.search("cats sleep by rivers", 10_000, **options))
    pages = by_cursor(index, "cats sleep by rivers", k, **options)
    assert hits(*pages) == every
    assert all(len(page) == k for page in pages[:-1])
    assert len(pages[-1]) > 0
    offsets = range(0, len(every) + k, k)
    assert hits(*(index.search("cats sleep by rivers", k, offset=at, **options) for at in offsets)) == every


@pytest.mark.parametrize("text", ["cats -dogs", '"cats sleep"', "-rivers", "+run by", "year:2003", "cats OR birds"])
@pytest.mark.parametrize("options", [{"mode": "lexical"}, {}, {"sort_by": "year"}, {"group_by": "year"}], ids=str)
def test_pages_of_queries_with_conditions_give_every_hit_once(index: Index, text: str, options: dict[str, Any]) -> None:
    whole = index.search(text, 1_000, **options)
    assert hits(*by_cursor(index, text, 4, **options)) == hits(whole)
    if "group_by" in options:
        assert {hit.meta["year"] for hit in whole} == {hit.meta["year"] for hit in index.search(text, 1_000)}
    elif options:
        assert len(whole) == whole.matching


def test_groups_of_several_are_paged_by_groups(index: Index) -> None:
    whole = index.search("cats", 100, group_by="year", per_group=3)
    pages = by_cursor(index, "cats", 2, group_by="year", per_group=3)
    assert hits(*pages) == hits(whole)
    assert [len(page) for page in pages] == [6, 6, 6, 3]


def test_a_page_beyond_the_end_is_empty_and_has_no_cursor(index: Index) -> None:
    beyond = index.search("cats", 10, offset=10**9)
    assert (beyond.ids, beyond.cursor) == ((), None)


def test_the_last_page_has_no_cursor_even_if_it_is_full(index: Index) -> None:
    assert index.search("cats", 60).cursor is None
    assert index.search("cats", 59).cursor is not None
    assert index.search("nothing", mode="lexical").cursor is None


def test_a_hit_of_a_later_page_has_its_text_and_its_explanation(index: Index) -> None:
    page = index.search("cats sleep", 3, offset=30)
    assert [hit.text for hit in page] == [index.get(id).text for id in page.ids]  # type: ignore[union-attr]
    assert [why.score for why in page.explanations()] == pytest.approx(list(page.scores), rel=1e-4)


def test_k_and_facets_may_change_from_page_to_page(index: Index) -> None:
    first = index.search("cats", 4)
    after = index.search("cats", 9, cursor=first.cursor, facets=["year"])
    assert hits(first, after) == hits(index.search("cats", 13))


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("dogs", {}, "of another query"),
        ("cats", {"mode": "lexical"}, "other options"),
        ("cats", {"pruning": 0.1, "mode": "hybrid"}, "other options"),
        ("cats", {"where": {"year": 2001}}, "other options"),
        ("cats", {"sort_by": "year"}, "other options"),
        ("cats", {"min_score": 1.0}, "other options"),
    ],
)
def test_a_cursor_of_another_search_is_an_error_that_says_so(
    index: Index, text: str, options: dict[str, Any], told: str
) -> None:
    cursor = index.search("cats", 4).cursor
    with pytest.raises(InputError, match=told):
        index.search(text, 4, cursor=cursor, **options)


@pytest.mark.parametrize("wrong", ["", "x", "é", "A" * 30, "A" * 33, "\x00"])
def test_a_text_that_is_no_cursor_is_an_error(index: Index, wrong: str) -> None:
    with pytest.raises(InputError, match="expected the cursor of a page"):
        index.search("cats", cursor=wrong)


def test_a_cursor_is_what_it_was_when_it_is_read() -> None:
    cursor = Cursor.of(12_345, "commit", {"text": "cats"}, SearchOptions())
    assert Cursor.read(str(cursor)) == cursor
    assert len(str(cursor)) < 40


def test_a_cursor_of_an_earlier_commit_says_that_this_is_gone(tmp_path: Path) -> None:
    with Index.create(tmp_path / "my.idx", "bm25") as index:
        index.add([{"id": "1", "text": "cats"}, {"id": "2", "text": "cats"}])
        cursor = index.search("cats", 1).cursor
        index.add([{"id": "3", "text": "cats"}])
        with pytest.raises(InputError, match=r"another commit: the index has changed since.* gone; search again"):
            index.search("cats", 1, cursor=cursor)


def test_ready_vectors_and_similar_documents_have_pages(tmp_path: Path, index: Index) -> None:
    with Index.create(tmp_path / "my.idx", "vectors", vocab=3) as ready:
        ready.add_vectors(["a", "b", "c"], np.eye(3, dtype=np.float32) + 1)
        one, other = np.array([[1, 0, 2]], np.float32), np.array([[1, 2, 0]], np.float32)
        first = ready.search_vectors(one, k=2)
        after = ready.search_vectors(one, k=2, cursor=first.cursor)
        assert hits(first, after) == hits(ready.search_vectors(one, k=3))
        with pytest.raises(InputError, match="another query"):
            ready.search_vectors(other, k=2, cursor=first.cursor)
    like = index.similar("d1", 5)
    assert hits(like, index.similar("d1", 5, cursor=like.cursor)) == hits(index.similar("d1", 10))


def test_queries_of_a_batch_have_cursors_of_their_own(index: Index) -> None:
    cats, dogs = index.search_batch(["cats", "dogs"], 5)
    assert cats.cursor != dogs.cursor
    assert next(index.rank([Query("q", "dogs")], 5, cursor=dogs.cursor)).ids == index.search("dogs", 10).ids[5:]


def test_a_page_at_a_depth_of_ten_thousand_works(tmp_path: Path) -> None:
    with Index.create(tmp_path / "my.idx", "vectors", vocab=2) as index:
        weights = np.arange(1, 24_001, dtype=np.float32).reshape(-1, 2) / 100
        index.add_vectors([f"d{at:05}" for at in range(12_000)], weights)
        page = index.search_vectors(np.array([[1, 1]], np.float32), k=3, offset=10_000)
        every = index.search_vectors(np.array([[1, 1]], np.float32), k=12_000)
        assert page.ids == every.ids[10_000:10_003]
        assert page.cursor is not None
