"""Clusters of dense vectors: how they are made and stored, and search that reads the nearest of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse as sp

from denslice import Doc, Index, IndexFormatError, InputError, open_index, profiled
from denslice.clustering import clustered
from denslice.grouping import document_scores
from denslice.index.upgrade import upgrade
from denslice.options import FEW_PASSAGES, USUAL_PRUNING, SearchOptions
from denslice.rankings import Ranking
from denslice.records import Place
from denslice.search.cpu.addresses import Parts
from denslice.search.cpu.near_search import MOST_K, _rows_of
from denslice.search.cpu.two_stage import search
from denslice.search.query import NO_MASK, QueryVectors
from denslice.store import dense_vectors
from denslice.store.byte_planes import BytePlanes, on_grid
from denslice.store.container import Container, write_container
from denslice.store.dense_vectors import MANY, DenseVectors, dense_arrays
from denslice.store.folder import Folder
from denslice.store.manifest import BLOCK_ROWS, CLUSTERS
from denslice.store.segment import SEGMENTS, Segment
from denslice.store.segment_writer import SegmentWriter, StoredBatch
from denslice.vectors import Passages, no_weights

DOCS, DIMENSIONS, TOPICS, VOCAB = FEW_PASSAGES + 4_000, 16, 400, 2_000
Floats = npt.NDArray[np.float32]


def drawn(count: int, seed: int) -> tuple[sp.csr_array, Floats]:
    """Words and vectors of documents: both depend on their topic."""
    dice = np.random.default_rng(seed)
    centres = np.random.default_rng(0).standard_normal((TOPICS, DIMENSIONS))
    topic = dice.integers(0, TOPICS, count)
    dense = centres[topic] + 0.7 * dice.standard_normal((count, DIMENSIONS))
    words = np.stack([5 * topic + dice.integers(0, 5, count), dice.integers(0, VOCAB, count)], axis=1)
    weights = np.asarray(dice.uniform(0.5, 2, words.shape), np.float16).astype(np.float32)  # as they are stored
    rows = np.repeat(np.arange(count), 2)
    lexical = sp.csr_array((weights.ravel(), (rows, words.ravel())), shape=(count, VOCAB))
    unit = dense / np.linalg.norm(dense, axis=1, keepdims=True)
    return lexical, on_grid(unit).astype(np.float32)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with more passages than are all read by default; some are deleted, some in a small segment."""
    path = tmp_path_factory.mktemp("large") / "my.idx"
    with Index.create(path, "vectors", vocab=VOCAB) as index:
        weights, dense = stored()
        ids = [f"d{n}" for n in range(DOCS)]
        most = DOCS - 500
        index.add_vectors(ids[:most], weights[:most], dense=dense[:most])
        index.add_vectors(ids[most:], weights[most:], dense=dense[most:])
        index.delete([f"d{n}" for n in range(0, DOCS, 50)])
    return path


@pytest.fixture(scope="module")
def queries() -> tuple[sp.csr_array, Floats]:
    return drawn(40, 2)


def defined(weights: Floats, vector: Floats, lam: float = 1.0) -> Floats:
    """The score of every document by the definition, of -inf if it is deleted."""
    lexical, dense = stored()
    scores: Floats = (lexical @ weights + lam * (dense @ vector)).astype(np.float32)
    scores[np.arange(DOCS) % 50 == 0] = -np.inf
    return scores


@cache
def stored() -> tuple[sp.csr_array, Floats]:
    return drawn(DOCS, 1)


def best(scores: Floats, k: int) -> list[str]:
    ahead = np.argsort(-scores, kind="stable")[: 2 * k].tolist()
    return [f"d{n}" for n in sorted(ahead, key=lambda n: (-scores[n], f"d{n}"))[:k]]


def scores_of(scores: Floats, ids: Iterable[str]) -> list[float]:
    return [float(scores[int(id[1:])]) for id in ids]


def found_share(found: Ranking, expected: list[str]) -> float:
    return len(set(found.ids) & set(expected)) / len(expected)


# --- how clusters are made and stored


