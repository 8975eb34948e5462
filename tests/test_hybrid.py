"""Dense vectors beside the lexical ones: every mode equals scoring each document by the definition."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from denslice import DensliceWarning, Index, InputError, Slicing, densify
from denslice.gip import gip_full
from denslice.rankings import Ranking
from denslice.search.cpu import two_stage

VOCAB, DIMENSIONS = 12, 3
Rows = npt.NDArray[np.float32]

EXACT = st.integers(-8, 8).map(lambda n: n / 4)  # sums and products of these are exact in float32
WEIGHTS = st.integers(0, 8).map(lambda n: n / 4)


@pytest.fixture(params=["numpy", "compiled loops"], scope="module", autouse=True)
def _small_indexes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small indexes searched as they are shipped to be, and as larger ones are."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "compiled loops":
            patch.setattr(two_stage, "SMALL_INDEX", 0)
        yield


def made(folder: Path, weights: Rows, dense: Rows, slices: int = 4) -> Index:
    index = Index.create(folder / "my.idx", "vectors", vocab=VOCAB, slices=slices, slicing="stride")
    half = len(weights) // 2
    ids = [f"d{n}" for n in range(len(weights))]
    for part in (slice(half), slice(half, None)):  # two segments
        if len(weights[part]):
            index.add_vectors(ids[part], weights[part], dense=dense[part])
    return index


def defined(weights: Rows, dense: Rows, query: Rows, vector: Rows, lam: float, slices: int = 4) -> dict[str, float]:
    """The score of every hit, by the definition: its lexical score is above 0, or both have a dense vector."""
    slicing = Slicing.stride(VOCAB, slices)
    lexical = gip_full(query[None], densify(weights, slicing), slicing)[0]
    hits = np.flatnonzero((lexical > 0) | (dense.any(axis=1) & (lam * vector).any()))
    scores = lexical + lam * (dense @ vector)
    return {f"d{n}": float(scores[n]) for n in hits.tolist()}


def best(scores: dict[str, float], k: int) -> list[tuple[str, float]]:
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


def pairs(ranking: Ranking) -> list[tuple[str, float]]:
    return list(zip(ranking.ids, ranking.scores, strict=True))


@settings(max_examples=60, deadline=None)
@given(
    weights=hnp.arrays(np.float32, st.tuples(st.integers(1, 30), st.just(VOCAB)), elements=WEIGHTS),
    data=st.data(),
    lam=st.sampled_from([0.0, 0.5, 1.0, 4.0]),
    k=st.sampled_from([1, 3, 40]),
)
def test_hybrid_search_is_the_sum_of_both_scores_over_every_hit(
    weights: Rows, data: st.DataObject, lam: float, k: int
) -> None:
    dense = data.draw(hnp.arrays(np.float32, (len(weights), DIMENSIONS), elements=EXACT))
    dense *= data.draw(hnp.arrays(np.bool_, (len(weights), 1)))  # some documents have no dense vector
    weights = weights * data.draw(hnp.arrays(np.bool_, (len(weights), 1)))  # some have no words
    query = data.draw(hnp.arrays(np.float32, VOCAB, elements=WEIGHTS))
    vector = data.draw(hnp.arrays(np.float32, DIMENSIONS, elements=EXACT))
    with tempfile.TemporaryDirectory() as folder:
        index = made(Path(folder), weights, dense)
        found = index.search_vectors(query[None], dense=vector, k=k, lam=lam)
        assert pairs(found) == best(defined(weights, dense, query, vector, lam), k)
        for hit in found:
            assert hit.score == hit.lexical + hit.dense
            why = index.explain_vectors(query[None], hit.id, dense=vector, lam=lam)
            assert (why.lexical, why.dense) == (hit.lexical, hit.dense)
            assert sum(term.contribution for term in why.terms) + why.dense == pytest.approx(hit.score, abs=1e-4)


@settings(max_examples=40, deadline=None)
@given(
    weights=hnp.arrays(np.float32, (20, VOCAB), elements=WEIGHTS),
    dense=hnp.arrays(np.float32, (20, DIMENSIONS), elements=EXACT),
    gone=st.sets(st.integers(0, 19), max_size=12),
)
def test_dense_and_lexical_modes_leave_the_other_side_out_and_deleted_documents_too(
    weights: Rows, dense: Rows, gone: set[int]
) -> None:
    query, vector = np.full(VOCAB, 0.5, np.float32), np.array([1, -0.5, 2], np.float32)
    with tempfile.TemporaryDirectory() as folder:
        index = made(Path(folder), weights, dense)
        index.delete([f"d{n}" for n in gone])
        for settled in (False, True):
            if settled:
                index.merge()
            live = {f"d{n}" for n in range(20)} - {f"d{n}" for n in gone}
            near = defined(np.zeros_like(weights), dense, query, vector, 1.0)
            found = index.search_vectors(query[None], dense=vector, k=7, mode="dense")
            assert pairs(found) == best({id: near[id] for id in live & near.keys()}, 7)
            words = defined(weights, np.zeros_like(dense), query, vector, 1.0)
            found = index.search_vectors(query[None], dense=vector, k=7, mode="lexical")
            assert pairs(found) == best({id: words[id] for id in live & words.keys()}, 7)


def test_documents_without_a_dense_vector_are_found_by_their_words_alone(tmp_path: Path) -> None:
    weights, dense = np.zeros((6, VOCAB), np.float32), np.zeros((6, DIMENSIONS), np.float32)
    weights[1, 0] = weights[4, 0] = 1
    dense[2], dense[3] = [-1, 0, 0], [0, 1, 0]  # of which the second is at right angles to the query
    dense[4] = [-2, 0, 0]
    index = made(tmp_path, weights, dense)
    query, vector = [[0.5, *[0] * (VOCAB - 1)]], [1, 0, 0]
    hybrid = [("d1", 0.5), ("d3", 0.0), ("d2", -1.0), ("d4", -1.5)]
    for k in (1, 2, 3, 4, 10):
        assert pairs(index.search_vectors(query, dense=vector, k=k)) == hybrid[:k]
        found = index.search_vectors(query, dense=vector, k=k, mode="dense")
        assert pairs(found) == [("d3", 0.0), ("d2", -1.0), ("d4", -2.0)][:k]
    assert pairs(index.search_vectors(query, dense=[0, 0, 0])) == [("d1", 0.5), ("d4", 0.5)]
    assert pairs(index.search_vectors(query, dense=[0, 0, 0], mode="dense")) == []
    assert pairs(index.search_vectors(query, dense=vector, mode="dense", lam=0)) == []
    batch = index.search_vectors_batch(np.repeat(query, 3, axis=0), dense=[vector, [0, 0, 0], vector])
    assert [pairs(one) for one in batch] == [hybrid, [("d1", 0.5), ("d4", 0.5)], hybrid]


def test_candidates_from_the_lexical_side_miss_what_only_the_dense_side_finds(tmp_path: Path) -> None:
    weights = np.zeros((3, VOCAB), np.float32)
    weights[0, 1] = weights[1, 1] = 1
    dense = np.array([[0, 0, 0], [1, 0, 0], [9, 0, 0]], np.float32)
    index = made(tmp_path, weights, dense)
    query, vector = weights[:1], np.array([1, 0, 0], np.float32)
    assert index.search_vectors(query, dense=vector).ids == ("d2", "d1", "d0")
    assert index.search_vectors(query, dense=vector, candidates_from="lexical").ids == ("d1", "d0")


def test_as_many_candidates_from_the_lexical_side_are_rescored_as_are_asked_for(tmp_path: Path) -> None:
    weights = np.zeros((40, VOCAB), np.float32)
    weights[:, 1] = np.arange(40, 0, -1)
    dense = np.zeros((40, 3), np.float32)
    dense[20, 0] = 100  # the 21st by words, and by far the first by both
    index = made(tmp_path, weights, dense)
    query, vector = np.eye(1, VOCAB, 1), np.array([1, 0, 0], np.float32)
    for candidates, first in ((10, "d0"), (30, "d20")):
        found = index.search_vectors(query, dense=vector, k=1, candidates=candidates, candidates_from="lexical")
        assert found.ids == (first,)


def test_a_filter_holds_for_documents_that_only_the_dense_side_finds(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "vectors", vocab=2)
    index.add_vectors(["a", "b"], np.eye(2), dense=np.eye(2))
    with pytest.warns(DensliceWarning, match="no document has the field 'year'"):
        assert index.search_vectors(np.zeros((1, 2)), dense=[0, 1], where={"year": 2020}).ids == ()


@pytest.mark.parametrize("dense", [[[1, 2]], [[1, 2], [3, float("nan")]], [[1, 2], [3]], [[1e6, 0], [0, 0]], "ab"])
def test_dense_vectors_that_are_none_are_refused(tmp_path: Path, dense: Any) -> None:
    index = Index.create(tmp_path / "my.idx", "vectors", vocab=2)
    with pytest.raises(InputError, match="dense vectors"):
        index.add_vectors(["a", "b"], np.eye(2), dense=dense)
    assert len(index) == 0


def test_all_documents_have_dense_vectors_of_one_width_or_none_has(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "vectors", vocab=2)
    index.add_vectors(["a"], [[1, 0]], dense=[[1, 2]])
    for other in (None, [[1, 2, 3]]):
        with pytest.raises(InputError, match="do not fit an index with 2"):
            index.add_vectors(["b"], [[0, 1]], dense=other)
    with pytest.raises(InputError, match="the query has 3 dimensions, the index 2"):
        index.search_vectors([[1, 0]], dense=[1, 2, 3])


def test_a_dense_mode_without_dense_vectors_is_refused(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "vectors", vocab=2)
    index.add_vectors(["a"], [[1, 0]])
    for mode in ("dense", "hybrid"):
        with pytest.raises(InputError, match=f"mode {mode} needs dense vectors"):
            index.search_vectors([[1, 0]], mode=mode)
    with pytest.raises(InputError, match="mode must be one of"):
        index.search_vectors([[1, 0]], mode="sparse")
