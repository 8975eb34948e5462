"""Several indexes searched together: what one index of all documents returns, or an error that says what differs."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import assert_one_line, denslice
from denslice import Index, Indexes, InputError, Query, Ranking, open_index, open_indexes
from denslice.index.create import new_manifest
from denslice.options import IndexOptions
from denslice.store import snapshot
from serving import live

LONG = "\n\n".join(
    f"## Part {number}\n\n" + f"The keeper of zoo {number} feeds foxes and owls. " * 30 for number in range(4)
)
DOCS: dict[str, list[dict[str, Any]]] = {
    "animals": [
        {"id": "1", "title": "Foxes", "text": "Foxes sleep by day and hunt by night.", "year": 2020, "kind": "mammal"},
        {"id": "2", "title": "Owls", "text": "Owls hunt at night.", "year": 2021, "kind": "bird"},
        {"id": "3", "title": "Zoos", "text": LONG, "year": 2019, "kind": "place"},
        {"id": "4", "text": "Der Fuchs schläft am Tag in seinem Bau und jagt in der Nacht.", "year": 2022},
    ],
    "kitchen": [
        {"id": "1", "title": "Bread", "text": "Bread is baked in a hot oven.", "year": 2020, "kind": "food"},
        {"id": "2", "text": "Owls hunt at night.", "year": 2021, "kind": "bird"},
        {"id": "5", "text": "A receipe for soup: receive carrots, sleep, then cook them by day.", "year": 2018},
    ],
    "empty": [],
}


def made(folder: Path, docs: Sequence[Mapping[str, Any]], encoder: str = "mini", **options: Any) -> Path:
    with Index.create(folder, encoder, filterable=["year", "kind"], **options) as index:
        index.add(docs)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("several")
    return [made(place / f"{name}.idx", docs) for name, docs in DOCS.items()]


@pytest.fixture(scope="module")
def several(folders: list[Path]) -> Iterator[Indexes]:
    with open_indexes(folders) as indexes:
        yield indexes


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Index:
    docs = [{**doc, "id": f"{name}:{doc['id']}"} for name, some in DOCS.items() for doc in some]
    return open_index(made(tmp_path_factory.mktemp("whole") / "all.idx", docs))


def assert_same(found: Ranking, expected: Ranking) -> None:
    assert found.ids == expected.ids
    assert found.passages == expected.passages
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)
    assert [(hit.text, hit.title, hit.meta) for hit in found] == [(hit.text, hit.title, hit.meta) for hit in expected]
    assert [hit.highlights for hit in found] == [hit.highlights for hit in expected]
    assert found.corrections == expected.corrections
    assert found.exact == expected.exact
    assert (found.matching, found.facets) == (expected.matching, expected.facets)
    assert (found.cursor is None) == (expected.cursor is None)


# --- the ranking of the whole


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("foxes sleep at night", {}),
        ("foxes sleep at night", {"mode": "lexical"}),
        ("where do animals rest", {"mode": "dense"}),
        ("owls hunt", {"k": 1, "offset": 1}),
        ("fuchs", {}),
        ("owls reciep", {"mode": "lexical"}),  # a misspelt word
        ("owls reciep", {"mode": "lexical", "fuzzy": False}),
        ("nothingofthekind", {"mode": "lexical"}),
        ("keeper feeds owls", {"group": False, "k": 4}),
        ('"hunt at night"', {}),
        ("+owls -bread", {}),
        ("title:owls night", {}),
        ("slee* baked~", {}),
        ("kind:bird", {}),
        ("hunt", {"where": {"year": {"gte": 2021}}}),
        ("hunt", {"where": {"id": "kitchen:2"}}),
        ("hunt", {"where": {"not": {"id": {"in": ["kitchen:2", "animals:1"]}}}}),
        ("hunt", {"where": {"and": [{"id": {"gt": "animals:1"}}, {"id": {"lte": "kitchen:2"}}]}}),
        ("hunt", {"where": {"or": [{"id": {"ne": "animals:2"}, "year": 2021}, {"id": "1"}]}}),
        ("hunt by day", {"facets": ["year", "kind"]}),
        ("hunt by day", {"sort_by": "-year"}),
        ("hunt by day", {"group_by": "kind", "per_group": 2}),
        ("hunt by day", {"min_score": 8.0}),
    ],
)
def test_the_ranking_is_that_of_one_index_of_all_documents(
    several: Indexes, whole: Index, text: str, options: dict[str, Any]
) -> None:
    assert_same(several.search(text, **options), whole.search(text, **options))


def test_most_of_these_searches_find_documents_of_both(several: Indexes) -> None:
    names = {id.partition(":")[0] for id in several.search("hunt by day").ids}
    assert names == {"animals", "kitchen"}


def test_explanations_are_those_of_one_index(several: Indexes, whole: Index) -> None:
    found, expected = (one.search("foxes sleep at night in a zoo", k=5) for one in (several, whole))
    for why, told in zip(found.explanations(), expected.explanations(), strict=True):
        assert (why.id, why.passage) == (told.id, told.passage)
        assert why.score == pytest.approx(told.score)
        assert sum(term.contribution for term in why.terms) + why.dense == pytest.approx(why.score, rel=1e-5)
        both = [{term.token: pytest.approx(term.contribution) for term in one.terms} for one in (why, told)]
        assert both[0].keys() == both[1].keys()
        assert {term.token: term.contribution for term in why.terms} == both[1]


def test_similar_documents_and_completions_are_those_of_one_index(several: Indexes, whole: Index) -> None:
    for id in ("animals:2", "kitchen:5"):
        assert_same(several.similar(id, k=3), whole.similar(id, k=3))
    for typed in ("h", "foxes s", "re"):
        assert several.suggest(typed) == whole.suggest(typed)


def test_a_word_has_the_id_of_the_first_index_that_has_it_whatever_was_looked_up_before(several: Indexes) -> None:
    words = several.reader.snapshot.words
    words.remember(range(len(words)))
    first: dict[str, int] = {}
    for id in range(len(words)):
        first.setdefault(words.word(id), id)
    assert len(first) < len(words)
    assert {word: words.find(word) for word in first} == first


def test_pages_go_on_where_the_one_before_ended(several: Indexes) -> None:
    first = several.search("hunt by day", k=2)
    second = several.search("hunt by day", k=2, cursor=first.cursor)
    assert first.ids + second.ids == several.search("hunt by day", k=4).ids


WORDS = st.sampled_from(["fox", "owl", "night", "day", "hunt", "sleeping", "sleep", "oven"])
TEXTS = st.lists(st.lists(WORDS, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=8)


@given(
    texts=TEXTS,
    owners=st.lists(st.integers(0, 2), min_size=8, max_size=8),
    query=st.lists(WORDS, min_size=1, max_size=4),
)
@settings(max_examples=12, deadline=None, database=None, derandomize=True)
def test_however_a_collection_is_split_the_ranking_is_that_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], owners: list[int], query: list[str]
) -> None:
    place = tmp_path_factory.mktemp("split")
    docs = [(f"part{owners[at]}", str(at), text) for at, text in enumerate(texts)]
    parts = [f"part{number}" for number in range(3)]
    split = [
        made(place / part, [{"id": id, "text": text} for own, id, text in docs if own == part], "bm25")
        for part in parts
    ]
    joined = made(place / "all", [{"id": f"{own}:{id}", "text": text} for own, id, text in docs], "bm25")
    with open_indexes(split) as several, open_index(joined) as whole:
        found, expected = (one.search(" ".join(query), k=10) for one in (several, whole))
        assert found.ids == expected.ids
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6)


# --- ids and documents


def test_documents_are_read_by_their_qualified_ids(several: Indexes) -> None:
    doc = several.get("kitchen:1")
    assert doc is not None
    assert (doc.id, doc.title) == ("kitchen:1", "Bread")
    assert several.get("1") is several.get("kitchen:7") is several.get("nowhere:1") is None
    assert len(several.places("animals:3") or []) > 1
    assert [doc.id for doc in several.docs()] == [f"{name}:{doc['id']}" for name, some in DOCS.items() for doc in some]
    assert len(several) == 7
    with pytest.raises(InputError, match="no document '1' in these indexes; an id is NAME:ID"):
        several.explain("foxes", "1")


def test_names_come_from_folders_or_are_given(folders: list[Path], several: Indexes) -> None:
    assert several.names == ("animals", "kitchen", "empty")
    with open_indexes({"a": folders[0], "b": folders[0]}) as twice:
        assert set(twice.search("owls", k=2).ids) == {"a:2", "b:2"}
    for wrong in ("", "a:b"):
        with pytest.raises(InputError, match="cannot be the name of an index"):
            open_indexes({wrong: folders[0]})


def test_folders_of_one_name_are_refused(folders: list[Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"would both be named 'animals'.*in Python give"):
        open_indexes([folders[0], tmp_path / "animals"])


def test_one_path_alone_is_not_a_list(folders: list[Path]) -> None:
    with pytest.raises(InputError, match="takes a list of paths"):
        open_indexes(str(folders[0]))
    with pytest.raises(InputError, match="there is no index to open"):
        open_indexes([])


def test_what_it_says_of_itself_counts_all(several: Indexes, whole: Index) -> None:
    info, expected = several.info(), whole.info()
    for name in ("documents", "passages", "encoder", "filterable", "dimensions", "languages", "weights", "slices"):
        assert info[name] == expected[name]
    assert repr(several) == "<Indexes animals, kitchen, empty: 7 documents, mini>"


def test_it_can_be_pickled(several: Indexes) -> None:
    with pickle.loads(pickle.dumps(several)) as again:
        assert again.search("owls").ids == several.search("owls").ids


# --- changes


def test_nothing_can_be_written(several: Indexes) -> None:
    with pytest.raises(InputError, match="read-only; open one of them to add to it"):
        several.add([{"id": "x", "text": "x"}])
    with pytest.raises(InputError, match="read-only; open one of them to delete from it"):
        several.delete(["animals:1"])


def test_it_moves_on_to_new_commits(tmp_path: Path) -> None:
    one, two = (made(tmp_path / name, [{"id": "1", "text": "fox"}], "bm25") for name in ("one", "two"))
    with open_indexes([one, two]) as several, open_index(two) as writer:
        assert several.refresh() is False
        before = several.search("fox", k=1)
        writer.add([{"id": "2", "text": "a fox and an owl"}])
        assert several.search("owl").ids == ()
        assert several.refresh() is True
        assert several.search("owl").ids == ("two:2",)
        assert [(hit.id, hit.text) for hit in before] == [("one:1", "fox")]
        with pytest.raises(InputError, match="another commit"):
            several.search("fox", k=1, cursor=before.cursor)


# --- what does not compare


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ({}, {"encoder": "mini"}, "encoder is 'bm25' in one and 'mini' in the other"),
        ({}, {"options": {"k1": 1.2}}, "k1 is 0.9 in one and 1.2 in the other"),
        ({"language": "german"}, {"language": "english"}, "language is 'german' in one and 'english' in the other"),
        ({}, {"slices": 16}, "slices is None in one and 16 in the other"),
        ({"slices": 16}, {"slices": 16}, "each assigns tokens to slices in its own way"),
        ({"skip": 3}, {"skip": 3}, "each assigns tokens to slices in its own way"),
        ({"phrases": 0.3}, {}, "phrases is 0.3 in one and 0.0 in the other"),
    ],
)
def test_indexes_whose_scores_do_not_compare_are_refused(
    tmp_path: Path, one: dict[str, Any], other: dict[str, Any], told: str
) -> None:
    for name, options in (("one", one), ("other", other)):
        Index.create(tmp_path / name, **{"encoder": "bm25", **options})
    with pytest.raises(InputError, match=f"{told}.*index one of them again"):
        open_indexes([tmp_path / "one", tmp_path / "other"])


def test_another_edition_of_a_model_is_named(folders: list[Path], tmp_path: Path) -> None:
    manifest = new_manifest(IndexOptions("mini"))
    earlier = {**manifest.encoder_options, "fingerprint": "0" * 64}
    snapshot.create(tmp_path / "earlier", replace(manifest, encoder_options=earlier))
    with pytest.raises(InputError, match="another model, or another edition of it"):
        open_indexes([folders[0], tmp_path / "earlier"])


def test_ready_vectors_of_the_same_columns_and_slices_are_searched_together(tmp_path: Path) -> None:
    rows = sp.csr_array(np.array([[1, 0, 2, 0], [0, 3, 0, 1], [2, 2, 0, 0]], dtype=np.float32))
    names = ("a", "b", "all")
    parts = {name: Index.create(tmp_path / name, "vectors", vocab=4, slices=2, slicing="stride") for name in names}
    parts["a"].add_vectors(["0", "1"], rows[:2])
    parts["b"].add_vectors(["2"], rows[2:])
    parts["all"].add_vectors(["a:0", "a:1", "b:2"], rows)
    with open_indexes([tmp_path / "a", tmp_path / "b"]) as several:
        found, expected = (one.search_vectors(rows[[2]]) for one in (several, parts["all"]))
        assert (found.ids, found.scores) == (expected.ids, expected.scores)
    other = Index.create(tmp_path / "c", "vectors", vocab=4, slices=2, slicing="contiguous")
    other.add_vectors(["0"], rows[:1])
    with pytest.raises(InputError, match="each assigns tokens to slices in its own way"):
        open_indexes([tmp_path / "a", tmp_path / "c"])


def test_tokens_of_ready_vectors_are_compared_by_name(tmp_path: Path) -> None:
    one, two = ({"id": "1", "vector": {"fox": 2.0, "owl": 1.0}}, {"id": "1", "vector": {"owl": 3.0, "bread": 1.0}})
    for name, doc in (("one", one), ("two", two)):
        Index.create(tmp_path / name, "vectors").add([doc])
    with open_indexes([tmp_path / "one", tmp_path / "two"]) as several:
        (found,) = several.rank([Query("q", vector={"owl": 1.0, "fox": 1.0})], k=10)
        assert (set(found.ids), found.scores) == ({"one:1", "two:1"}, (3.0, 3.0))


def test_a_field_counts_as_filterable_if_it_is_in_every_index(tmp_path: Path) -> None:
    one = made(tmp_path / "one", [{"id": "1", "text": "fox", "year": 2020, "size": 3}], "bm25")
    two = tmp_path / "two"
    Index.create(two, "bm25", filterable=["size", "year"]).add([{"id": "1", "text": "fox", "year": 2021, "size": 4}])
    with open_indexes([one, two]) as several:
        assert several.search("fox", facets=["year"]).facets == {"year": {2020: 1, 2021: 1}}
        assert several.search("fox", where={"size": 4}).ids == ("two:1",)  # filters need no table
        with pytest.raises(InputError, match="'size', which is not filterable"):
            several.search("fox", facets=["size"])


# --- serving


def test_the_server_serves_several(several: Indexes, folders: list[Path]) -> None:
    with live(several) as running:
        (result,) = running.search("owls hunt", k=2, explain=True).json()["results"]
        assert {hit["id"] for hit in result["hits"]} == {"animals:2", "kitchen:2"}
        assert running.ask("/documents/kitchen:1").json()["title"] == "Bread"
        assert running.ask("/documents/animals:2/similar?k=1").json()["hits"][0]["id"] == "kitchen:2"
        assert running.ask("/index").json()["documents"] == 7
        assert [one["id"] for one in running.ask("/v1/models").json()["data"]] == ["mini", "mini:query"]
        assert running.ask("/search", {"query": "x", "cursor": "wrong"}).status == 422


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--writable", "--api-key", "x" * 16], "--writable: several indexes are only read"),
        (["--ray", "local"], "--ray: several indexes are only read"),
        (["--deepen", "0.5", "--port", "0"], "--deepen: several indexes are read-only"),
    ],
)
def test_serve_refuses_what_needs_one_index(folders: list[Path], flags: list[str], told: str) -> None:
    assert_one_line(denslice("serve", *folders[:2], *flags), told)
