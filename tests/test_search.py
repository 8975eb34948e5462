"""Search: every route gives what the plain definition gives, over whatever blocks, segments and thresholds."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from denslice import Index, InputError, Query, Ranking, Slices, Slicing, densify, gip
from denslice.gip import gip_full
from denslice.index.reader import Reader
from denslice.options import SearchOptions
from denslice.search.cpu import two_stage
from denslice.search.cpu.addresses import Parts
from denslice.search.gpu.cuda import cuda_devices
from denslice.search.gpu.gpu_searcher import GpuSearcher
from denslice.search.query import QueryVectors, best_of
from denslice.slicing import KINDS
from denslice.store.manifest import Manifest
from denslice.store.snapshot import Snapshot
from denslice.vectors import Encoded
from numpy_card import NumpyDevice

Rows = np.ndarray  # (n, vocab) weights
Route = Callable[[Index, Rows, int], Ranking]

QUERIES = ("full", "sliced")
EVERYTHING = 10**6  # more than any collection here


@pytest.fixture(params=["cpu", "plain", "numpy card", pytest.param("cuda", marks=pytest.mark.gpu)], scope="module")
def route(request: pytest.FixtureRequest) -> Route:
    """A way to search an index for the k best documents of one query vector."""
    if request.param == "cpu":
        return lambda index, query, k: index.search_vectors(query, k=k)
    if request.param == "plain":
        return _in_numpy
    cards = GpuSearcher([NumpyDevice()] if request.param == "numpy card" else cuda_devices("cuda"))
    return lambda index, query, k: _opened(index, cards).search_vectors(query, k=k)


def _in_numpy(index: Index, query: Rows, k: int) -> Ranking:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_stage, "SMALL_INDEX", EVERYTHING)
        return index.search_vectors(query, k=k)


def _opened(index: Index, cards: GpuSearcher) -> Index:
    """The index on cards, opened once."""
    if "on_cards" not in vars(index):
        vars(index)["on_cards"] = Index(Reader(Snapshot(index.path), cards))
    opened: Index = vars(index)["on_cards"]
    return opened


@pytest.fixture(scope="module", autouse=True)
def _tiny_blocks_and_segments() -> Iterator[None]:
    """Blocks of 32 documents and segments of 100: a few hundred documents go through every turn of the scan.

    No index is small enough for numpy but on the route that takes it for all.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("denslice.index.create.Manifest", partial(Manifest, block=32))
        patch.setattr("denslice.index.doc_batches.BATCH", 50)
        patch.setattr("denslice.store.tiers.SEGMENT_DOCS", 100)
        patch.setattr("denslice.search.cpu.two_stage.INITIAL_CANDIDATES", 64)
        patch.setattr("denslice.search.cpu.two_stage.SMALL_INDEX", 0)
        yield


def ids_of(docs: Rows) -> list[str]:
    """Ids whose order is neither that of the rows nor that of numbers."""
    return [f"d{len(docs) - i}" for i in range(len(docs))]


def built(
    folder: Path, commits: Sequence[Rows], slicing: str | None, slices: int | None, query: str = "full", skip: int = 0
) -> Index:
    """An index of all the commits' rows, each commit added by itself."""
    docs = np.concatenate(commits)
    index = Index.create(
        folder / "index", "vectors", vocab=docs.shape[1], slicing=slicing, slices=slices, query=query, skip=skip, seed=1
    )
    ids = iter(ids_of(docs))
    for rows in commits:
        index.add_vectors([next(ids) for _ in rows], sp.csr_array(rows))
    return index


def scores_by_definition(docs: Rows, query: Rows, slicing: Slicing, form: str) -> np.ndarray:
    """(docs,) scores by `gip`, or by `gip_full` for whole queries, of weights rounded as they are stored."""
    slices = densify(docs, slicing)
    stored = Slices(slices.values.astype(np.float16).astype(np.float32), slices.gates)
    scores = (
        gip(densify(query, slicing), stored) if form == "sliced" else gip_full(sp.csr_array(query), stored, slicing)
    )
    return np.asarray(scores[0])


