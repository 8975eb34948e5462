"""Explain: contributions sum to the score, and what the slicing dropped is told."""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from denslice import Index, InputError, Query, Ranking
from denslice.encoders.bm25 import Bm25
from denslice.rankings import Term
from denslice.slicing import KINDS
from denslice.vectors import Encoded

few = settings(max_examples=15, deadline=None)

TEXTS = [
    {"id": "cats", "text": "Cats chase mice, and mice hide from cats."},
    {"id": "dogs", "title": "Dogs", "text": "A dog chases cats."},
    {"id": "fish", "text": "Fish swim."},
]


def columns(folder: Path, docs: object, slices: int, query: str = "full", slicing: str = "stride") -> Index:
    """An index of ready vectors with the ids "0", "1", …"""
    rows = sp.csr_array(docs)
    index = Index.create(folder / "i", "vectors", vocab=rows.shape[1], slices=slices, query=query, slicing=slicing)
    index.add_vectors([str(i) for i in range(rows.shape[0])], rows)
    return index


def test_an_explanation_lists_what_each_shared_token_adds_largest_first(tmp_path: Path) -> None:
    index = columns(tmp_path, [[1, 2, 4, 0]], slices=4)
    why = index.explain_vectors([[3, 2, 0, 5]], "0")
    assert why.terms == (Term("1", 2.0, 2.0, 4.0), Term("0", 3.0, 1.0, 3.0))
    assert why.lost == ()
    assert (why.id, why.score, why.lexical, why.dense) == ("0", 7.0, 7.0, 0.0)


def test_terms_that_add_the_same_are_listed_by_token(tmp_path: Path) -> None:
    index = columns(tmp_path, [[1, 2, 4]], slices=3)
    assert [term.token for term in index.explain_vectors([[4, 2, 1]], "0").terms] == ["0", "1", "2"]


def test_a_token_the_slicing_dropped_is_lost_with_what_it_would_have_added(tmp_path: Path) -> None:
    # tokens 0 and 2 share a slice: the document keeps 2
    index = columns(tmp_path, [[1, 0, 4, 0]], slices=2)
    why = index.explain_vectors([[3, 0, 2, 0]], "0")
    assert why.terms == (Term("2", 2.0, 4.0, 8.0),)
    assert why.lost == (Term("0", 3.0, 1.0, 3.0),)
    assert why.score == 8.0


def test_dropped_tokens_the_query_does_not_have_are_no_loss(tmp_path: Path) -> None:
    index = columns(tmp_path, [[1, 0, 4, 0]], slices=2)
    assert index.explain_vectors([[0, 0, 2, 0]], "0").lost == ()


def test_a_document_that_shares_nothing_scores_nothing(tmp_path: Path) -> None:
    why = columns(tmp_path, [[1, 0]], slices=2).explain_vectors([[0, 1]], "0")
    assert (why.score, why.terms, why.lost) == (0, (), ())


@pytest.mark.parametrize("query", ["full", "sliced"])
@pytest.mark.parametrize("kind", KINDS)
@few
@given(data=st.data())
def test_contributions_sum_to_the_score_of_every_hit(kind: str, query: str, data: st.DataObject) -> None:
    vocab = data.draw(st.integers(1, 8))
    rows = partial(hnp.arrays, np.float32, elements=st.just(0) | st.floats(2**-10, 1000, width=32))
    docs, asked = data.draw(rows((6, vocab))), data.draw(rows((1, vocab)))
    with tempfile.TemporaryDirectory() as folder:
        index = columns(Path(folder), docs, data.draw(st.integers(1, vocab)), query, kind)
        for hit in index.search_vectors(asked, k=6):
            why = index.explain_vectors(asked, hit.id)
            assert sum(term.contribution for term in why.terms) == pytest.approx(hit.score, rel=1e-4)
            assert why.score == pytest.approx(hit.score, rel=1e-4)
            for term in (*why.terms, *why.lost):
                assert term.contribution == term.query_weight * term.doc_weight


