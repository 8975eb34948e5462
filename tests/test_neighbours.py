"""Large segments' dense vectors through faiss: it proposes rows, and the scores are those of the vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from denslice import Index, IndexFormatError, Ranking
from denslice.store import neighbours

pytest.importorskip("faiss")
ROWS, VOCAB, DIMENSIONS = 1500, 40, 12
Rows = npt.NDArray[np.float32]


@pytest.fixture
def vectors() -> tuple[Rows, Rows]:
    """Lexical and dense vectors of documents in a dozen groups."""
    random = np.random.default_rng(5)
    weights = random.integers(1, 9, (ROWS, VOCAB)) * (random.random((ROWS, VOCAB)) < 0.1) / 4
    centres = random.normal(size=(12, DIMENSIONS))
    dense = centres[random.integers(0, 12, ROWS)] + 0.4 * random.normal(size=(ROWS, DIMENSIONS))
    return weights.astype(np.float32), dense.astype(np.float32)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vectors: tuple[Rows, Rows]) -> Index:
    """One segment with neighbours and one too small for them."""
    monkeypatch.setattr(neighbours, "FROM", 1000)
    index = Index.create(tmp_path / "my.idx", "vectors", vocab=VOCAB, slices=10)
    weights, dense = vectors
    names = [f"d{number}" for number in range(ROWS)]
    index.add_vectors(names[:1200], weights[:1200], dense=dense[:1200])
    index.add_vectors(names[1200:], weights[1200:], dense=dense[1200:])
    return index


def files(index: Index) -> list[Path]:
    return sorted(Path(index.path).rglob(neighbours.NAME))


def same(one: Ranking, other: Ranking) -> None:
    assert one.ids == other.ids
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-6)


@pytest.mark.parametrize("mode", ["hybrid", "dense"])
def test_with_room_for_every_document_it_is_exact(
    index: Index, vectors: tuple[Rows, Rows], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "LOOKED_AT", 1.0)
    assert len(files(index)) == 1
    weights, dense = vectors
    for row in range(0, ROWS, 100):
        asked = {"dense": dense[row], "k": 20, "mode": mode, "lam": 2.0}
        found = index.search_vectors(weights[row], candidates=ROWS, **asked)
        same(found, index.search_vectors(weights[row], candidates_from="all", **asked))


def test_some_lists_and_few_candidates_find_nearly_all_with_exact_scores(
    index: Index, vectors: tuple[Rows, Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "LOOKED_AT", 0.25)
    weights, dense = vectors
    shared = []
    for row in range(0, ROWS, 50):
        asked = {"dense": dense[row], "k": 10, "lam": 2.0}
        found = index.search_vectors(weights[row], candidates=100, **asked)
        exact = index.search_vectors(weights[row], candidates_from="all", **{**asked, "k": ROWS})
        scores = dict(zip(exact.ids, exact.scores, strict=True))
        np.testing.assert_allclose(found.scores, [scores[id] for id in found.ids], rtol=1e-6)
        shared.append(len(set(found.ids) & set(exact.ids[:10])) / 10)
    assert np.mean(shared) > 0.9


def test_deleted_documents_are_not_proposed(index: Index, vectors: tuple[Rows, Rows]) -> None:
    _, dense = vectors
    asked = {"dense": dense[0], "k": 30, "mode": "dense"}
    nothing = np.zeros(VOCAB, np.float32)
    before = index.search_vectors(nothing, **asked)
    index.delete(before.ids[::2])
    after = index.search_vectors(nothing, **asked)
    assert len(after.ids) == 30
    assert not set(after.ids) & set(before.ids[::2])
    assert after.ids[:15] == before.ids[1::2]


def test_a_merge_writes_neighbours_of_everything(index: Index) -> None:
    index.merge()
    assert len(files(index)) >= 1
    assert neighbours.NAME in index._view.snapshot.segments[0].entry.files
    assert index._view.snapshot.segments[0].rows == ROWS


def test_without_faiss_search_looks_at_every_vector(
    index: Index, vectors: tuple[Rows, Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, dense = vectors
    exact = index.search_vectors(weights[3], dense=dense[3], k=20, candidates_from="all")
    monkeypatch.setattr(neighbours, "is_installed", lambda: False)
    reopened = Index.open(index.path)
    same(reopened.search_vectors(weights[3], dense=dense[3], k=20, candidates=1), exact)


def test_damage_is_told(index: Index, vectors: tuple[Rows, Rows]) -> None:
    weights, dense = vectors
    (path,) = files(index)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    with pytest.raises(IndexFormatError, match=neighbours.NAME):
        Index.open(index.path).search_vectors(weights[0], dense=dense[0])