def ranked(ids: Sequence[str], scores: Iterable[float]) -> list[tuple[str, float]]:
    """Documents with a score, best first, equal scores by id."""
    found = [(id, float(score)) for id, score in zip(ids, scores, strict=True) if score > 0]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))


def pairs(ranking: Ranking) -> list[tuple[str, float]]:
    return list(zip(ranking.ids, ranking.scores, strict=True))


def check_route(
    route: Route, commits: Sequence[Rows], queries: Rows, slicing: str, slices: int, form: str, skip: int = 0
) -> None:
    """A route finds exactly what the definition and a sort find, ids and scores, for small and large k.

    Weights must be such that float32 holds every sum exactly, or equal scores would not be equal.
    """
    docs = np.concatenate(commits)
    places = Slicing.made(slicing, sp.csr_array(commits[0]), slices, skip, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        index = built(Path(folder), commits, slicing, slices, form, skip)
        for query in queries:
            expected = ranked(ids_of(docs), scores_by_definition(docs, query[None], places, form))
            for k in (1, 5, max(len(docs), 1), len(docs) + 7):
                assert pairs(route(index, query[None], k)) == expected[:k]


def exact_rows(seed: int, rows: int, vocab: int, density: float) -> Rows:
    """Weights in steps of 1/64 up to 4: float16 holds them, and float32 the sums of their products."""
    rng = np.random.default_rng(seed)
    return rng.integers(1, 257, (rows, vocab)) / 64 * (rng.random((rows, vocab)) < density)


# By eye

SMALL = np.array(
    [
        [3, 2, 0, 1, 0, 0],  # d3
        [0, 0, 1, 2, 0, 0],  # d2
        [0, 0, 0, 0, 5, 0],  # d1
    ]
)
SMALL_QUERY = np.array([[1, 1, 0, 2, 0, 0]])


def test_three_documents_searched_with_a_whole_query(tmp_path: Path, route: Route) -> None:
    # slices {0, 3}, {1, 4}, {2, 5}: d3 keeps tokens 0 and 1 and loses 3
    index = built(tmp_path, [SMALL], "stride", 3, "full")
    assert pairs(route(index, SMALL_QUERY, 10)) == [("d3", 1 * 3 + 1 * 2), ("d2", 2 * 2)]


def test_three_documents_searched_with_a_sliced_query(tmp_path: Path, route: Route) -> None:
    # of its tokens 0 and 3, which share a slice, the query keeps 3
    index = built(tmp_path, [SMALL], "stride", 3, "sliced")
    assert pairs(route(index, SMALL_QUERY, 10)) == [("d2", 2 * 2), ("d3", 1 * 2)]


def test_equal_scores_are_ordered_by_id(tmp_path: Path, route: Route) -> None:
    index = built(tmp_path, [np.ones((11, 1))], "stride", 1)
    assert route(index, np.ones((1, 1)), 4).ids == ("d1", "d10", "d11", "d2")


def test_weights_are_stored_to_the_precision_of_float16(tmp_path: Path, route: Route) -> None:
    index = built(tmp_path, [np.array([[0.1], [2049.0], [1e-9]])], "stride", 1)
    assert pairs(route(index, np.array([[1.0]]), 5)) == [("d2", 2048.0), ("d3", float(np.float16(0.1)))]


# Against the definition


@pytest.mark.parametrize("form", QUERIES)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_search_is_the_definition_for_small_collections_full_of_ties(
    route: Route, kind: str, form: str, data: st.DataObject
) -> None:
    vocab = data.draw(st.integers(1, 8))
    rows = partial(hnp.arrays, np.float32, elements=st.sampled_from([0, 0, 0.25, 1, 2, 3.5]))
    commits = [data.draw(rows((n, vocab))) for n in data.draw(st.lists(st.integers(1, 45), min_size=1, max_size=3))]
    queries = data.draw(rows((2, vocab)))
    slices, skip = data.draw(st.integers(1, vocab + 1)), data.draw(st.integers(0, min(1, vocab)))
    check_route(route, commits, queries, kind, slices, form, skip)


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_without_slices_search_is_the_inner_product_of_all_tokens(route: Route, data: st.DataObject) -> None:
    vocab = data.draw(st.integers(1, 12))
    rows = partial(hnp.arrays, np.float32, elements=st.sampled_from([0, 0, 0.25, 1, 2, 3.5]))
    commits = [data.draw(rows((n, vocab))) for n in data.draw(st.lists(st.integers(1, 45), min_size=1, max_size=3))]
    query, skip, docs = data.draw(rows((vocab,))), data.draw(st.integers(0, 1)), np.concatenate(commits)
    expected = ranked(ids_of(docs), docs[:, skip:] @ query[skip:])
    with tempfile.TemporaryDirectory() as folder:
        index = built(Path(folder), commits, None, None, skip=skip)
        assert pairs(route(index, query[None], len(docs))) == expected
        assert all(index.explain_vectors(query[None], id).lost == () for id in ids_of(docs)[:3])


@pytest.mark.parametrize("form", QUERIES)
@pytest.mark.parametrize("kind", KINDS)
def test_search_is_the_definition_over_many_blocks_and_segments(route: Route, kind: str, form: str) -> None:
    commits = [exact_rows(seed, rows, vocab=80, density=0.2) for seed, rows in enumerate((330, 1, 170))]
    check_route(route, commits, exact_rows(9, 5, 80, density=0.15), kind, 30, form, skip=3)


@pytest.mark.parametrize("form", QUERIES)
def test_search_is_the_definition_in_one_segment_with_blocks_as_shipped(
    route: Route, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("denslice.index.create.Manifest", Manifest)
    monkeypatch.setattr("denslice.index.doc_batches.BATCH", 2_048)
    monkeypatch.setattr("denslice.store.tiers.SEGMENT_DOCS", 1 << 18)
    commits = [exact_rows(3, 3_000, vocab=60, density=0.2)]
    check_route(route, commits, exact_rows(4, 5, 60, density=0.1), "learned", 24, form)


def test_search_is_the_definition_when_scores_rise_from_block_to_block(route: Route) -> None:
    # every block beats all before it, so that what is held must be thrown out again and again
    docs = np.arange(1, 401)[:, None] / 64
    check_route(route, [docs, docs[::-1]], np.array([[1.0], [0.5]]), "stride", 1, "full")


def test_search_is_the_definition_to_rounding_for_weights_of_any_size(tmp_path: Path, route: Route) -> None:
    rng = np.random.default_rng(5)
    docs, queries = (10.0 ** rng.uniform(-4, 4, (n, 40)) * (rng.random((n, 40)) < 0.3) for n in (300, 6))
    index = built(tmp_path, [docs], "stride", 16)
    places = Slicing.stride(40, 16)
    for query in queries:
        scores = dict(zip(ids_of(docs), scores_by_definition(docs, query[None], places, "full"), strict=True))
        found = route(index, query[None], 50)
        assert list(found.scores) == pytest.approx(sorted(scores.values(), reverse=True)[:50], rel=1e-4)
        assert [scores[id] for id in found.ids] == pytest.approx(list(found.scores), rel=1e-4)


def test_token_ids_past_65535_are_told_apart(tmp_path: Path, route: Route) -> None:
    low, high, vocab = 5, 5 + (1 << 16), 1 << 17
    docs = sp.csr_array(([1.0, 2.0], ([0, 1], [low, high])), (2, vocab))
    index = Index.create(tmp_path / "index", "vectors", vocab=vocab, slices=64)
    index.add_vectors(["low", "high"], docs)
    assert pairs(route(index, sp.csr_array(([1.0], ([0], [low])), (1, vocab)), 5)) == [("low", 1.0)]
    assert pairs(route(index, sp.csr_array(([1.0], ([0], [high])), (1, vocab)), 5)) == [("high", 2.0)]


# θ and candidates


def strongest_first(vocab: int) -> Rows:
    """A query whose first tokens weigh most: vocab, vocab − 1, … 1."""
    return np.arange(vocab, 0, -1)[None]


def test_a_theta_above_every_weight_leaves_the_strongest_eight_and_reranks_with_every_weight(tmp_path: Path) -> None:
    docs = np.zeros((4, 10))
    docs[0, [0, 9]] = 1  # d4: the strongest token, and the weakest
    docs[1, 7] = 1  # d3: the eighth
    docs[2, [8, 9]] = 5  # d2: only the two tokens that stage one leaves out
    docs[3, 1] = 1  # d1: the second
    index = built(tmp_path, [docs], "stride", 10)
    exact = [("d2", 5 * 2 + 5 * 1), ("d4", 10 + 1), ("d1", 9), ("d3", 3)]
    assert pairs(index.search_vectors(strongest_first(10), k=10)) == exact
    assert pairs(index.search_vectors(strongest_first(10), k=10, theta=100)) == exact[1:]


def test_theta_uses_every_weight_above_it(tmp_path: Path) -> None:
    index = built(tmp_path, [np.eye(12)], "stride", 12)
    found = index.search_vectors(strongest_first(12), k=12, theta=2.5)
    assert pairs(found) == [(f"d{weight}", float(weight)) for weight in range(12, 2, -1)]


def test_only_the_best_candidates_of_stage_one_are_reranked(tmp_path: Path) -> None:
    docs = np.zeros((2, 9))
    docs[0, 0] = 2  # d2 scores 2, all of it in stage one
    docs[1, [0, 8]] = 1.5, 4  # d1 scores 3.5, but 1.5 in stage one
    query = np.array([[1] * 8 + [0.5]])
    index = built(tmp_path, [docs], "stride", 9)
    assert pairs(index.search_vectors(query, k=1)) == [("d1", 3.5)]
    assert pairs(index.search_vectors(query, k=1, theta=0.7, candidates=1)) == [("d2", 2.0)]
    assert pairs(index.search_vectors(query, k=1, theta=0.7, candidates=2)) == [("d1", 3.5)]


@pytest.mark.parametrize("theta", [0.0, 0.5, 1.0, 2.0, 3.9, 100.0, float("inf")])
def test_with_candidates_for_all_theta_only_hides_documents_without_a_strong_token(
    tmp_path: Path, theta: float
) -> None:
    docs, queries = exact_rows(1, 300, 60, density=0.1), exact_rows(2, 5, 60, density=0.4)
    index = built(tmp_path, [docs], "stride", 60)
    for query in queries:
        strong = np.argsort(-query, kind="stable")[: max(8, int((query > theta).sum()))]
        scores = np.where((docs[:, strong] * query[strong]).any(axis=1), docs @ query, 0)
        expected = ranked(ids_of(docs), scores)
        for k in (1, 20, 300):
            assert pairs(index.search_vectors(query[None], k=k, theta=theta, candidates=EVERYTHING)) == expected[:k]


def test_theta_changes_nothing_for_queries_of_up_to_eight_weights(tmp_path: Path) -> None:
    docs = exact_rows(1, 200, 8, density=0.4)
    index = built(tmp_path, [docs], "stride", 4)
    query = strongest_first(8)
    exact = pairs(index.search_vectors(query, k=50))
    assert pairs(index.search_vectors(query, k=50, theta=100, candidates=1)) == exact


@pytest.mark.parametrize("candidates", [1, 10, 60])
def test_whatever_the_candidates_scores_are_exact_and_k_documents_come(tmp_path: Path, candidates: int) -> None:
    docs, query = exact_rows(1, 300, 40, density=0.5), exact_rows(2, 1, 40, density=0.8)
    index = built(tmp_path, [docs], "stride", 40)
    exact = dict(ranked(ids_of(docs), (docs @ query.T).ravel()))
    found = pairs(index.search_vectors(query, k=30, theta=2.0, candidates=candidates))
    assert len(found) == 30
    assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))
    assert found == [(id, exact[id]) for id, _ in found]


