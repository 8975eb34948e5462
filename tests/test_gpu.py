"""Search on a card gives what the CPU gives: on a card made of numpy, and on a real one by `make gpu`."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from denslice import Index, InputError, MissingExtraError, NotShownError, Query, Ranking, open_index
from denslice.__main__ import app
from denslice.bench.gpu_collection import HEAVIEST
from denslice.bench.synthetic import SyntheticCollection
from denslice.errors import GpuMemoryError, IndexFormatError
from denslice.grouping import documents_of
from denslice.index.reader import Reader
from denslice.index.writer import Writer
from denslice.options import OpenOptions, SearchOptions
from denslice.records import Doc, Place
from denslice.search.cpu.score_units import WIDE
from denslice.search.gpu import layout, upload
from denslice.search.gpu.cuda import cuda_devices, device_numbers
from denslice.search.gpu.device import Device
from denslice.search.gpu.gpu_searcher import GpuSearcher
from denslice.search.gpu.gpu_share import RECORD
from denslice.store.lock import WAIT_SECONDS
from denslice.store.manifest import Manifest
from denslice.store.snapshot import Snapshot
from denslice.vectors import Encoded
from numpy_card import NumpyDevice, arranged

VOCAB, DIMENSIONS = 50, 12
Rows = np.ndarray


def real_card() -> Device:
    (card,) = cuda_devices("cuda")
    return card


@pytest.fixture(params=["numpy", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Callable[[], Device]:
    """What makes a card."""
    return {"numpy": NumpyDevice, "cuda": real_card}[request.param]


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 64 documents in sections of 16, segments of 300: some hundred documents make many tiles."""
    monkeypatch.setattr("denslice.index.create.Manifest", partial(Manifest, block=64))
    monkeypatch.setattr("denslice.index.doc_batches.BATCH", 100)
    monkeypatch.setattr("denslice.store.tiers.SEGMENT_DOCS", 300)
    small = {"TILE_ROWS": 16, "SHORT_SECTION": 0, "UNITS": 16, "FEW": 100, "NEAR": 256}
    for name, value in small.items():
        monkeypatch.setattr(layout, name, value)


def exact(seed: int, shape: tuple[int, int], density: float = 0.3) -> Rows:
    """Weights whose sums float32 holds exactly."""
    rng = np.random.default_rng(seed)
    return (rng.integers(1, 257, shape) / 64 * (rng.random(shape) < density)).astype(np.float32)


def vectors(seed: int, shape: tuple[int, ...]) -> Rows:
    return (np.random.default_rng(seed).integers(-8, 9, shape) / 4).astype(np.float32)


def made(folder: Path, weights: Rows, dense: Rows | None = None, slices: int = 40) -> Index:
    index = Index.create(folder / "my.idx", "vectors", vocab=weights.shape[1], slices=slices, filterable=["n"])
    ids = [f"d{len(weights) - i}" for i in range(len(weights))]
    index.add_vectors(ids, sp.csr_array(weights), dense=dense)
    return index


def on_card(index: Index, *devices: Device, leave_out: tuple[str, ...] = ()) -> Index:
    return Index(Reader(Snapshot(index.path), GpuSearcher(devices, OpenOptions("cuda", leave_out))))


def segments_on(reader: Reader) -> list[upload.GpuSegment]:
    assert isinstance(reader.searcher, GpuSearcher)
    return [segment for _, segment in reader.searcher._known.values()]


def pairs(ranking: Ranking) -> list[tuple[str, float, tuple[float, float]]]:
    parts = ranking.parts or ((0.0, 0.0),) * len(ranking.ids)
    return list(zip(ranking.ids, ranking.scores, parts, strict=True))


WAYS: tuple[dict[str, Any], ...] = (
    {"mode": "lexical"},
    {"mode": "dense"},
    {"mode": "hybrid", "lam": 0.5},
    {"mode": "lexical", "theta": 2.0, "candidates": 60},
    {"mode": "hybrid", "theta": 2.0, "candidates": 60},
    {"candidates_from": "lexical", "candidates": 50},
    {"candidates_from": "lexical", "theta": 2.0, "candidates": 50},
)


