"""An Index, a Cluster, a Client and the asynchronous ones have the same verbs: the same tests run against each.

What is expected is what an Index returns. That an Index returns the right thing is tested elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import denslice as ds
from denslice import Clause, InputError, Query
from front_doors import DOORS, OVER_HTTP, Door, FrontDoors

pytest.importorskip("ray")
pytest.importorskip("httpx")

LONG = "\n\n".join(f"# Part {at}\n\n" + f"The heron{at} waits. Rivers rise at dawn. " * 40 for at in range(12))
ODD_IDS = ["später/ß 1", "日本語", "..", ".", "a/../b", "100%", "?q=1&k=2#top", "owl", "owl/similar", "🦊 fox", "+1"]
DOCS: list[dict[str, Any]] = [
    {"id": "fox", "title": "The red fox", "text": "A red fox sleeps by day.", "year": 2020, "lang": "en"},
    {"id": "dog", "title": "", "text": "A dog barks at the red door, and a fox runs.", "year": 2021, "lang": "en"},
    {"id": "long", "title": "Herons", "text": LONG, "year": 2021, "tags": ["bird", "river"], "rank": 0.1},
    {"id": "none", "text": "", "title": "An empty text"},
    *(
        {"id": id, "text": f"An odd identifier, number{at}, of a fox.", "year": 2000 + at}
        for at, id in enumerate(ODD_IDS)
    ),
    *({"id": f"d{at}", "text": f"Herons and rivers {'dawn ' * (at % 4)}only{at}", "year": at % 3} for at in range(30)),
]
FEW: list[dict[str, Any]] = [{"id": "1", "text": "a red fox"}, {"id": "2", "text": "an owl"}]
assert len(LONG) > 10_000  # a server sends only a part of it


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontDoors]:
    yield from _opened(tmp_path_factory, DOCS, ["year", "lang"])


@pytest.fixture(scope="module")
def writable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontDoors]:
    yield from _opened(tmp_path_factory, FEW, [])


def _opened(folders: pytest.TempPathFactory, docs: list[dict[str, Any]], filterable: list[str]) -> Iterator[FrontDoors]:
    opened = FrontDoors(folders.mktemp("doors"), docs, filterable)
    yield opened
    opened.close()


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest, doors: FrontDoors) -> Door:
    return doors[request.param]


@pytest.fixture
def index(doors: FrontDoors) -> Door:
    return doors["index"]


def same(found: ds.Ranking, expected: ds.Ranking) -> None:
    """The hits are the same, and so is everything that they hold. Sums of shards may differ in the last bit."""
    assert found.ids == expected.ids
    assert found.scores == pytest.approx(expected.scores, rel=1e-5)
    assert (found.query_id, found.passages, found.missing, found.exact) == (
        expected.query_id,
        expected.passages,
        (),
        expected.exact,
    )
    for one, other in zip(found, expected, strict=True):
        assert (one.id, one.title, one.text, one.meta) == (other.id, other.title, other.text, other.meta)
        assert (one.lexical, one.dense) == pytest.approx((other.lexical, other.dense), rel=1e-5)
        assert [_place(passage) for passage in one.passages] == [_place(passage) for passage in other.passages]


def _place(passage: Any) -> tuple[Any, ...]:
    score = pytest.approx(passage.score, rel=1e-5)
    return (passage.number, passage.text, passage.start, passage.end, passage.heading, passage.document_length, score)


def explained_alike(found: ds.Explanation, expected: ds.Explanation) -> None:
    assert (found.id, found.passage, found.conditions) == (expected.id, expected.passage, expected.conditions)
    assert found.corrections == expected.corrections
    assert [term.token for term in found.terms] == [term.token for term in expected.terms]
    for name in ("score", "lexical", "dense", "best", "mean"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-5)


# --- searching


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ("red fox", {}),
        ("heron3 rivers dawn", {"k": 3}),
        ("heron3 rivers", {"k": 4, "group": False}),
        ("herons", {"k": 5, "where": {"year": {"gte": 1}}, "mode": "lexical"}),
        ("fox", {"where": {"lang": "en", "not": {"year": 2021}}}),
        ("fox", {"where": {"id": {"in": ["日本語", "..", "fox"]}}}),
        ("herons", {"k": 4, "offset": 3, "min_score": 0.05}),
        ("herons", {"k": 6, "sort_by": "-year"}),
        ("herons", {"k": 2, "group_by": "year", "per_group": 3}),
        ("heronz", {"fuzzy": False}),
        ("heronz rivrs", {"k": 3}),
        ('"red fox" OR "red door" -barks', {}),
        ("lang:en fox*", {}),
        (Query("q1", "fox", must_not=["dog"], phrases=["red fox"]), {}),
        (Query(text="", must=[[Clause("her", "prefix"), "fox"]], should=[Clause("foxx", "fuzzy")]), {"k": 4}),
        ("", {}),
        ("ein Fuchs 日本語 🦊", {}),
        ("herons", {"candidates": 70, "lam": 2.0}),
    ],
)
def test_a_search_returns_the_hits_of_an_index(door: Door, index: Door, asked: Any, options: dict[str, Any]) -> None:
    expected = index.search(asked, **options)
    same(door.search(asked, **options), expected)
    assert [one.ids for one in door.search_batch([asked], **options)] == [expected.ids]


def test_at_least_one_hit_of_the_searches_above_is_a_part_of_a_long_text(index: Door) -> None:
    found = index.search("heron3 rivers", 4, group=False)
    assert "long" in found.ids
    assert all(len(hit.text) < len(LONG) for hit in found)
    assert index.search("heron3 rivers dawn", 3)[0].text == LONG


@pytest.mark.parametrize("name", OVER_HTTP[:2])
def test_over_http_not_a_bit_is_lost(doors: FrontDoors, index: Door, name: str) -> None:
    for options in ({}, {"group": False}):
        found, expected = doors[name].search("heron3 red fox", **options), index.search("heron3 red fox", **options)
        assert found == expected
        assert list(found) == list(expected)
        assert found.explain("long") == expected.explain("long")


def test_a_batch_of_more_queries_than_a_request_takes_returns_a_ranking_for_each(door: Door, index: Door) -> None:
    asked = [f"only{at % 30} herons" for at in range(70)]
    found = door.search_batch(asked, 2)
    assert [one.ids for one in found] == [one.ids for one in index.search_batch(asked, 2)]
    assert door.search_batch([]) == []


def test_similar_documents_are_those_of_an_index(door: Door, index: Door) -> None:
    for id, options in (("fox", {}), ("日本語", {"where": {"year": {"lt": 2005}}}), ("owl/similar", {"k": 2})):
        found, expected = door.similar(id, **options), index.similar(id, **options)
        same(found, expected)
        explained_alike(found.explain("dog"), expected.explain("dog"))


def test_facets_counts_and_pages_are_those_of_an_index(door: Door, index: Door) -> None:
    found, expected = (one.search("herons", 8, facets=["year", "lang"]) for one in (door, index))
    assert found.facets == expected.facets
    assert list(found.facets["year"]) == list(expected.facets["year"])
    assert found.matching == expected.matching == 31
    assert door.search("fox -barks").matching == index.search("fox -barks").matching > 5
    pages, cursor = list(found.ids), found.cursor
    while cursor is not None:
        page = door.search("herons", 8, cursor=cursor)
        pages += page.ids
        cursor = page.cursor
    assert tuple(pages) == index.search("herons", 100).ids
    with pytest.raises(InputError, match="cursor is of another query"):
        door.search("rivers", 8, cursor=found.cursor)


def test_scores_are_explained_as_by_an_index(door: Door, index: Door) -> None:
    for asked, options in (("red fox -dog", {}), ("heronz dawn", {"k": 3}), ("rivers", {"k": 3, "group": False})):
        found, expected = door.search(asked, **options), index.search(asked, **options)
        for one, other in zip(found.explanations(), expected.explanations(), strict=True):
            explained_alike(one, other)
        explained_alike(door.explain(found, "none"), index.explain(expected, "none"))
        explained_alike(door.explain(asked, "fox", mode="lexical"), index.explain(asked, "fox", mode="lexical"))
    explained_alike(door.explain("dawn", "long", passage=2), index.explain("dawn", "long", passage=2))


def test_words_are_corrected_marked_and_completed_as_by_an_index(door: Door, index: Door) -> None:
    for options in ({}, {"group": False}):
        found, expected = door.search("heronz red fox", 5, **options), index.search("heronz red fox", 5, **options)
        assert found.corrections == expected.corrections != ()
        assert found.tokens() == expected.tokens()
        assert [hit.highlights for hit in found] == [hit.highlights for hit in expected]
        assert any(hit.highlights for hit in found)
    if hasattr(door, "suggest"):
        assert door.suggest("red her", 3) == index.suggest("red her", 3) != []


# --- documents


@pytest.mark.parametrize("id", [*ODD_IDS, "long", "none", 7, "not there", "", "\ud800", "x" * 900])
def test_a_document_is_returned_whole_by_any_id(door: Door, index: Door, id: Any) -> None:
    assert door.get(id) == index.get(id)
    if hasattr(door, "places"):
        assert door.places(id) == index.places(id)


def test_the_description_tells_what_an_index_tells(door: Door, index: Door) -> None:
    found, expected = door.info(), index.info()
    for name in ("documents", "encoder", "filterable", "dimensions", "slices", "languages", "quick"):
        assert getattr(found, name) == getattr(expected, name) == found[name] or name == "filterable"


# --- wrong input


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda door: door.search("fox", k=0), "k must be a whole number"),
        (lambda door: door.search("fox", mode="fast"), "mode must be one of"),
        (lambda door: door.search("fox", where={"year": {"above": 3}}), "above"),
        (lambda door: door.search("fox", where=["year"]), "where"),
        (lambda door: door.search("fox", facets=["tags"]), "not filterable"),
        (lambda door: door.search("fox", cursor="AAAA"), "cursor"),
        (lambda door: door.search("fox", mode="dense"), "dense vectors"),
        (lambda door: door.search(7), "query 0 is int"),
        (lambda door: door.search_batch("fox"), "takes a list of texts"),
        (lambda door: door.similar("not there"), "document"),
        (lambda door: door.explain("fox", "not there"), "document"),
        (lambda door: door.explain("fox", "fox", passage=9), "has no passage 9"),
        (lambda door: door.get(None), "expected a string or a whole number"),
        (lambda door: door.add([{"text": "no id"}]), "document 0: no id"),
        (lambda door: door.add([{"id": "1", "text": "a"}, {"id": "1", "text": "b"}]), "given twice"),
        (lambda door: door.add([{"id": "1", "text": "\ud800"}]), "surrogate"),
        (lambda door: door.add([{"id": "1", "text": "a"}], level="deep"), "level"),
        (lambda door: door.add({"id": "1"}), "in a list"),
        (lambda door: door.delete("fox"), "ids come in a list"),
    ],
)
def test_wrong_input_is_an_input_error_that_says_what_is_wrong(
    door: Door, call: Callable[[Door], object], told: str
) -> None:
    before = door.generation
    with pytest.raises(InputError, match=told):
        call(door)
    assert door.generation == before


def test_an_unknown_option_is_a_type_error(door: Door) -> None:
    with pytest.raises(TypeError, match="caution"):
        door.search("fox", caution=1.0)


def test_a_filter_on_a_field_that_no_document_has_is_warned_of(door: Door) -> None:
    with pytest.warns(ds.DensliceWarning, match="yaer"):
        assert door.search("fox", where={"yaer": 2020}).ids == ()


# --- writing


@pytest.mark.parametrize("name", DOORS)
def test_writes_are_seen_by_the_next_search_down_to_no_document_and_up_again(writable: FrontDoors, name: str) -> None:
    door = writable[name]
    door.add(FEW)
    first = door.generation
    assert door.add(iter([{"id": "3", "text": "a blue fox"}, {"id": "1", "text": "a red deer"}])) == 2
    assert door.generation > first
    assert sorted(door.search("red blue fox").ids) == ["1", "3"]
    assert door.get("1") == ds.Doc("1", "a red deer")
    assert door.delete(["2", "3", "not there"]) == 2
    assert (door.search("deer").ids, door.search("fox", fuzzy=False).ids) == (("1",), ())  # one document
    assert door.delete(["1"]) == 1
    empty = door.search("red fox")
    assert (empty.ids, list(empty), empty.matching, empty.cursor, empty.explanations()) == ((), [], 0, None, [])
    assert (door.get("1"), door.info().documents, door.search_batch(["fox"])[0].ids) == (None, 0, ())
    with pytest.raises(InputError, match="document"):
        door.explain("fox", "1")
    counted: list[int] = []
    assert door.add([ds.Doc("neu/ä", "ein Fuchs", "Titel", {"n": [1, None, {"x": 0.5}]})], progress=counted.append) == 1
    assert sum(counted) == 1
    assert door.search("Fuchs")[0].meta == {"n": [1, None, {"x": 0.5}]}
    assert (door.add([]), door.delete(["neu/ä"])) == (0, 1)