@pytest.mark.parametrize("theta", [0.0, 2.0, 3.9])
def test_stage_one_alone_ranks_by_the_strong_weights_to_the_rounding_of_postings(tmp_path: Path, theta: float) -> None:
    docs, query = exact_rows(1, 300, 40, density=0.5), exact_rows(2, 1, 40, density=0.8)
    view = Reader(Snapshot(built(tmp_path, [docs], "stride", 40).path))
    how = SearchOptions(30, theta=theta, rerank=False)
    (found,) = view.rank_encoded([Query("q")], Encoded(sp.csr_array(query, dtype=np.float32)), how)
    strong = np.sort(query[0])[-8:].min() if (query > theta).sum() < 8 else theta + 1 / 128
    partial = dict(zip(ids_of(docs), docs @ np.where(query[0] >= strong, query[0], 0), strict=True))
    step = 4 * query.sum() / 255
    assert len(found) == 30
    assert list(found.scores) == sorted(found.scores, reverse=True)
    for id, score in pairs(found):
        assert partial[id] <= score * (1 + 1e-6) <= partial[id] + step
    assert min(partial[id] for id in found.ids) >= np.sort(list(partial.values()))[-30] - step


# Caution


def long_lists(monkeypatch: pytest.MonkeyPatch) -> tuple[Rows, Rows]:
    """Documents of several blocks and segments whose lists have ends worth leaving out, and a query."""
    monkeypatch.setattr("denslice.index.create.Manifest", partial(Manifest, block=512))
    monkeypatch.setattr("denslice.store.tiers.SEGMENT_DOCS", 4_000)
    rng = np.random.default_rng(7)
    docs = np.round(rng.exponential(1.0, (9_000, 30)) * 64).clip(1, 600) / 64 * (rng.random((9_000, 30)) < 0.4)
    return docs, exact_rows(8, 1, 30, density=0.7)