def test_each_vector_is_in_one_cluster_and_near_ones_are_together() -> None:
    _, vectors = drawn(20_000, 3)
    made = clustered(vectors.astype(np.float16))
    assert len(made.centres) == round(2 * 20_000**0.5)
    assert sorted(made.members.tolist()) == list(range(20_000))
    assert made.starts[0] == 0
    assert made.starts[-1] == 20_000
    same = clustered(vectors.astype(np.float16))
    assert all(np.array_equal(one, other) for one, other in zip(made, same, strict=True))
    cluster_of = np.searchsorted(made.starts, np.arange(20_000), side="right") - 1
    centres = made.centres.astype(np.float32)
    own = np.einsum("nd,nd->n", vectors[made.members], centres[cluster_of])
    assert (
        own.mean() > np.einsum("nd,nd->n", vectors[made.members], np.roll(centres, 1, axis=0)[cluster_of]).mean() + 0.3
    )


def test_vectors_without_a_direction_and_few_vectors_are_clustered_too() -> None:
    vectors = np.zeros((300, 4), np.float16)
    vectors[:100, 0] = 3
    made = clustered(vectors)
    assert sorted(made.members.tolist()) == list(range(300))
    assert np.isfinite(made.centres.astype(np.float32)).all()
    assert clustered(vectors[:1]).members.tolist() == [0]


def test_stored_vectors_are_read_by_the_numbers_of_their_passages(tmp_path: Path) -> None:
    vectors = on_grid(drawn(MANY, 4)[1])
    stored = write_container(tmp_path / "dense.arrays", dense_arrays(vectors))
    read = DenseVectors.read(Container.mapped(Folder(tmp_path), "dense.arrays", stored), MANY)
    assert read.clusters is not None
    some = np.random.default_rng(1).integers(0, MANY, 100)
    np.testing.assert_array_equal(read[some], vectors[some])
    np.testing.assert_array_equal(read[:], vectors)
    np.testing.assert_array_equal(read[7], vectors[7])
    assert isinstance(read.stored, BytePlanes)
    products = read.stored[:].astype(np.float32) @ np.ones(DIMENSIONS, np.float32)
    np.testing.assert_array_equal(
        read.by_passage(products), vectors.astype(np.float32) @ np.ones(DIMENSIONS, np.float32)
    )
    assert list(dense_arrays(vectors[:-1])) == ["dense"]


@pytest.mark.parametrize(
    "name", ["cluster_starts", "cluster_passages", "cluster_places", "centre_high", "dense_low", "dense_scales"]
)
def test_clusters_that_do_not_fit_are_damage(tmp_path: Path, name: str) -> None:
    arrays = dense_arrays(on_grid(drawn(MANY, 4)[1]))
    wrong = arrays[name].copy()
    if name == "dense_scales":
        wrong = wrong[1:]
    elif wrong.ndim == 2:
        wrong = wrong[:, 1:]
    else:
        wrong[5] = MANY + 1
    stored = write_container(tmp_path / "dense.arrays", {**arrays, name: np.ascontiguousarray(wrong)})
    with pytest.raises(IndexFormatError, match=r"do not fit|holds"):
        DenseVectors.read(Container.mapped(Folder(tmp_path), "dense.arrays", stored), MANY)


def test_an_index_with_clusters_says_that_it_needs_them(large: Path) -> None:
    with open_index(large) as index:
        assert CLUSTERS in index.reader.snapshot.manifest.needs
        assert [s.dense is not None and s.dense.clusters is not None for s in index.reader.snapshot.segments] == [
            True,
            False,
        ]
        index.verify()


def test_an_upgrade_puts_the_vectors_of_an_earlier_version_in_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, dense = drawn(2 * MANY + 200, 5)
    path, spans = tmp_path / "my.idx", (slice(0, MANY + 9), slice(MANY + 9, -90), slice(-90, None))
    ids = [f"d{n}" for n in range(len(dense))]
    with monkeypatch.context() as earlier, Index.create(path, "vectors", vocab=VOCAB) as index:
        earlier.setattr(dense_vectors, "MANY", len(dense) + 1)  # versions before clusters stored all vectors like this
        for span in spans:
            index.add_vectors(ids[span], words[span], dense=dense[span])
        index.delete(["d7", "d40000"])
        before = index.search_vectors(words[:1], dense=dense[0], k=50, pruning=0.0)
    done, again = upgrade(path), upgrade(path)
    assert (done.reason, done.docs, again.reason) == ("vectors put in clusters", len(dense) - 2, "")
    with open_index(path) as index:
        stored = [segment.dense for segment in index.reader.snapshot.segments]
        assert sorted(one is not None and one.clusters is not None for one in stored) == [False, True, True]
        after = index.search_vectors(words[:1], dense=dense[0], k=50, pruning=0.0)
        index.verify()
    assert after.ids == before.ids
    assert after.scores == before.scores


