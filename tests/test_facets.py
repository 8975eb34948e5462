"""Facets, sort_by, group_by and min_score equal plain definitions over every hit, in one index and in shards."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import assert_one_line, denslice, write_docs
from denslice import Doc, Hit, Index, InputError, Ranking
from denslice.index.match_requests import AskedOf, MatchRequest
from denslice.index.reader import Reader
from denslice.index.result_pages import arranged_page, match_counts
from denslice.index.writer import Writer
from denslice.options import SearchOptions
from denslice.queries import Query
from denslice.search.cpu import two_stage
from denslice.vectors import Encoded, lexical_csr

VOCAB, FIELD = 6, "year"
WEIGHTS = st.integers(0, 8).map(lambda n: n / 4)  # sums and products of these are exact in float32
SCALARS = st.sampled_from([1, 2, 2.5, 10, "1", "b", "é", True, None])
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.just("nothing"))
Rows = npt.NDArray[np.float32]


@pytest.fixture(params=["numpy", "compiled loops"], scope="module", autouse=True)
def _small_indexes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small indexes searched as they are shipped to be, and as larger ones are."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "compiled loops":
            patch.setattr(two_stage, "SMALL_INDEX", 0)
        yield


@dataclass(frozen=True)
class Made:
    """Documents with weights, dense vectors and a field, and a query."""

    weights: Rows
    dense: Rows
    metas: list[dict[str, Any]]
    query: Rows
    vector: Rows

    def index(self, folder: Path, name: str = "my.idx", chosen: Sequence[int] | None = None) -> Index:
        """An index of the documents, or of those chosen, in two segments and with one deleted document."""
        index = Index.create(folder / name, "vectors", vocab=VOCAB, filterable=[FIELD])
        rows = list(range(len(self.metas))) if chosen is None else list(chosen)
        for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            docs = [Doc(f"d{at}", meta=self.metas[at]) for at in part] + [Doc(f"gone{part[:1]}", meta={FIELD: 1})]
            weights = np.concatenate([self.weights[part], np.ones((1, VOCAB), np.float32)])
            batch = (docs, Encoded(lexical_csr(weights, VOCAB), np.concatenate([self.dense[part], np.ones((1, 2))])))
            index.write(partial(Writer.add_encoded, batches=[batch]), 10.0)
        index.delete([doc.id for doc in index.docs() if doc.id.startswith("gone")])
        return index

    def search(self, index: Index, **options: Any) -> Ranking:
        """The ranking of the query."""
        return index.search_vectors(self.query[None], dense=self.vector, **options)

    def every(self, index: Index, **options: Any) -> list[Hit]:
        """Every hit, best first."""
        return list(self.search(index, k=1_000, **options))

    def matching(self) -> list[str]:
        """The ids of documents that match, by the definition."""
        having = (self.weights[:, self.query > 0] > 0).any(axis=1)
        return [f"d{at}" for at in np.flatnonzero(having | (not self.query.any())).tolist()]


@st.composite
def made(draw: st.DrawFn) -> Made:
    count = draw(st.integers(1, 14))

    def numbers(rows: int, columns: int) -> Rows:
        flat = draw(st.lists(WEIGHTS, min_size=rows * columns, max_size=rows * columns))
        return np.array(flat, np.float32).reshape(rows, columns)

    given = draw(st.lists(VALUES, min_size=count, max_size=count))
    metas = [{} if value == "nothing" else {FIELD: value} for value in given]
    return Made(numbers(count, VOCAB), numbers(count, 2) - 1, metas, numbers(1, VOCAB)[0], numbers(1, 2)[0])


class Shards:
    """Several readers that answer as the shards of a cluster do."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self.readers, self.commit = readers, "-"

    def gather(self, request: MatchRequest) -> tuple[Sequence[Any], tuple[str, ...]]:
        return [request.answer(reader) for reader in self.readers], ()


def kind(value: object) -> int:
    """The order of the kinds of values: booleans, numbers, strings."""
    return 0 if isinstance(value, bool) else 2 if isinstance(value, str) else 1


def scalars(meta: Mapping[str, Any]) -> list[Any]:
    """The values of a document that are not null."""
    value = meta.get(FIELD)
    return [one for one in (value if isinstance(value, list) else [value]) if one is not None]


def different(meta: Mapping[str, Any]) -> set[tuple[int, Any]]:
    """The different values of a document with their kinds, null among them."""
    value = meta.get(FIELD, [])
    return {(kind(one), one) for one in (value if isinstance(value, list) else [value])}


def counted(metas: Sequence[Mapping[str, Any]]) -> dict[Any, int]:
    """How many documents have each value: the definition of a facet."""
    return dict(Counter(value for meta in metas for _, value in different(meta)))


def sorted_plainly(hits: Sequence[tuple[str, float]], metas: Mapping[str, Any], descending: bool) -> list[str]:
    """The ids in the order of the field: the definition of sort_by."""
    best = sorted(hits, key=lambda hit: (-hit[1], hit[0]))
    pick = max if descending else min
    keys = {id: pick((kind(one), one) for one in scalars(metas[id])) for id, _ in hits if scalars(metas[id])}
    having = sorted((id for id, _ in best if id in keys), key=keys.__getitem__, reverse=descending)
    return [*having, *(id for id, _ in best if id not in keys)]