@pytest.mark.parametrize("pruning", [0.05, 0.1])
def test_with_a_little_pruning_scores_are_exact_and_most_of_the_best_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pruning: float
) -> None:
    docs, query = long_lists(monkeypatch)
    index = built(tmp_path, [docs], "stride", 30)
    exact = dict(ranked(ids_of(docs), (docs @ query.T).ravel()))
    found = pairs(index.search_vectors(query, k=100, pruning=pruning))
    assert found == sorted(found, key=lambda pair: (-pair[1], pair[0]))
    assert found == [(id, exact[id]) for id, _ in found]
    assert len({id for id, _ in found} & set(list(exact)[:100])) >= 90


@pytest.mark.parametrize("pruning", [-0.1, 1, 1.1, float("nan")])
def test_a_pruning_that_is_none_is_refused(tmp_path: Path, pruning: float) -> None:
    with pytest.raises(InputError, match=r"pruning must be (a number from 0 to 1|below 1), not"):
        built(tmp_path, [SMALL], "stride", 3).search_vectors(SMALL_QUERY, pruning=pruning)


# Edges


def test_a_query_with_no_token_of_the_collection_finds_nothing(tmp_path: Path, route: Route) -> None:
    index = built(tmp_path, [np.array([[1.0, 0, 0]])], "stride", 3)
    assert pairs(route(index, np.array([[0.0, 2, 0]]), 5)) == []
    assert pairs(route(index, np.array([[0.0, 0, 0]]), 5)) == []