# --- search


@pytest.mark.parametrize("mode", ["hybrid", "dense"])
def test_without_pruning_the_best_of_all_documents_are_found(
    large: Path, queries: tuple[sp.csr_array, Floats], mode: str
) -> None:
    with open_index(large) as index:
        for weights, vector in list(zip(queries[0].toarray(), queries[1], strict=True))[:5]:
            found = index.search_vectors(weights[None], dense=vector, k=20, mode=mode, pruning=0.0, lam=2.0)
            scores = defined(weights if mode == "hybrid" else np.zeros_like(weights), vector, 2.0)
            assert found.exact
            assert list(found.scores) == pytest.approx(scores_of(scores, best(scores, 20)), rel=1e-5)
            assert list(found.scores) == pytest.approx(scores_of(scores, found.ids), rel=1e-5)


@pytest.mark.parametrize("mode", ["hybrid", "dense"])
def test_by_default_few_vectors_of_many_are_read_and_scores_stay_exact(
    large: Path, queries: tuple[sp.csr_array, Floats], mode: str
) -> None:
    shares = []
    with open_index(large) as index:
        for weights, vector in zip(queries[0].toarray(), queries[1], strict=True):
            found = index.search_vectors(weights[None], dense=vector, k=10, mode=mode)
            scores = defined(weights if mode == "hybrid" else np.zeros_like(weights), vector)
            assert not found.exact
            assert list(found.scores) == pytest.approx(scores_of(scores, found.ids), rel=1e-5)
            assert list(found.scores) == sorted(found.scores, reverse=True)
            shares.append(found_share(found, best(scores, 10)))
            same = index.search_vectors(weights[None], dense=vector, k=10, mode=mode, pruning=USUAL_PRUNING)
            assert (same.ids, same.scores) == (found.ids, found.scores)
    assert np.mean(shares) > 0.9


def test_a_filter_that_few_documents_pass_leaves_none_of_them_out(
    large: Path, queries: tuple[sp.csr_array, Floats]
) -> None:
    with open_index(large) as index:
        for part, (weights, vector) in list(enumerate(zip(queries[0].toarray(), queries[1], strict=True)))[1:20]:
            allowed = [f"d{n}" for n in range(part, DOCS, 1_000)]
            found = index.search_vectors(weights[None], dense=vector, k=30, where={"id": {"in": allowed}})
            scores = defined(weights, vector)
            scores[~np.isin(np.arange(DOCS), np.arange(part, DOCS, 1_000))] = -np.inf
            assert list(found.ids) == best(scores, 30)


def test_a_wide_filter_is_searched_by_clusters(large: Path, queries: tuple[sp.csr_array, Floats]) -> None:
    shares = []
    passing = np.array([f"d{n}" < "d5" for n in range(DOCS)])
    with open_index(large) as index:
        for weights, vector in list(zip(queries[0].toarray(), queries[1], strict=True))[:20]:
            found = index.search_vectors(weights[None], dense=vector, k=10, where={"id": {"lt": "d5"}})
            scores = defined(weights, vector)
            scores[~passing] = -np.inf
            assert all(id < "d5" for id in found.ids)
            shares.append(found_share(found, best(scores, 10)))
    assert np.mean(shares) > 0.9