def grouped_plainly(hits: Sequence[Hit], k: int, n: int) -> list[str]:
    """The ids of the n best of each of the k best groups: the definition of group_by."""
    groups: dict[Any, list[str]] = {}
    for hit in hits:
        values = scalars(hit.meta)
        groups.setdefault((kind(values[0]), values[0]) if values else hit.id, []).append(hit.id)
    return [id for ids in list(groups.values())[:k] for id in ids[:n]]


@settings(max_examples=20, deadline=None)
@given(data=made())
def test_facets_equal_a_plain_count_over_matching_documents(data: Made) -> None:
    with tempfile.TemporaryDirectory() as folder, data.index(Path(folder)) as index:
        found = data.search(index, k=2, facets=[FIELD])
        matching = data.matching()
        expected = counted([data.metas[int(id[1:])] for id in matching])
        assert dict(found.facets[FIELD]) == expected
        assert found.matching == len(matching) == data.search(index, k=1).matching
        counts = list(found.facets[FIELD].values())
        assert counts == sorted(counts, reverse=True)


@settings(max_examples=20, deadline=None)
@given(data=made(), descending=st.booleans(), k=st.integers(1, 5), mode=st.sampled_from(["lexical", "hybrid"]))
def test_sort_by_equals_sorting_every_matching_document(data: Made, descending: bool, k: int, mode: str) -> None:
    by = f"-{FIELD}" if descending else FIELD
    with tempfile.TemporaryDirectory() as folder, data.index(Path(folder)) as index:
        scores = {hit.id: hit.score for hit in data.every(index, mode=mode)}
        hits = [(id, scores.get(id, 0.0)) for id in data.matching()]
        metas = {f"d{at}": meta for at, meta in enumerate(data.metas)}
        expected = sorted_plainly(hits, metas, descending)
        assert list(data.search(index, k=k, sort_by=by, mode=mode).ids) == expected[:k]
        page = data.search(index, k=k, offset=k, sort_by=by, mode=mode)
        assert list(page.ids) == expected[k : 2 * k]
        assert list(page.scores) == [dict(hits)[id] for id in page.ids]
        high = [id for id in expected if dict(hits)[id] >= 1.5]
        assert list(data.search(index, k=50, sort_by=by, mode=mode, min_score=1.5).ids) == high


@settings(max_examples=20, deadline=None)
@given(data=made(), k=st.integers(1, 5), n=st.integers(1, 3), mode=st.sampled_from(["lexical", "hybrid"]))
def test_group_by_equals_grouping_every_hit(data: Made, k: int, n: int, mode: str) -> None:
    with tempfile.TemporaryDirectory() as folder, data.index(Path(folder)) as index:
        every = data.every(index, mode=mode)
        found = data.search(index, k=k, group_by=FIELD, per_group=n, mode=mode)
        assert list(found.ids) == grouped_plainly(every, k, n)
        assert list(found.scores) == [{hit.id: hit.score for hit in every}[id] for id in found.ids]
        high = [hit for hit in every if hit.score >= 1.5]
        least = data.search(index, k=k, group_by=FIELD, per_group=n, mode=mode, min_score=1.5)
        assert list(least.ids) == grouped_plainly(high, k, n)