def test_an_index_without_documents_finds_nothing(tmp_path: Path, route: Route) -> None:
    index = Index.create(tmp_path / "index", "vectors", vocab=3)
    assert pairs(route(index, np.ones((1, 3)), 5)) == []


def test_documents_without_weights_are_never_found(tmp_path: Path, route: Route) -> None:
    index = built(tmp_path, [np.zeros((40, 2)), np.array([[0.0, 1.0]])], "stride", 2)
    assert pairs(route(index, np.ones((1, 2)), 5)) == [("d1", 1.0)]


def test_skipped_tokens_are_never_matched(tmp_path: Path, route: Route) -> None:
    index = built(tmp_path, [np.array([[9.0, 1.0]])], "stride", 1, skip=1)
    assert pairs(route(index, np.array([[9.0, 2.0]]), 5)) == [("d1", 2.0)]


@pytest.mark.parametrize("k", [0, -1, 2.0, None])
def test_a_k_below_one_is_refused(tmp_path: Path, k: int) -> None:
    with pytest.raises(InputError, match="k must be a whole number of at least 1"):
        built(tmp_path, [SMALL], "stride", 3).search_vectors(SMALL_QUERY, k=k)


@pytest.mark.parametrize("theta", [-0.1, float("nan")])
def test_a_theta_below_zero_is_refused(tmp_path: Path, theta: float) -> None:
    with pytest.raises(InputError, match="theta must be a number of 0 or more"):
        built(tmp_path, [SMALL], "stride", 3).search_vectors(SMALL_QUERY, theta=theta)


