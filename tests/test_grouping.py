"""Documents of several passages: every search equals scoring each passage and document by the definition."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from denslice import Index, InputError
from denslice.grouping import (
    BEST,
    PASSAGE_SHARE,
    POWER,
    document_scores,
    document_weights,
    documents_of,
    passage_weights,
)
from denslice.index.doc_batches import DocBatch
from denslice.rankings import Ranking
from denslice.records import Doc, Place
from denslice.search.cpu import two_stage
from denslice.vectors import Encoded, lexical_csr

VOCAB, DIMENSIONS = 12, 4
Rows = npt.NDArray[np.float32]
Name = TypeVar("Name")  # of a document or a passage


@pytest.fixture(params=["numpy", "compiled loops"], scope="module", autouse=True)
def _small_indexes(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "compiled loops":
            patch.setattr(two_stage, "SMALL_INDEX", 0)
        yield


@dataclass(frozen=True)
class Collection:
    """Documents with random vectors for each of their passages."""

    counts: list[int]  # passages of each document
    weights: Rows  # (passages, VOCAB)
    dense: Rows  # (passages, DIMENSIONS)
    sizes: list[int]  # characters of each passage

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.counts)])

    def batch(self, first: int, last: int, name: str = "d") -> tuple[list[Doc], Encoded]:
        """Some documents as they are given to a writer."""
        cut = slice(self.starts[first], self.starts[last])
        passages = Encoded(lexical_csr(self.weights[cut]), self.dense[cut])
        places = [self.places(at) for at in range(first, last)]
        return [Doc(f"{name}{at}", "x" * places[at - first][-1].end) for at in range(first, last)], documents_of(
            passages, places
        )

    def places(self, at: int) -> list[Place]:
        ends = np.cumsum([0, *self.sizes[self.starts[at] : self.starts[at + 1]]]).tolist()
        return [Place(start, end, f"part {number}") for number, (start, end) in enumerate(pairwise(ends))]


@st.composite
def collections(draw: st.DrawFn, largest: int = 9) -> Collection:
    counts = draw(st.lists(st.one_of(st.just(1), st.integers(1, largest)), min_size=1, max_size=8))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    total = sum(counts)
    weights = as_stored(random.random((total, VOCAB)) * (random.random((total, VOCAB)) < 0.4))
    dense = random.normal(size=(total, DIMENSIONS)).astype(np.float16).astype(np.float32)
    dense[random.random(total) < 0.1] = 0
    return Collection(counts, weights, dense, random.integers(1, 50, total).tolist())


def as_stored(weights: npt.NDArray[np.float64]) -> Rows:
    """Weights of passages rounded as documents are made of them."""
    return weights.astype(np.float16).astype(np.float32)


def made(folder: Path, collection: Collection) -> Index:
    index = Index.create(folder / "my.idx", "vectors", vocab=VOCAB)
    half = len(collection.counts) // 2
    for first, last in ((0, half), (half, len(collection.counts))):  # two segments
        if first < last:
            add(index, collection.batch(first, last))
    return index


def add(index: Index, batch: DocBatch) -> None:
    index.write(lambda writer: writer.add_encoded([batch]), 10.0)


def defined_documents(collection: Collection, query: Rows, vector: Rows | None) -> dict[str, float]:
    """The score of every document that is a hit."""
    weights = document_weights(lexical_csr(collection.weights), collection.starts)
    lexical = weights.toarray().astype(np.float16).astype(np.float32) @ query
    if vector is None:
        return {f"d{at}": float(score) for at, score in enumerate(lexical) if score > 0}
    shares = np.concatenate(
        [np.array([p.end - p.start for p in collection.places(at)]) for at in range(len(collection.counts))]
    ).astype(np.float64)
    shares /= np.repeat(np.add.reduceat(shares, collection.starts[:-1]), collection.counts)
    dense = document_scores(collection.dense @ vector, collection.starts, shares.astype(np.float32))
    has_vector = np.logical_or.reduceat(collection.dense.any(axis=1), collection.starts[:-1])
    hits = np.flatnonzero((lexical > 0) | has_vector)
    return {f"d{at}": float(lexical[at] + dense[at]) for at in hits.tolist()}


def defined_passages(collection: Collection, query: Rows, vector: Rows | None) -> dict[tuple[str, int], float]:
    """The score of every passage that is a hit."""
    weights = document_weights(lexical_csr(collection.weights), collection.starts).toarray()
    scores = {}
    for at, count in enumerate(collection.counts):
        rows = slice(collection.starts[at], collection.starts[at + 1])
        having = collection.weights[rows] > 0
        stored = weights[at].astype(np.float16).astype(np.float32)
        own = passage_weights(stored, count, having.sum(axis=0))
        for number, row in enumerate(range(rows.start, rows.stop)):
            lexical = float((having[number] * own) @ query)
            dense = 0.0 if vector is None else PASSAGE_SHARE * float(collection.dense[row] @ vector)
            if lexical > 0 or (vector is not None and collection.dense[row].any()):
                scores[f"d{at}", number] = lexical + dense
    return scores


def assert_best(found: Sequence[tuple[Name, float]], scores: Mapping[Name, float], k: int) -> None:
    """Each has the score of the definition, and no other has a higher one."""
    assert len(found) == min(k, len(scores)) == len({name for name, _ in found})
    assert [score for _, score in found] == pytest.approx([scores[name] for name, _ in found], rel=1e-3, abs=1e-4)
    best = sorted(scores.values(), reverse=True)[:k]
    assert [score for _, score in found] == pytest.approx(best, rel=1e-3, abs=1e-4)


def searched(index: Index, query: Rows, vector: Rows | None, k: int, group: bool = True) -> Ranking:
    return index.search_vectors(lexical_csr(query[None]), dense=vector, k=k, lam=1.0, group=group)


@given(collections(), st.integers(0, 2**32 - 1), st.sampled_from(["lexical", "dense", "hybrid"]), st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_documents_and_passages_are_ranked_by_the_definition(
    collection: Collection, seed: int, mode: str, k: int
) -> None:
    random = np.random.default_rng(seed)
    query = (random.random(VOCAB) * (random.random(VOCAB) < 0.5) * (mode != "dense")).astype(np.float32)
    vector = None if mode == "lexical" else random.normal(size=DIMENSIONS).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder, made(Path(folder), collection) as index:
        documents = searched(index, query, vector, k)
        assert_best(
            list(zip(documents.ids, documents.scores, strict=True)), defined_documents(collection, query, vector), k
        )
        passages = searched(index, query, vector, k, group=False)
        names = list(zip(passages.ids, passages.passages, strict=True))
        assert_best(list(zip(names, passages.scores, strict=True)), defined_passages(collection, query, vector), k)
        for ranking in (documents, passages):
            for why, score in zip(ranking.explanations(), ranking.scores, strict=True):
                assert why.score == pytest.approx(score, rel=1e-4, abs=1e-4)
                assert sum(term.contribution for term in why.terms) + why.dense == pytest.approx(why.score)
                assert why.best + why.mean in (0, pytest.approx(why.dense))


@given(collections(largest=300), st.integers(0, 2**32 - 1))
@settings(max_examples=15, deadline=None)
def test_passages_of_very_long_documents_are_ranked_by_the_definition(collection: Collection, seed: int) -> None:
    random = np.random.default_rng(seed)
    query, vector = random.random(VOCAB).astype(np.float32), random.normal(size=DIMENSIONS).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder, made(Path(folder), collection) as index:
        passages = searched(index, query, vector, 7, group=False)
        names = list(zip(passages.ids, passages.passages, strict=True))
        assert_best(list(zip(names, passages.scores, strict=True)), defined_passages(collection, query, vector), 7)


@given(collections(), st.integers(0, 2**32 - 1))
@settings(max_examples=25, deadline=None)
def test_a_hit_shows_its_best_passages_where_they_are(collection: Collection, seed: int) -> None:
    random = np.random.default_rng(seed)
    query, vector = random.random(VOCAB).astype(np.float32), random.normal(size=DIMENSIONS).astype(np.float32)
    scores = defined_passages(collection, query, vector)
    with tempfile.TemporaryDirectory() as folder, made(Path(folder), collection) as index:
        for hit in searched(index, query, vector, 20):
            at = int(hit.id[1:])
            of_hit = {number: score for (id, number), score in scores.items() if id == hit.id}
            best = sorted(of_hit.values(), reverse=True)[:3]
            shown = [passage.score for passage in hit.passages if passage.number in of_hit]
            assert shown[: len(best)] == pytest.approx(best, rel=1e-3, abs=1e-3)
            for passage in hit.passages:
                place = collection.places(at)[passage.number]
                expected = (place.start, place.end, place.heading) if collection.counts[at] > 1 else (0, place.end, "")
                assert (passage.start, passage.end, passage.heading) == expected
                assert passage.text == hit.text[passage.start : passage.end]


@given(collections(), collections(), st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_replacing_deleting_and_merging_leave_the_passages_of_the_live_documents(
    old: Collection, new: Collection, seed: int
) -> None:
    random = np.random.default_rng(seed)
    query, vector = random.random(VOCAB).astype(np.float32), random.normal(size=DIMENSIONS).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder, made(Path(folder), old) as index:
        add(index, new.batch(0, len(new.counts)))
        kept = {f"d{at}" for at in range(len(new.counts), len(old.counts))}
        expected = defined_passages(new, query, vector)
        expected |= {name: s for name, s in defined_passages(old, query, vector).items() if name[0] in kept}
        for change in (lambda: None, index.merge, lambda: index.update("d0", {"year": 1999})):
            change()
            found = searched(index, query, vector, 500, group=False)
            names = list(zip(found.ids, found.passages, strict=True))
            assert_best(list(zip(names, found.scores, strict=True)), expected, 500)
        index.delete(["d0"])
        index.merge()
        assert "d0" not in searched(index, query, vector, 500, group=False).ids
        index.verify()


def test_a_document_of_one_passage_has_the_weights_and_the_score_of_that_passage() -> None:
    weights = lexical_csr(np.array([[0.3, 0, 1.7], [0, 0.1, 0]], np.float32))
    starts = np.array([0, 1, 2])
    assert np.array_equal(document_weights(weights, starts).toarray(), weights.toarray())
    scores = np.array([0.1, -2.7], np.float32)
    assert np.array_equal(document_scores(scores, starts, np.ones(2, np.float32)), scores)


def test_weights_of_documents_are_the_power_mean_of_their_passages() -> None:
    weights = lexical_csr(np.array([[1.0, 0.5], [1.0, 0.0], [0.0, 0.0]], np.float32))
    found = document_weights(weights, np.array([0, 3])).toarray()[0]
    assert found == pytest.approx([(2 / 3) ** (1 / POWER), (0.5**POWER / 3) ** (1 / POWER)])
    assert passage_weights(found, 3, np.array([2, 1])) == pytest.approx([1.0, 0.5])


def test_the_weights_of_several_passages_are_rounded_to_float16_before_their_mean() -> None:
    weights = np.array([[0.1, 0.7, 1e-9], [0.3, 0.0, 0.0], [0.1, 0.0, 1e-9]], np.float32)
    found = documents_of(Encoded(lexical_csr(weights)), [[Place(0, 1), Place(1, 2)], [Place(0, 1)]])
    assert found.passages is not None
    tenth, rest, third = np.array([0.1, 0.7, 0.3], np.float16).astype(np.float64)
    assert found.passages.tokens.toarray().tolist() == [[tenth, rest, 0], [third, 0, 0], [0, 0, 0]]
    assert found.passages.tokens.nnz == 3
    mean = np.float32(((tenth**POWER + third**POWER) / 2) ** (1 / POWER))
    assert found.lexical.toarray()[0].tolist() == [mean, np.float32((rest**POWER / 2) ** (1 / POWER)), 0]
    assert found.lexical.toarray()[1].tolist() == weights[2].tolist()  # of one passage: rounded when it is stored
    exact = document_weights(lexical_csr(weights), np.array([0, 2, 3])).toarray()
    assert found.lexical.toarray() == pytest.approx(exact, rel=2**-11, abs=2**-25)


def test_a_weight_of_a_passage_too_large_for_float16_is_refused() -> None:
    weights = lexical_csr(np.array([[70_000.0], [1.0]], np.float32))
    with pytest.raises(InputError, match="weight 70000 is too large: at most 65,504 can be stored"):
        documents_of(Encoded(weights), [[Place(0, 1), Place(1, 2)]])


def test_the_best_passage_has_a_quarter_of_the_dense_score_of_two_and_half_that_of_many() -> None:
    scores, shares = np.array([1.0, 4.0], np.float32), np.array([0.75, 0.25], np.float32)
    assert document_scores(scores, np.array([0, 2]), shares) == pytest.approx([0.25 * 4 + 0.75 * 1.75])
    many = np.zeros(1_000, np.float32)
    many[7] = 1
    expected = BEST - (1 - BEST) / 1_000
    assert document_scores(many, np.array([0, 1_000]), np.zeros(1_000, np.float32)) == pytest.approx([expected])
    assert document_scores(scores, np.array([0, 2]), shares, best=1.0) == pytest.approx([4.0])


def test_the_best_passage_is_found_in_a_document_that_ranks_low_itself() -> None:
    counts = [1] * 30 + [256]
    weights = np.zeros((sum(counts), VOCAB), np.float32)
    weights[:30, 0], weights[200, 0] = 0.5, 1.0  # the long document weighs 1 / 256^¼ = 0.25
    collection = Collection(counts, weights, np.zeros((len(weights), DIMENSIONS), np.float32), [1] * len(weights))
    query = np.eye(VOCAB, dtype=np.float32)[0]
    with tempfile.TemporaryDirectory() as folder, made(Path(folder), collection) as index:
        assert searched(index, query, None, 1).ids == ("d0",)
        best = searched(index, query, None, 1, group=False)
        assert (best.ids, best.passages, best.scores) == (("d30",), (170,), (1.0,))


def test_the_best_passage_is_found_in_a_document_whose_other_passages_are_far_from_the_query() -> None:
    dense = np.zeros((60, DIMENSIONS), np.float32)
    dense[:, 0] = np.tile([0.6, 0.4, 0.4], 20)
    dense[57:, 0] = [1.0, -1.0, -1.0]
    collection = Collection([3] * 20, np.zeros((60, VOCAB), np.float32), dense, [1] * 60)
    with tempfile.TemporaryDirectory() as folder, made(Path(folder), collection) as index:
        query, vector = np.zeros(VOCAB, np.float32), np.eye(DIMENSIONS, dtype=np.float32)[0]
        assert searched(index, query, vector, 1, group=False).ids == ("d19",)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_the_few_best_passages_of_many_documents_are_those_of_the_definition(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    counts = random.choice([1, 1, 2, 5, 30, 90], 40).tolist()
    weights = as_stored(random.random((sum(counts), VOCAB)) * (random.random((sum(counts), VOCAB)) < 0.1))
    dense = (random.normal(size=(len(weights), DIMENSIONS)) / 4).astype(np.float16).astype(np.float32)
    collection = Collection(counts, weights, dense, [1] * len(weights))
    query, vector = random.random(VOCAB).astype(np.float32), (random.normal(size=DIMENSIONS) / 8).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder, made(Path(folder), collection) as index:
        for given_vector in (None, vector, np.float32(8) * vector):
            found = searched(index, query, given_vector, k, group=False)
            names = list(zip(found.ids, found.passages, strict=True))
            scores = list(zip(names, found.scores, strict=True))
            assert_best(scores, defined_passages(collection, query, given_vector), k)