@pytest.mark.parametrize("where", [{"id": {"lt": "d15"}}, {"id": {"lt": "d5"}}, {"id": {"lt": "d100"}}])
@pytest.mark.parametrize("mode", ["hybrid", "dense"])
def test_without_pruning_filters_are_exact_too(
    large: Path, queries: tuple[sp.csr_array, Floats], mode: str, where: dict[str, dict[str, str]]
) -> None:
    passing = np.array([f"d{n}" < where["id"]["lt"] for n in range(DOCS)])
    with open_index(large) as index:
        for weights, vector in list(zip(queries[0].toarray(), queries[1], strict=True))[5:8]:
            found = index.search_vectors(weights[None], dense=vector, k=200, mode=mode, pruning=0.0, where=where)
            scores = defined(weights if mode == "hybrid" else np.zeros_like(weights), vector)
            scores[~passing] = -np.inf
            there = scores_of(scores, best(scores, min(200, int(np.isfinite(scores).sum()))))
            assert list(found.scores) == pytest.approx(there, rel=1e-5)


def test_a_large_k_reads_every_vector(large: Path, queries: tuple[sp.csr_array, Floats]) -> None:
    weights, vector = queries[0].toarray()[0], queries[1][0]
    with open_index(large) as index:
        found = index.search_vectors(weights[None], dense=vector, k=MOST_K + 1)
        assert found.exact
        scores = defined(weights, vector)
        assert list(found.scores) == pytest.approx(scores_of(scores, best(scores, MOST_K + 1)), rel=1e-5)


def test_pages_continue_each_other_by_default(large: Path, queries: tuple[sp.csr_array, Floats]) -> None:
    weights, vector = queries[0].toarray()[1], queries[1][1]
    with open_index(large) as index:
        whole = index.search_vectors(weights[None], dense=vector, k=30)
        pages = [index.search_vectors(weights[None], dense=vector, k=10, offset=offset) for offset in (0, 10, 20)]
        assert [id for page in pages for id in page.ids] == list(whole.ids)


def test_a_query_of_another_width_is_an_error(large: Path) -> None:
    with open_index(large) as index, pytest.raises(InputError, match="dimensions"):
        index.search_vectors(np.zeros((1, VOCAB)), dense=np.ones(DIMENSIONS + 1), k=3)


def test_words_alone_and_small_indexes_are_exact_by_default() -> None:
    assert SearchOptions(mode="lexical").settled(10**9).pruned_vectors == 0
    assert SearchOptions().settled(FEW_PASSAGES).pruned_vectors == 0
    assert SearchOptions().settled(FEW_PASSAGES + 1).pruned_vectors == USUAL_PRUNING
    assert SearchOptions().settled(10**9).pruned_words == 0
    assert SearchOptions(pruning=0.0).settled(10**9).is_exact()
    assert SearchOptions(pruning=0.2).settled(10**9).pruned_vectors == 0.2


def test_a_query_without_a_vector_is_exact_by_default(large: Path) -> None:
    """As is one in a language that the model does not know: words decide."""
    dice = np.random.default_rng(6)
    with open_index(large) as index:
        for _ in range(5):
            weights = np.zeros((1, VOCAB), np.float32)
            weights[0, dice.integers(0, VOCAB, 30)] = dice.uniform(0.1, 2, 30)
            found = index.search_vectors(weights, dense=np.zeros(DIMENSIONS), k=200)
            exact = index.search_vectors(weights, k=200, mode="lexical", pruning=0.0)
            assert (found.ids, found.scores) == (exact.ids, exact.scores)
            assert found.exact
            rough = index.search_vectors(weights, k=200, mode="lexical", pruning=USUAL_PRUNING)
            assert not rough.exact


def test_a_passage_that_is_near_stands_for_its_document(tmp_path: Path) -> None:
    long = " ".join(f"Sentence {n} is about foxes and owls that sleep by day." for n in range(200))
    with Index.create(tmp_path / "my.idx", "mini") as index:
        index.add([{"id": f"d{n}", "text": long[: 4_000 * n]} for n in range(1, 4)], level="quick")
        segment = index.reader.snapshot.segments[0]
        assert segment.passage_counts is not None
        rows = np.repeat(np.arange(segment.rows), segment.passage_counts)
        assert len(rows) > segment.rows
        assert _rows_of(segment, np.arange(len(rows))).tolist() == rows.tolist()