@settings(max_examples=10, deadline=None)
@given(data=made(), k=st.integers(1, 4), n=st.integers(1, 2), owners=st.lists(st.integers(0, 2), min_size=14))
def test_shards_count_sort_and_group_as_the_whole_does(data: Made, k: int, n: int, owners: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole = data.index(Path(folder)).reader
        parts = [[at for at in range(len(data.metas)) if owners[at] == shard] for shard in range(3)]
        shards = Shards([data.index(Path(folder), str(at), part).reader for at, part in enumerate(parts)])
        encoded = whole.ready_one(data.query[None], data.vector[None])
        for options in (
            SearchOptions(k, sort_by=f"-{FIELD}", facets=[FIELD]),
            SearchOptions(k, offset=1, group_by=FIELD, per_group=n),
        ):
            asked = AskedOf(Query(""), whole.query_vectors(encoded, options)[0], options)
            ours, theirs = arranged_page(shards, asked), arranged_page(whole, asked)
            assert (ours.found.ids, ours.has_more) == (theirs.found.ids, theirs.has_more)
            assert ours.found.scores.tolist() == theirs.found.scores.tolist()
            assert match_counts(shards, asked) == match_counts(whole, asked)


@settings(max_examples=15, deadline=None)
@given(data=made(), operator=st.sampled_from(["eq", "gt", "gte", "lt", "lte"]), value=st.sampled_from([1, 2.0, "b"]))
def test_a_filter_passes_the_same_documents_once_facets_are_loaded(data: Made, operator: str, value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder, data.index(Path(folder)) as index:
        before = data.search(index, where={FIELD: {operator: value}})
        _ = data.search(index, facets=[FIELD]).facets
        assert data.search(index, where={FIELD: {operator: value}}) == before


@settings(max_examples=15, deadline=None)
@given(data=made(), least=st.sampled_from([-1.0, 0.0, 0.5, 2.0]), group=st.booleans())
def test_min_score_leaves_out_hits_with_a_lower_score(data: Made, least: float, group: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, data.index(Path(folder)) as index:
        expected = [hit for hit in data.every(index, group=group) if hit.score >= least]
        assert data.every(index, group=group, min_score=least) == expected


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Index]:
    """Six books about cats and dogs."""
    with Index.create(tmp_path / "books.idx", "bm25", filterable=["year", "authors"]) as index:
        index.add(
            [
                {"id": "a", "text": "cats", "year": 2020, "authors": ["Zola", "Adams"]},
                {"id": "b", "text": "cats cats", "year": 2021, "authors": ["Adams", "Zola", "Adams"]},
                {"id": "c", "text": "cats and dogs", "year": 2020, "authors": "Zola"},
                {"id": "d", "text": "dogs", "year": None, "authors": []},
                {"id": "e", "text": "dogs dogs", "authors": "Adams"},
                {"id": "f", "text": "birds", "year": 2020},
            ]
        )
        yield index


def test_facets_are_ordered_by_count_and_then_by_value(books: Index) -> None:
    found = books.search("cats dogs", k=1, facets=["year", "authors"])
    assert list(found.facets["year"].items()) == [(2020, 2), (None, 1), (2021, 1)]
    assert list(found.facets["authors"].items()) == [("Adams", 3), ("Zola", 3)]
    assert found.matching == 5


def test_facets_count_what_passes_the_filter(books: Index) -> None:
    found = books.search("cats dogs", k=1, facets=["year"], where={"authors": "Adams"})
    assert found.facets == {"year": {2020: 1, 2021: 1}}


def test_a_query_without_words_matches_all_and_one_of_unknown_words_nothing(books: Index) -> None:
    assert books.search("", facets=["year"]).facets == {"year": {2020: 3, None: 1, 2021: 1}}
    assert books.search("zebras", facets=["year"]).facets == {"year": {}}
    assert books.search("", sort_by="-year", k=3).ids == ("b", "a", "c")
    assert books.search("", sort_by="year").matching == 6


def test_documents_without_a_value_come_last_in_both_orders(books: Index) -> None:
    assert books.search("cats dogs", sort_by="year").ids[-2:] == ("e", "d")
    assert books.search("cats dogs", sort_by="-year").ids == ("b", "c", "a", "e", "d")


def test_a_list_is_in_the_group_of_its_first_value(books: Index) -> None:
    first = {"a": "Zola", "b": "Adams", "c": "Zola", "d": None, "e": "Adams"}
    found = books.search("cats dogs", k=9, group_by="authors", per_group=9)
    groups = [(author, sorted(ids)) for author, ids in groupby(found.ids, first.__getitem__)]
    assert sorted(groups, key=str) == [("Adams", ["b", "e"]), ("Zola", ["a", "c"]), (None, ["d"])]


def test_a_field_that_is_not_filterable_is_an_error_that_says_how_to_make_it_so(books: Index) -> None:
    for options in ({"facets": ["lang"]}, {"sort_by": "-lang"}, {"group_by": "lang"}):
        with pytest.raises(
            InputError, match=r"'lang', which is not filterable .*filterable: year, authors.*filterable="
        ):
            books.search("cats", **options)


def test_a_ranking_that_was_read_from_a_run_has_no_counts() -> None:
    run = Ranking("q", ("a",), (1.0,))
    assert run.facets == {}
    assert run.cursor is None
    with pytest.raises(InputError, match="read from a run"):
        _ = run.matching


def test_the_command_line_writes_facets_after_the_hits(tmp_path: Path) -> None:
    docs = write_docs(tmp_path / "docs.jsonl", [{"id": str(at), "text": "cats", "year": 2020 + at} for at in range(3)])
    folder = tmp_path / "my.idx"
    assert denslice("index", docs, "--to", folder, "--encoder", "bm25", "--filterable", "year").exit_code == 0
    found = denslice("search", folder, "cats", "-k", 1, "--facets", "year", "--sort-by", "-year")
    assert found.stdout.splitlines()[0].split("\t")[2] == "2"
    assert found.stdout.splitlines()[1:] == ["matching: 3", "year: 2020 (1), 2021 (1), 2022 (1)"]
    cursor = found.stderr.split()[-1]
    after = denslice("search", folder, "cats", "-k", 1, "--sort-by", "-year", "--cursor", cursor)
    assert after.stdout.split("\t")[2] == "1"
    assert (
        '"facets": {"year": [{"value": 2020, "count": 1}'
        in denslice("search", folder, "cats", "--facets", "year", "--json").stdout
    )
    assert_one_line(denslice("search", folder, "cats", "--facets", "lang"), "--filterable lang")