@few
@given(data=st.data())
def test_terms_and_losses_of_a_whole_query_are_the_undensified_product(data: st.DataObject) -> None:
    rows = partial(hnp.arrays, np.float32, elements=st.sampled_from([0, 0.5, 1, 2]))
    docs, asked = data.draw(rows((3, 6))), data.draw(rows((1, 6)))
    with tempfile.TemporaryDirectory() as folder:
        index = columns(Path(folder), docs, slices=2)
        for row, doc in enumerate(docs):
            why = index.explain_vectors(asked, str(row))
            assert sum(term.contribution for term in (*why.terms, *why.lost)) == float(asked[0] @ doc)


def test_tokens_of_texts_are_named_by_their_stems(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i", "bm25")
    index.add(TEXTS)
    assert {term.token for term in index.explain("chasing mice and dogs", "cats").terms} == {"chase", "mice"}
    assert {term.token for term in index.explain("chasing mice and dogs", "dogs").terms} == {"chase", "dog"}


def test_contributions_sum_to_the_score_for_texts(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i", "bm25", slices=2)
    index.add(TEXTS)
    hits = index.search("dogs and cats chase mice")
    assert len(hits) == 2
    for hit in hits:
        why = index.explain("dogs and cats chase mice", hit.id)
        assert sum(term.contribution for term in why.terms) == pytest.approx(hit.score, rel=1e-4)
        assert why.lost, "two slices cannot hold all three words"


def test_tokens_of_ready_vectors_with_words_are_named_by_them(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i", "vectors")
    index.add([{"id": "1", "vector": {"cat": 2.0, "##s": 1.0}}])
    why = index.explain(Query("q", vector={"cat": 3.0, "unknown": 1.0}), "1")
    assert why.terms == (Term("cat", 3.0, 2.0, 6.0),)


def test_a_document_of_a_later_commit_is_explained_too(tmp_path: Path) -> None:
    index = columns(tmp_path, [[1, 0]], slices=2)
    index.add_vectors(["later"], sp.csr_array([[0, 3]]))
    assert index.explain_vectors([[1, 2]], "later").terms == (Term("1", 2.0, 3.0, 6.0),)


def test_an_unknown_id_cannot_be_explained(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "i", "bm25")
    index.add(TEXTS)
    with pytest.raises(InputError, match="no document 'birds' in"):
        index.explain("cats", "birds")


def test_a_ranking_explains_its_hits_without_encoding_the_query_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add([{"id": str(n), "text": f"foxes and {word}"} for n, word in enumerate(("owls", "cats", "dogs"))])
    expected = {str(n): index.explain("foxes owls cats", str(n)) for n in range(3)}
    encoded: list[list[str]] = []
    encode = Bm25.encode_queries

    def noting(encoder: Bm25, texts: list[str]) -> Encoded:
        encoded.append(texts)
        return encode(encoder, texts)

    monkeypatch.setattr(Bm25, "encode_queries", noting)
    ranking = index.search("foxes owls cats")
    assert {id: ranking.explain(id) for id in ranking.ids} == expected
    assert index.explain(ranking, "1") == expected["1"]
    assert ranking.tokens() == {"fox", "owl", "cat"}
    assert encoded == [["foxes owls cats"]]


def test_a_ranking_of_a_batch_explains_its_own_query(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25", phrases=0.3)
    index.add([{"id": "1", "text": "red foxes sleep"}, {"id": "2", "text": "grey owls hunt"}])
    asked = ["red foxes", "grey owls hunt", "do red foxes sleep"]
    for text, ranking in zip(asked, index.search_batch(asked), strict=True):
        for id in ranking.ids:
            assert ranking.explain(id) == index.explain(text, id)


def test_a_ranking_explains_the_commit_that_was_searched(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx", "bm25")
    index.add([{"id": "1", "text": "foxes"}])
    ranking = index.search("foxes")
    index.add([{"id": "1", "text": "owls"}, {"id": "2", "text": "foxes"}])
    assert ranking.explain("1").score == pytest.approx(ranking.scores[0])


def test_a_ranking_that_was_not_searched_cannot_be_explained() -> None:
    with pytest.raises(InputError, match="only a search can explain"):
        Ranking("q", ("1",), (1.0,)).explain("1")