@pytest.mark.parametrize("candidates", [0, 1.5])
def test_candidates_below_one_are_refused(tmp_path: Path, candidates: int) -> None:
    with pytest.raises(InputError, match="candidates must be a whole number of at least 1"):
        built(tmp_path, [SMALL], "stride", 3).search_vectors(SMALL_QUERY, candidates=candidates)


def test_a_query_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="5 columns, expected a vocabulary of 6"):
        built(tmp_path, [SMALL], "stride", 3).search_vectors(np.ones((1, 5)))


def test_two_queries_at_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected one query, found 2"):
        built(tmp_path, [SMALL], "stride", 3).search_vectors(np.ones((2, 6)))


def test_a_weight_too_large_to_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"weight 65505 is too large: at most 65,504 can be stored"):
        built(tmp_path, [np.array([[65_505.0]])], "stride", 1)


# Inside: masks, and stage one


@pytest.mark.parametrize(
    ("scores", "count", "best"),
    [([5, 1, 5, 3, 5], 2, [0, 2]), ([5, 1, 5, 3, 5], 4, [0, 2, 3, 4]), ([1, 2], 5, [0, 1]), ([], 3, [])],
)
def test_the_best_are_those_with_the_highest_scores_and_of_equal_ones_the_first(
    scores: list[int], count: int, best: list[int]
) -> None:
    assert best_of(np.array(scores), count).tolist() == best


def lexical(query: Rows) -> QueryVectors:
    keys = np.flatnonzero(query)
    return QueryVectors(keys, query[keys].astype(np.float32))


@pytest.mark.parametrize("k", [1, 10, 400])
def test_masked_documents_are_left_out_before_the_best_are_taken(tmp_path: Path, k: int) -> None:
    docs, query = exact_rows(1, 330, 40, density=0.3), exact_rows(2, 1, 40, density=0.5)[0]
    snapshot = Snapshot(built(tmp_path, [docs], "stride", 40).path)
    best_first = np.argsort(-(docs @ query))
    allowed = np.ones(len(docs), np.uint8)
    allowed[best_first[:150]] = 0
    ends = np.cumsum([segment.rows for segment in snapshot.segments])[:-1]
    masks = [np.ascontiguousarray(mask) for mask in np.split(allowed, ends)]
    found = two_stage.search(Parts(snapshot.segments), lexical(query), SearchOptions(k), masks)
    expected = ranked(ids_of(docs), (docs @ query) * allowed)
    assert len(snapshot.segments) > 2
    assert list(zip(found.ids, found.scores.tolist(), strict=True)) == expected[:k]