@pytest.mark.parametrize("how", WAYS, ids=str)
@pytest.mark.parametrize("leave_out", [(), ("rows",)], ids=["all", "without-rows"])
@pytest.mark.parametrize("cards", [1, 2])
def test_a_card_finds_what_the_cpu_finds(
    tmp_path: Path, device: Callable[[], Device], how: dict[str, Any], leave_out: tuple[str, ...], cards: int
) -> None:
    index = made(tmp_path, exact(1, (700, VOCAB)), vectors(2, (700, DIMENSIONS)))
    index.delete([f"d{n}" for n in range(0, 200, 3)])
    card = on_card(index, *(device() for _ in range(cards)), leave_out=leave_out)
    for seed in range(2):
        query, vector = exact(10 + seed, (1, VOCAB), 0.5), vectors(20 + seed, (DIMENSIONS,))
        for k in (1, 10, 300, 1000):
            assert pairs(card.search_vectors(query, dense=vector, k=k, **how)) == pairs(
                index.search_vectors(query, dense=vector, k=k, **how)
            )


@pytest.mark.parametrize("how", WAYS, ids=str)
@pytest.mark.parametrize("cards", [1, 2])
def test_a_card_leaves_documents_without_any_vector_out_as_the_cpu_does(
    tmp_path: Path, device: Callable[[], Device], how: dict[str, Any], cards: int
) -> None:
    weights, dense = exact(1, (300, VOCAB)), vectors(2, (300, DIMENSIONS))
    weights[::3], dense[::2] = 0, 0  # a sixth has neither
    index = made(tmp_path, weights, dense)
    index.delete([f"d{n}" for n in range(0, 100, 7)])
    card = on_card(index, *(device() for _ in range(cards)))
    queries, asked = exact(10, (3, VOCAB), 0.1), vectors(20, (3, DIMENSIONS))
    asked[1] = 0
    for k in (1, 10, 250, 1000):
        found = card.search_vectors_batch(queries, dense=asked, k=k, **how)
        assert [pairs(one) for one in found] == [
            pairs(one) for one in index.search_vectors_batch(queries, dense=asked, k=k, **how)
        ]
        empty = {f"d{300 - row}" for row in range(0, 300, 6)}
        assert not any(empty & set(one.ids) for one in found)


def test_stage_one_alone_is_the_cpu_s(tmp_path: Path, device: Callable[[], Device]) -> None:
    index = made(tmp_path, exact(1, (400, VOCAB)))
    views = [Reader(Snapshot(index.path)), Reader(Snapshot(index.path), GpuSearcher([device()]))]
    query = Encoded(sp.csr_array(exact(5, (1, VOCAB), 0.6)))
    for theta in (0.0, 2.5):
        found = [
            view.rank_encoded([Query("q")], query, SearchOptions(50, theta=theta, rerank=False))[0] for view in views
        ]
        assert pairs(found[0]) == pairs(found[1])


