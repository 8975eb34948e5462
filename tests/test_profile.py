"""Profiles of searches: what was read and how long it took, for whoever asks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from command_line import denslice
from denslice import Index, Profile, open_index, profiled

DOCS, VOCAB, TERMS = 3_000, 50, 20


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents with 20 of 50 tokens each: too many weights to be scored in numpy."""
    path, dice = tmp_path_factory.mktemp("profile") / "my.idx", np.random.default_rng(1)
    keys = np.stack([dice.permutation(VOCAB)[:TERMS] for _ in range(DOCS)])
    rows = np.repeat(np.arange(DOCS), TERMS)
    weights = sp.csr_array((dice.uniform(0.5, 2, rows.shape), (rows, keys.ravel())), shape=(DOCS, VOCAB))
    with Index.create(path, "vectors", vocab=VOCAB) as made:
        made.add_vectors([str(n) for n in range(DOCS)], weights.astype(np.float32))
    return path


def asked(*keys: int) -> sp.csr_array:
    return sp.csr_array((np.ones(len(keys), np.float32), (np.zeros(len(keys), int), keys)), shape=(1, VOCAB))


def test_a_profile_counts_the_postings_of_the_query(index: Path) -> None:
    with open_index(index) as opened:
        stored = opened.reader.snapshot.segments[0].kept
        holding = int(np.isin(stored.keys, [3, 7]).sum())
        with profiled() as profile:
            opened.search_vectors(asked(3, 7))
    assert (profile.counts["terms"], profile.counts["documents"]) == (2, DOCS)
    assert profile.counts["postings"] == holding
    assert 10 <= profile.counts["words_scored"] <= DOCS
    assert 0 < profile.counts["postings_read"] <= 2 * holding  # read twice if the first threshold was too high
    assert "vectors" not in profile.counts


def test_theta_reads_the_lists_of_heavy_tokens_alone(index: Path) -> None:
    query = asked(*range(10))
    query.data[:2] = 0.1
    with open_index(index) as opened, profiled() as profile:
        opened.search_vectors(query, theta=0.5)
        held = opened.reader.snapshot.segments[0].postings.count(np.arange(2, 10))
    assert (profile.counts["terms"], profile.counts["postings_read"]) == (8, held)


def test_a_batch_counts_what_its_queries_count_together(index: Path) -> None:
    queries = [asked(n, n + 1) for n in range(40)]
    with open_index(index) as opened:
        with profiled() as together:
            opened.search_vectors_batch(sp.csr_array(sp.vstack(queries)))
        with profiled() as one_by_one:
            for query in queries:
                opened.search_vectors(query)
    names = ("terms", "documents", "postings", "postings_read", "words_scored")
    assert {name: together.counts[name] for name in names} == {name: one_by_one.counts[name] for name in names}


def test_a_small_index_scores_every_document(tmp_path: Path) -> None:
    with Index.create(tmp_path / "s.idx", "bm25") as made:
        made.add([{"id": "1", "text": "cats sleep"}, {"id": "2", "text": "dogs bark"}])
        with profiled() as profile:
            list(made.search("cats"))
    assert profile.counts == {"segments": 1, "documents": 2, "words_scored": 2}
    assert set(profile.seconds) == {"encode", "filter", "search", "documents"}


def test_profiles_are_filled_within_their_block_alone(index: Path) -> None:
    with open_index(index) as opened:
        with profiled() as outer:
            with profiled() as inner:
                opened.search_vectors(asked(3))
            assert outer.counts == {}
        before = dict(inner.counts)
        opened.search_vectors(asked(3))
    assert inner.counts == before
    assert before["terms"] == 1


def test_a_profile_shows_what_was_read_beside_what_there_was() -> None:
    profile = Profile(counts={"terms": 3, "postings": 5_000, "postings_read": 1_200})
    profile.seconds.add("search", 1.0, 1.00125)
    assert str(profile) == "search 1.25 ms\nterms: 3\npostings read: 1,200 of 5,000"


def test_search_prints_its_profile_to_stderr(tmp_path: Path) -> None:
    with Index.create(tmp_path / "s.idx", "bm25") as made:
        made.add([{"id": "1", "text": "cats sleep"}])
    plain = denslice("search", tmp_path / "s.idx", "cats")
    told = denslice("search", tmp_path / "s.idx", "cats", "--profile")
    assert told.stdout == plain.stdout
    assert plain.stderr == ""
    assert told.stderr.splitlines()[1:] == ["segments: 1", "documents: 1", "words scored: 1"]
    assert told.stderr.startswith("encode ")