@pytest.mark.parametrize("scale", ["NARROW", "WIDE"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_scores_from_postings_are_never_below_the_exact_ones_nor_above_by_more_than_the_margin(
    scale: str, data: st.DataObject
) -> None:
    from denslice.search.cpu import postings, scan_state, score_units

    counted = getattr(score_units, scale)
    weights = st.floats(2**-10, 100, width=16)
    docs = data.draw(hnp.arrays(np.float32, (40, 4), elements=st.just(0) | weights))
    query = data.draw(hnp.arrays(np.float32, 4, elements=weights))
    with tempfile.TemporaryDirectory() as folder:
        (segment,) = Snapshot(built(Path(folder), [docs], "stride", 4).path).segments
        parts = Parts([segment])
        found, largest = postings.find(parts.table, np.arange(4))
        reach = float(query.astype(np.float64) @ largest)
        unit, margin = score_units.unit_and_margin(reach, reach, 4, counted)
        held, bounds = postings.scan_whole(
            parts.table, found, (query, unit, counted.fraction), (40, 0, 0),
            np.zeros(512, np.int64), np.zeros(scan_state.SUMS, counted.dtype),
        )  # fmt: skip
        exact = docs.astype(np.float64) @ query
        assert sorted(held) == np.flatnonzero(exact).tolist()
        above = bounds / unit - exact[held]
        assert (above >= -1e-6 * exact.max(initial=0)).all()
        assert (above <= margin / unit).all()


@pytest.mark.parametrize("pruning", [0.0, 0.4])
def test_many_queries_at_once_find_what_each_finds_alone(tmp_path: Path, pruning: float) -> None:
    docs = exact_rows(5, 300, 40, 0.5)
    names = [f"{'é' * (i % 3)}{i % 7}-{i}" for i in range(300)]
    index = Index.create(tmp_path / "i", "vectors", vocab=40, slices=40)
    index.add_vectors(names[:120], sp.csr_array(docs[:120]))
    index.add_vectors(names[120:], sp.csr_array(docs[120:]))
    queries = [*exact_rows(6, 40, 40, 0.3).astype(np.float32), np.zeros(40, np.float32)]
    asked = [Query(str(n), vector={str(i): float(w) for i, w in enumerate(row) if w}) for n, row in enumerate(queries)]
    together = list(index.rank(asked, k=30, pruning=pruning))
    alone = [index.search_vectors(sp.csr_array(row[None]), k=30, pruning=pruning) for row in queries]
    assert [pairs(one) for one in together] == [pairs(one) for one in alone]
    assert len(together[0]) == 30
    assert len(together[-1]) == 0
    if pruning == 0:
        assert pairs(together[0]) == ranked(names, docs @ queries[0])[:30]


def test_threads_that_search_first_at_once_share_one_table(tmp_path: Path) -> None:
    docs = exact_rows(5, 300, 40, 0.5)
    parts = Parts(Snapshot(built(tmp_path, [docs], "stride", 40).path).segments)
    with ThreadPoolExecutor(8) as pool:
        tables = list(pool.map(lambda _: parts.table, range(64)))
    assert all(table is tables[0] for table in tables)


@pytest.mark.parametrize(
    "scores", [[], [3.0], [1, 2, 2, -1, 0.0, -0.0, 5, 2], np.random.default_rng(0).normal(size=3000)]
)
def test_falling_order_is_that_of_a_stable_sort(scores: Sequence[float]) -> None:
    from denslice.search.cpu.rescore import falling

    given = np.array(scores, dtype=np.float32)
    assert falling(given).tolist() == np.argsort(-given, kind="stable").tolist()


def test_postings_of_a_list_are_ordered_by_falling_value_and_then_by_rising_row(tmp_path: Path) -> None:
    docs = np.array([[1.0], [4], [0], [2], [4], [1]])
    (segment,) = Snapshot(built(tmp_path, [docs], "stride", 1).path).segments
    assert segment.postings.rows.tolist() == [1, 4, 3, 0, 5]
    assert segment.postings.values.tolist() == [255, 255, 128, 64, 64]


@pytest.mark.parametrize("k", [1, 10, 100])
def test_leaving_out_the_ends_of_long_lists_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, k: int
) -> None:
    docs, query = long_lists(monkeypatch)
    index = built(tmp_path, [docs], "stride", 30)
    expected = ranked(ids_of(docs), (docs @ query.T).ravel())
    assert pairs(index.search_vectors(query, k=k)) == expected[:k]
    best_last = built(tmp_path / "again", [docs[np.argsort((docs @ query.T).ravel())]], "stride", 30)
    assert list(best_last.search_vectors(query, k=k).scores) == [score for _, score in expected[:k]]
    best_first = built(tmp_path / "first", [docs[np.argsort(-(docs @ query.T).ravel())]], "stride", 30)
    assert list(best_first.search_vectors(query, k=k).scores) == [score for _, score in expected[:k]]


@settings(max_examples=30, deadline=None)
@given(hnp.arrays(np.float16, 20, elements=st.floats(0, 65504, width=16)))
def test_float16_bits_become_the_same_number(numbers: np.ndarray) -> None:
    from denslice.search.cpu import intrinsics

    assert [intrinsics.half(bits) for bits in numbers.view(np.uint16)] == numbers.astype(np.float32).tolist()