def test_a_batch_finds_what_each_query_finds_alone(
    tmp_path: Path, device: Callable[[], Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("gpu_share", "gpu_searcher"):
        monkeypatch.setattr(f"denslice.search.gpu.{place}.QUERIES_PER_LAUNCH", 5)
    index = made(tmp_path, exact(1, (400, VOCAB)), vectors(2, (400, DIMENSIONS)))
    card = on_card(index, device())
    queries = Encoded(sp.csr_array(exact(3, (13, VOCAB), 0.2)), vectors(4, (13, DIMENSIONS)))
    ids = [str(n) for n in range(13)]
    for settings in (
        SearchOptions(20),
        SearchOptions(20, mode="lexical"),
        SearchOptions(20, mode="lexical", theta=3.0, candidates=40),
    ):
        found = card.reader.rank_encoded([Query(id) for id in ids], queries, settings)
        assert list(map(pairs, found)) == list(
            map(pairs, index.reader.rank_encoded([Query(id) for id in ids], queries, settings))
        )


def test_a_query_of_a_batch_with_too_many_candidates_is_searched_again_alone(
    tmp_path: Path, device: Callable[[], Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("denslice.search.gpu.gpu_share.BATCH_CANDIDATES", 30)
    index = made(tmp_path, exact(1, (400, VOCAB)))
    card = on_card(index, device())
    queries = Encoded(sp.csr_array(exact(3, (4, VOCAB), 0.5)))
    found = card.reader.rank_encoded([Query(id) for id in "abcd"], queries, SearchOptions(100))
    assert list(map(pairs, found)) == list(
        map(pairs, index.reader.rank_encoded([Query(id) for id in "abcd"], queries, SearchOptions(100)))
    )


def test_a_gate_that_every_second_document_has_is_searched_like_any_other(
    tmp_path: Path, device: Callable[[], Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("denslice.index.create.Manifest", Manifest)
    monkeypatch.setattr("denslice.store.tiers.SEGMENT_DOCS", 1 << 18)
    monkeypatch.setattr(layout, "TILE_ROWS", 8192)
    weights = exact(1, (9000, 4), 0.02)
    weights[::2, 1] = exact(2, (4500, 1), 1.0)[:, 0]
    index = made(tmp_path, weights, slices=4)
    card = on_card(index, device())
    for query in (np.array([[0, 1, 0, 0]]), np.array([[1, 2, 0.5, 3]])):
        for k in (10, 2000):
            assert pairs(card.search_vectors(query, k=k)) == pairs(index.search_vectors(query, k=k))


@pytest.mark.parametrize("k", [1, 100])
def test_more_ties_than_a_card_returns_are_ordered_by_id(
    tmp_path: Path, device: Callable[[], Device], k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = made(tmp_path, np.ones((900, 2), np.float32), slices=2)
    card = on_card(index, device())
    expected = pairs(index.search_vectors(np.ones((1, 2)), k=k))
    assert expected[0][0] == "d1"
    assert pairs(card.search_vectors(np.ones((1, 2)), k=k)) == expected
    monkeypatch.setattr(layout, "RANKED", 500)
    assert pairs(on_card(index, device()).search_vectors(np.ones((1, 2)), k=k)) == expected


def test_filters_hold_before_the_best_are_taken(tmp_path: Path, device: Callable[[], Device]) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25", filterable=["n"])
    index.add({"id": f"d{n}", "text": "fox " * (n % 7) + f"word{n % 50} fox", "n": n} for n in range(400))
    card = on_card(index, device())
    for where in (None, {"n": {"lt": 100}}, {"n": 17}, {"n": {"gt": 1000}}, {"n": {"lt": 100}}):
        found = card.search("a fox and word3", k=20, where=where)
        assert pairs(found) == pairs(index.search("a fox and word3", k=20, where=where))


def test_added_and_deleted_documents_reach_the_card_by_refresh(tmp_path: Path, device: Callable[[], Device]) -> None:
    index = made(tmp_path, exact(1, (200, VOCAB)))
    card = on_card(index, device())
    first = segments_on(card.reader)[0]
    index.add_vectors(["new"], np.full((1, VOCAB), 100, np.float32))
    index.delete(["d7"])
    query = np.ones((1, VOCAB))
    assert "new" not in card.search_vectors(query, k=300).ids
    assert card.refresh()
    assert not card.refresh()
    found = card.search_vectors(query, k=300)
    assert found.ids[0] == "new"
    assert pairs(found) == pairs(index.search_vectors(query, k=300))
    assert segments_on(card.reader)[0] is first  # what was there is not loaded again
    card.add_vectors(["newer"], np.full((1, VOCAB), 200, np.float32))
    assert card.search_vectors(query, k=1).ids == ("newer",)


def test_a_ranking_goes_on_with_the_commit_it_was_asked_of(tmp_path: Path, device: Callable[[], Device]) -> None:
    index = made(tmp_path, exact(1, (200, VOCAB)))
    card = on_card(index, device())
    queries = [Query(str(n), vector={str(n % VOCAB): 1.0, "3": 0.5}) for n in range(600)]
    rankings = card.rank(queries, k=5)
    first = next(rankings)
    card.add_vectors([f"new{n}" for n in range(40)], np.full((40, VOCAB), 100, np.float32))
    assert card.search_vectors(np.ones((1, VOCAB)), k=1).ids[0].startswith("new")
    found = [first, *rankings]  # while the new commit is on the card too
    assert list(map(pairs, found)) == list(map(pairs, index.rank(queries, k=5)))


def test_an_index_without_documents_and_one_without_weights_find_nothing(
    tmp_path: Path, device: Callable[[], Device]
) -> None:
    empty = on_card(Index.create(tmp_path / "empty.idx", "vectors", vocab=3), device())
    assert empty.search_vectors(np.ones((1, 3))).ids == ()
    card = on_card(made(tmp_path, np.zeros((5, 3), np.float32)), device())
    assert card.search_vectors(np.ones((1, 3))).ids == ()


def test_a_vocabulary_of_more_than_65536_tokens(tmp_path: Path, device: Callable[[], Device]) -> None:
    weights = sp.csr_array(exact(1, (100, 40)))
    wide = sp.csr_array((weights.data, weights.indices + 70_000, weights.indptr), (100, 80_000))
    index = Index.create(tmp_path / "my.idx", "vectors", vocab=80_000, slices=768)
    index.add_vectors([f"d{n}" for n in range(100)], wide)
    card = on_card(index, device())
    query = sp.csr_array(([1.0, 2.0, 3.0, 1.0], ([0] * 4, [5, 70_001, 70_003, 79_999])), (1, 80_000))
    assert pairs(card.search_vectors(query, k=50)) == pairs(index.search_vectors(query, k=50))


@pytest.mark.parametrize("dimensions", [1, 8, 100, 384, 768])
def test_scores_of_any_weights_and_vectors_are_the_cpu_s_to_rounding(
    tmp_path: Path, device: Callable[[], Device], dimensions: int
) -> None:
    rng = np.random.default_rng(3)
    weights = (10.0 ** rng.uniform(-3, 3, (300, 30)) * (rng.random((300, 30)) < 0.4)).astype(np.float32)
    dense = rng.standard_normal((300, dimensions)).astype(np.float32)
    index = made(tmp_path, weights, dense)
    card = on_card(index, device())
    query, vector = rng.random((1, 30)).astype(np.float32), rng.standard_normal(dimensions).astype(np.float32)
    for mode in ("lexical", "dense", "hybrid"):
        ours, theirs = (one.search_vectors(query, dense=vector, k=40, mode=mode) for one in (card, index))
        assert ours.scores == pytest.approx(theirs.scores, rel=1e-5, abs=1e-4)
        if mode == "lexical":
            assert pairs(ours) == pairs(theirs)  # summed in the same order, in float64


@pytest.mark.gpu
def test_a_card_arranges_postings_as_the_definition_does(tmp_path: Path) -> None:
    index = made(tmp_path, exact(1, (700, VOCAB)))
    for segment in Snapshot(index.path).segments:
        held = []
        for device in (NumpyDevice(), real_card()):
            with device.using():
                launch = device.compile(256, 1, 0)
            taken = upload.upload_segment(device, launch, segment, (), 16)
            with device.using():
                held.append([device.get(array) for array in taken.arrays[:7]])
        for ours, theirs in zip(*held, strict=True):
            np.testing.assert_array_equal(ours, theirs)


# Documents of several passages


PASSAGE_WAYS: tuple[dict[str, Any], ...] = (
    {"k": 1},
    {"k": 400},
    {"k": 20, "mode": "dense"},
    {"k": 20, "mode": "lexical"},
    {"k": 20, "where": {"n": {"lt": 30}}},
    {"k": 20, "theta": 2.0, "candidates": 60},
    {"k": 20, "candidates_from": "lexical", "candidates": 50},
    {"k": 20, "candidates_from": "lexical", "theta": 2.0, "candidates": 50},
    {"k": 20, "group": False},
    {"k": 5, "group": False, "where": {"n": {"gte": 20}}},
)


def made_of_passages(folder: Path) -> Index:
    """Three segments: documents of 1 to 300 passages, documents of one, and first short and then long documents."""
    index = Index.create(folder / "my.idx", "vectors", vocab=VOCAB, slices=40, filterable=["n"])
    rng = np.random.default_rng(6)
    mixed = rng.permutation(np.repeat([1, 2, 7, 64, 300], [50, 20, 15, 5, 2])).tolist()
    for name, counts in (("a", mixed), ("b", [1] * 40), ("c", [2] * 18 + [7] * 16 + [64] * 16)):
        index.write(partial(_add_encoded, _passage_batch(name, counts, rng)), WAIT_SECONDS)
    index.delete([f"{name}{n}" for name in "abc" for n in range(0, 40, 3)])
    return index


def _add_encoded(batch: tuple[list[Doc], Encoded], writer: Writer) -> int:
    return writer.add_encoded([batch])


def _passage_batch(name: str, counts: list[int], rng: np.random.Generator) -> tuple[list[Doc], Encoded]:
    places = []
    for count in counts:
        ends = np.cumsum(rng.integers(5, 60, count)).tolist()
        places.append([Place(start, end) for start, end in pairwise([0, *ends])])
    passages = sum(counts)
    weights = sp.csr_array(exact(int(rng.integers(1000)), (passages, VOCAB), 0.1))
    dense = rng.standard_normal((passages, DIMENSIONS)).astype(np.float32)
    docs = [Doc(f"{name}{n}", "a" * some[-1].end, meta={"n": n}) for n, some in enumerate(places)]
    encoded = Encoded(weights, dense)
    return docs, encoded if max(counts) == 1 else documents_of(encoded, places)


def assert_alike(ours: Ranking, theirs: Ranking) -> None:
    """The same documents and passages; dense scores are summed in another order."""
    assert (ours.ids, ours.passages) == (theirs.ids, theirs.passages)
    np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ours.parts, theirs.parts, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("cards", "leave_out"), [(1, ()), (2, ()), (2, ("rows",))], ids=str)
def test_a_card_finds_documents_of_many_passages_as_the_cpu_does(
    tmp_path: Path, device: Callable[[], Device], cards: int, leave_out: tuple[str, ...]
) -> None:
    index = made_of_passages(tmp_path)
    assert [s.passage_starts is None for s in index.reader.snapshot.segments] == [False, True, False]
    card = on_card(index, *(device() for _ in range(cards)), leave_out=leave_out)
    queries, asked = exact(10, (5, VOCAB), 0.5), np.random.default_rng(7).standard_normal((5, DIMENSIONS))
    for how in PASSAGE_WAYS:
        found = card.search_vectors_batch(queries, dense=asked, **how)
        for ours, theirs in zip(found, index.search_vectors_batch(queries, dense=asked, **how), strict=True):
            assert_alike(ours, theirs)
        assert_alike(card.search_vectors(queries[:1], dense=asked[0], **how), found[0])


@pytest.mark.parametrize("best", [0.0, 0.25, 1.0])
def test_the_share_of_the_best_passage_comes_from_the_options(
    tmp_path: Path, device: Callable[[], Device], best: float
) -> None:
    index = made_of_passages(tmp_path)
    card, alone = on_card(index, device()), on_card(index, device(), leave_out=("rows",))
    query = Encoded(sp.csr_array(exact(10, (1, VOCAB), 0.5)), vectors(20, (1, DIMENSIONS)))
    for options in (SearchOptions(30, best=best), SearchOptions(30, best=best, candidates_from="lexical")):
        ours, others, theirs = (
            one.reader.rank_encoded([Query("q")], query, options)[0] for one in (card, alone, index)
        )
        assert_alike(ours, theirs)
        assert_alike(others, theirs)


def test_documents_of_one_passage_beside_others_have_the_score_of_their_passage(
    tmp_path: Path, device: Callable[[], Device]
) -> None:
    index = made_of_passages(tmp_path)
    vector = np.random.default_rng(7).standard_normal(DIMENSIONS).astype(np.float32)
    found = on_card(index, device()).search_vectors(np.zeros((1, VOCAB)), dense=vector, k=400, mode="dense", lam=1.0)
    scores, plain = dict(zip(found.ids, found.scores, strict=True)), index.reader.snapshot.segments[1]
    assert plain.dense is not None
    products = plain.dense[:].astype(np.float32) @ vector
    for row in plain.live_row_numbers().tolist():
        assert scores[f"b{row}"] == pytest.approx(products[row], rel=1e-5, abs=1e-5)


def test_the_memory_of_passages_is_counted(tmp_path: Path) -> None:
    cut, plain, _ = made_of_passages(tmp_path).reader.snapshot.segments
    passages = layout.passage_count(cut)
    assert passages > 5 * cut.rows
    sizes = upload.sizes_of(cut, (), 16, pooled=True)
    assert sizes["dense"] == passages * 16 * 2 + 4 * (cut.rows + 1) + 4 * passages  # 12 dimensions take 16
    assert sizes["search"] > 32 * 4 * passages
    alone, beside = (upload.sizes_of(plain, (), 16, pooled)["search"] for pooled in (False, True))
    assert beside - alone == 32 * 4 * plain.rows
    without = [upload.sizes_of(cut, ("dense",), 16, pooled) for pooled in (False, True)]
    assert without[0] == without[1]
    device = NumpyDevice()
    with device.using():
        held = upload.upload_segment(device, device.compile(256, 1, DIMENSIONS), cut, (), 16)
    assert held.sizes["dense"] == sizes["dense"]


def test_an_index_of_passages_without_dense_vectors_searches_words_alone(
    tmp_path: Path, device: Callable[[], Device]
) -> None:
    index = made_of_passages(tmp_path)
    card = on_card(index, device(), leave_out=("dense",))
    query = exact(10, (1, VOCAB), 0.5)
    for group in (True, False):
        found = card.search_vectors(query, k=30, group=group)
        assert pairs(found) == pairs(index.search_vectors(query, k=30, group=group))
        assert found.passages == index.search_vectors(query, k=30, group=group).passages


def test_tiles_cover_every_passage_once() -> None:
    for passages in (1, 127, 128, 129, 1000):
        tiles = layout.passage_tiles(passages, 128)
        rows = [row for tile in tiles for row in range(tile["first"], tile["first"] + tile["count"])]
        assert rows == list(range(passages))
        assert (tiles["count"][:-1] == 128).all()


# Threads


WHERE = (None, {"n": {"lt": 40}}, {"n": {"gte": 100}}, {"n": {"gte": 20, "lt": 30}})


def test_threads_search_and_filter_while_others_add_and_refresh(tmp_path: Path, device: Callable[[], Device]) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25", filterable=["n"])
    index.add(_foxes(0, 150))
    asked = [("a fox and word3", where, k) for where in WHERE for k in (5, 40)]
    expected = [[pairs(index.search(text, k=k, where=where)) for text, where, k in asked]]
    for _ in range(4):  # what each commit must answer, from an index that only the CPU searches
        index.add(_foxes(len(index), len(index) + 60))
        expected.append([pairs(index.search(text, k=k, where=where)) for text, where, k in asked])
    again = Index.create(tmp_path / "again.idx", "bm25", filterable=["n"])
    again.add(_foxes(0, 150))
    card = on_card(again, device())
    done, wrong = threading.Event(), []

    def searching(at: int) -> None:
        text, where, k = asked[at]
        right = [commit[at] for commit in expected]
        while not done.is_set():
            found = pairs(card.search(text, k=k, where=where))
            if found not in right:
                wrong.append((at, found))

    def changing() -> None:
        for start in range(150, 390, 60):
            again.add(_foxes(start, start + 60))
            card.refresh()

    def refreshing() -> None:
        while not done.is_set():
            card.refresh()

    with ThreadPoolExecutor(len(asked) + 2) as pool:
        work = [pool.submit(searching, at) for at in range(len(asked))] + [pool.submit(refreshing)]
        try:
            changing()
        finally:
            done.set()
        for one in work:
            one.result()
    assert wrong == []
    assert [pairs(card.search(text, k=k, where=where)) for text, where, k in asked] == expected[-1]


def _foxes(start: int, end: int) -> Iterator[dict[str, Any]]:
    return ({"id": f"d{n}", "text": "fox " * (n % 7) + f"word{n % 50} fox", "n": n} for n in range(start, end))


def test_a_search_goes_on_while_a_segment_is_read_from_disk(tmp_path: Path) -> None:
    index = made(tmp_path, exact(1, (200, VOCAB)))
    reached, searched = threading.Event(), threading.Event()

    class SlowlyRead(NumpyDevice):
        def put(self, array: Rows) -> Rows:
            if waiting:
                reached.set()
                assert searched.wait(60)  # as if the file came from a slow disk
            return super().put(array)

    waiting: list[bool] = []
    card = on_card(index, SlowlyRead())
    card.search_vectors(np.ones((1, VOCAB)))
    index.add_vectors(["new"], np.full((1, VOCAB), 100, np.float32))
    waiting.append(True)
    with ThreadPoolExecutor(1) as pool:
        refreshed = pool.submit(card.refresh)
        assert reached.wait(60)
        assert "new" not in card.search_vectors(np.ones((1, VOCAB))).ids
        searched.set()
        assert refreshed.result()
    assert card.search_vectors(np.ones((1, VOCAB))).ids[0] == "new"


def test_a_gpu_used_outside_of_its_turn_raises(device: Callable[[], Device]) -> None:
    made = device()
    for use in (made.wait, made.free_bytes, partial(made.zeros, 1, np.uint8), partial(made.pinned, 1, np.uint8)):
        with pytest.raises(RuntimeError, match="outside of its turn"):
            use()
        with made.using():
            use()


def test_two_threads_that_refresh_load_a_segment_once(tmp_path: Path) -> None:
    index, device = made(tmp_path, exact(1, (200, VOCAB))), NumpyDevice()
    reader = on_card(index, device).reader
    index.add_vectors(["new"], np.full((1, VOCAB), 100, np.float32))
    with ThreadPoolExecutor(2) as pool:
        first, second = (one.result() for one in [pool.submit(reader.moved, Snapshot(index.path)) for _ in range(2)])
    for ours, theirs in zip(segments_on(first), segments_on(second), strict=True):
        assert ours is theirs


# Too little memory


def test_a_commit_the_gpu_has_no_room_for_stands_and_the_one_before_is_searched(tmp_path: Path) -> None:
    index, device = made(tmp_path, exact(1, (200, VOCAB))), NumpyDevice()
    card, query = on_card(index, device), np.ones((1, VOCAB))
    before = pairs(card.search_vectors(query))
    index.add_vectors([f"new{n}" for n in range(400)], exact(2, (400, VOCAB)))
    for room in (100, 10_000, 50_000):
        free, device.free = device.free, room
        with pytest.raises(NotShownError, match=r"commit 2 was made, but .* Searches still use commit 1") as told:
            card.refresh()
        assert (told.value.generation, told.value.shown) == (2, 1)
        assert device.free == room  # while the error is at hand
        assert pairs(card.search_vectors(query)) == before
        device.free = free
    assert card.refresh() is True
    assert pairs(card.search_vectors(query)) == pairs(index.search_vectors(query))


def test_who_adds_what_the_gpu_has_no_room_for_is_told_that_it_stands(tmp_path: Path) -> None:
    index, device = made(tmp_path, exact(1, (200, VOCAB))), NumpyDevice()
    card, query = on_card(index, device), np.ones((1, VOCAB))
    free, device.free = device.free, 10_000
    with pytest.raises(NotShownError, match=r"commit 2 was made, but cannot be opened \(.*free"):
        card.add_vectors([f"new{n}" for n in range(400)], exact(2, (400, VOCAB)))
    assert (len(card), len(Index.open(index.path))) == (200, 600)
    device.free = free
    assert card.refresh() is True
    assert pairs(card.search_vectors(query)) == pairs(Index.open(index.path).search_vectors(query))


def test_memory_that_ends_while_a_segment_is_taken_in_leaves_nothing_behind(tmp_path: Path) -> None:
    index = made(tmp_path, exact(1, (700, VOCAB)), vectors(2, (700, DIMENSIONS)))

    class Promising(NumpyDevice):
        """Another process takes the memory that was free when it was asked for."""

        def free_bytes(self) -> int:
            super().free_bytes()
            return 1 << 40

    free = NumpyDevice()
    whole = on_card(index, free)
    taken = (1 << 40) - free.free
    for room in range(1000, taken, taken // 20):
        device = Promising(room)
        with pytest.raises(GpuMemoryError, match="asked for"):
            on_card(index, device)
        assert device.free == room
    del whole
    assert free.free == 1 << 40


def test_an_error_that_a_commit_is_not_shown_can_be_sent_to_another_process() -> None:
    error = pickle.loads(pickle.dumps(NotShownError("my.idx", 3, 2, "too small")))
    assert (str(error), error.generation, error.shown) == (str(NotShownError("my.idx", 3, 2, "too small")), 3, 2)


# The layout, by eye and by law


def test_postings_of_one_bank_go_to_different_places_of_a_thread() -> None:
    rows = np.array([0, 1, 2, 32, 33, 64, 5, 6, 7], np.uint16)  # banks 0 1 2 0 1 0 5 6 7
    placed, values = arranged(rows, np.arange(1, 10, dtype=np.uint8))
    # by rank and bank: 0 1 2 5 6 7 | 32 33 | 64; two threads take them in turn
    assert placed.tolist() == [0, 2, 6, 32, 64, 0, 0, 0, 1, 5, 7, 33, 0, 0, 0, 0]
    assert values.tolist() == [1, 3, 8, 4, 6, 0, 0, 0, 2, 7, 9, 5, 0, 0, 0, 0]


@pytest.mark.parametrize("count", [1, 8, 31, 210, 256, 700])
def test_32_threads_meet_few_banks_twice(count: int) -> None:
    rows = np.sort(np.random.default_rng(count).permutation(8192)[:count]).astype(np.uint16)
    placed, values = arranged(rows, np.full(count, 9, np.uint8))
    assert sorted(placed[values > 0].tolist()) == rows.tolist()
    meetings = [np.bincount(row[row_values > 0] % 32).max(initial=0) for row, row_values in _steps(placed, values)]
    crowded = np.bincount(rows % 32).max()
    assert sum(meetings) <= max(8, crowded) + 2 * len(meetings) // 3


def _steps(rows: Rows, values: Rows) -> Iterator[tuple[Rows, Rows]]:
    """What the threads of a warp load together."""
    for start in range(0, len(rows), 256):
        unit, unit_values = rows[start : start + 256].reshape(-1, 8), values[start : start + 256].reshape(-1, 8)
        yield from zip(unit.T, unit_values.T, strict=True)


def test_structs_have_the_sizes_of_the_kernels() -> None:
    assert (layout.ENTRY.itemsize, layout.TILE.itemsize, layout.QUERY.itemsize) == (8, 120, 104)
    assert RECORD.size == layout.QUERY.itemsize
    assert WIDE.largest == layout.LARGEST_SCORE


def test_tiles_cover_every_row_once() -> None:
    for docs in (1, 15, 16, 17, 64, 65, 300):
        tiles = layout.tiles(docs, 64, 16)
        rows = [row for tile in tiles for row in range(tile["first"], tile["first"] + tile["count"])]
        assert rows == list(range(docs))


def test_damaged_lists_are_refused(tmp_path: Path) -> None:
    (segment,) = Snapshot(made(tmp_path, exact(1, (100, VOCAB))).path).segments
    starts = np.array(segment.postings.starts)
    starts[3] = 10**6
    object.__setattr__(segment.postings, "starts", starts)
    with pytest.raises(IndexFormatError, match="damaged"):
        layout.directory(segment.postings)


# What a user hears


def test_an_index_that_does_not_fit_is_refused_with_the_figures_and_ways_out(tmp_path: Path) -> None:
    index = made(tmp_path, exact(1, (700, VOCAB)))
    with pytest.raises(InputError, match=r"numpy has 0.0 GB free and the index takes 0.0 GB \(postings .*without rows"):
        on_card(index, NumpyDevice(free=10_000))
    small = on_card(index, NumpyDevice(free=600_000), leave_out=("rows",))
    assert small.search_vectors(np.ones((1, VOCAB)), k=3).ids == index.search_vectors(np.ones((1, VOCAB)), k=3).ids


def test_a_card_without_dense_vectors_searches_words_alone(tmp_path: Path) -> None:
    index = made(tmp_path, exact(1, (50, VOCAB)), vectors(2, (50, DIMENSIONS)))
    card = on_card(index, NumpyDevice(), leave_out=("dense",))
    query = np.ones((1, VOCAB))
    assert pairs(card.search_vectors(query, k=9)) == pairs(index.search_vectors(query, k=9))
    with pytest.raises(InputError, match="holds no dense vectors"):
        card.search_vectors(query, dense=np.ones(DIMENSIONS))


@pytest.mark.parametrize("leave_out", [("texts",), "rows"])
def test_what_a_card_cannot_leave_out_is_refused(leave_out: Any) -> None:
    with pytest.raises(InputError, match="leave_out"):
        OpenOptions("cuda", leave_out)


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:a", "cuda:-1", "cuda0", ""])
def test_an_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="device is"):
        device_numbers(name, 2)


def test_devices_have_numbers() -> None:
    assert [device_numbers(name, 2) for name in ("cuda", "cuda:1", "cuda:0,1", "cuda:0,0")] == [
        [0],
        [1],
        [0, 1],
        [0, 0],
    ]
    with pytest.raises(InputError, match="there is no GPU 2; this machine has 2"):
        device_numbers("cuda:2", 2)


def test_without_cupy_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = made(tmp_path, exact(1, (5, VOCAB)))
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'denslice\[gpu\]'"):
        open_index(index.path, device="cuda")


@pytest.mark.parametrize("arguments", [["search", "INDEX", "fox"], ["run", "INDEX", "QUERIES", "--out", "RUN"]])
def test_the_command_line_searches_on_a_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add({"id": f"d{n}", "text": "fox " * (n % 5) + "and hare"} for n in range(100))
    (tmp_path / "queries.tsv").write_text("q1\tfox hare\nq2\thare\n")
    monkeypatch.setattr("denslice.search.gpu.gpu_searcher.cuda_devices", lambda name: [NumpyDevice()])
    told = []
    for name, options in (
        ("cpu", []),
        ("cuda", ["--device", "cuda"]),
        ("less", ["--device", "cuda", "--leave-out", "rows"]),
    ):
        places = {"INDEX": index.path, "QUERIES": tmp_path / "queries.tsv", "RUN": tmp_path / name}
        given = [str(places.get(one, one)) for one in arguments]
        found = CliRunner().invoke(app, [*given, "-k", "7", *options])
        assert found.exit_code == 0, found.output
        told.append(places["RUN"].read_text() if arguments[0] == "run" else found.stdout)
    assert told[0] == told[1] == told[2]
    assert told[0]


@pytest.mark.parametrize(
    "arguments",
    [["bench", "gpu"], ["search", "INDEX", "fox", "--device", "cuda"], ["serve", "INDEX", "--device", "cuda"]],
)
def test_without_cupy_the_command_line_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    index = made(tmp_path, exact(1, (5, VOCAB)))
    monkeypatch.setitem(sys.modules, "cupy", None)
    found = CliRunner().invoke(app, [str(index.path) if one == "INDEX" else one for one in arguments])
    assert found.exit_code == 2
    assert found.stderr == "error: search on a GPU needs optional packages: pip install 'denslice[gpu]'\n"


def test_the_benchmark_s_documents_can_be_told_again() -> None:
    for zipf in (False, True):
        collection = SyntheticCollection(1000, 768, zipf)
        keys, weights = collection.drawn(np.arange(300))
        assert (keys // 39 == np.arange(768)).all()
        assert 0.09 < weights.min() < weights.max() <= HEAVIEST
        share = np.bincount((keys % 39).ravel(), minlength=39) / keys.size
        likely = 1 / np.arange(1, 40) if zipf else np.ones(39)
        np.testing.assert_allclose(share, likely / likely.sum(), atol=0.003)
        again, same = collection.drawn(np.array([7]))
        assert (again[0] == keys[7]).all()
        assert (same[0] == weights[7]).all()
        assert len(collection.query(3, 64).keys) == 64