@pytest.mark.parametrize("share_of_best", [0.5, 1.0])
def test_documents_of_several_passages_are_found_exactly(tmp_path: Path, share_of_best: float) -> None:
    """A passage may be near to the query though its document is not, and the other way round."""
    count, each = MANY // 3 + 1, 3
    lexical, _ = drawn(count, 5)
    dense = on_grid(drawn(each * count, 6)[1])
    places = [[Place(9 * n, 9 * n + 9) for n in range(each)]] * count
    tokens = sp.csr_array(lexical[np.repeat(np.arange(count), each)] > 0, dtype=np.float32) * np.float32(0)
    passages = Passages(np.arange(count + 1) * each, tokens, places)
    writer = SegmentWriter(tmp_path / SEGMENTS / "one", BLOCK_ROWS)
    docs = [Doc(f"d{n}", "some text") for n in range(count)]
    writer.add(StoredBatch(docs, lexical, no_weights(*lexical.shape), np.ones(count, np.int64), dense, passages))
    segment = Segment(Folder(tmp_path), writer.finish(), BLOCK_ROWS)
    assert segment.passage_starts is not None
    products = dense.astype(np.float32)
    for row, vector in zip(*drawn(8, 7), strict=True):
        weights = row.toarray().ravel()
        keys = np.flatnonzero(weights)
        for asked in (keys, keys[:0]):
            query = QueryVectors(asked, weights[asked], np.float32(3) * vector)
            options = SearchOptions(k=30, pruning=0.0, best=share_of_best)
            found = search(Parts([segment]), query, options, [NO_MASK])
            pooled = document_scores(
                3 * products @ vector, segment.passage_starts, segment.passage_shares, share_of_best
            )
            scores = pooled + (lexical[:, asked] @ weights[asked] if len(asked) else 0)
            assert found.scores.tolist() == pytest.approx(np.sort(scores)[::-1][:30].tolist(), rel=1e-4)
            assert found.scores.tolist() == pytest.approx([scores[int(id[1:])] for id in found.ids], rel=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["hybrid", "dense"])
def test_a_card_finds_what_the_cpu_finds_without_pruning(
    large: Path, queries: tuple[sp.csr_array, Floats], mode: str
) -> None:
    with open_index(large) as index, open_index(large, device="cuda") as on_card:
        for weights, vector in zip(queries[0].toarray(), queries[1], strict=True):
            asked = {"dense": vector, "k": 50, "mode": mode, "pruning": 0.0}
            here, there = index.search_vectors(weights[None], **asked), on_card.search_vectors(weights[None], **asked)
            assert on_card.search_vectors(weights[None], dense=vector, k=50, mode=mode).exact  # whatever the pruning
            assert list(there.scores) == pytest.approx(list(here.scores), rel=1e-5)
            assert len(set(there.ids) & set(here.ids)) >= 49  # two may have about the same score


def test_a_profile_says_how_many_vectors_a_pruned_search_reads(
    large: Path, queries: tuple[sp.csr_array, Floats]
) -> None:
    weights, dense = queries
    with open_index(large) as index:
        with profiled() as exact:
            index.search_vectors(weights[:1], dense=dense[0], pruning=0.0)
        with profiled() as pruned:
            index.search_vectors(weights[:1], dense=dense[0], lam=20.0)
    assert pruned.counts["vectors"] == exact.counts["vectors"] == DOCS
    assert exact.counts["vectors_read"] >= DOCS
    assert 500 <= pruned.counts["vectors_read"] < 0.2 * DOCS  # the small segment is read whole
    assert 0 < pruned.counts["clusters_read"] < 0.2 * pruned.counts["clusters"]


def test_clusters_far_below_the_threshold_are_not_read(large: Path, queries: tuple[sp.csr_array, Floats]) -> None:
    weights, dense = queries
    with open_index(large) as index:
        with profiled() as profile:
            found = index.search_vectors(weights[:1], dense=dense[0])  # words decide: no vector makes up for them
        exact = index.search_vectors(weights[:1], dense=dense[0], pruning=0.0)
        with profiled() as by_vectors:
            index.search_vectors(weights[:1], dense=dense[0], lam=20.0)
    assert found.ids == exact.ids
    assert profile.counts["clusters_read"] == 0
    assert by_vectors.counts["clusters_read"] > 10
