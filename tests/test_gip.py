"""The gated inner product: checked by eye, and against the sparse inner product it approximates."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from denslice import InputError, Slices, Slicing, densify, gip
from denslice.gip import gip_full
from denslice.slicing import KINDS

few = settings(max_examples=50, deadline=None)
kinds = pytest.mark.parametrize("kind", KINDS)

# Fifteen tokens in three slices of five, as in the paper's figure.
FIGURE = Slicing.contiguous(vocab=15, slices=3)
QUERY = np.array([[0, 0, 2, 1, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 4]])
DOC = np.array([[0, 0, 5, 3, 1, 0, 0, 2, 0, 0, 1, 0, 0, 0, 2]])


def vectors(vocab: int) -> st.SearchStrategy[np.ndarray]:
    """Three vectors whose products and sums float32 holds exactly."""
    return hnp.arrays(np.float32, (3, vocab), elements=st.sampled_from([0, 0, 0.25, 0.5, 1, 2, 3]))


def test_the_example_of_three_slices_of_five_tokens() -> None:
    query, doc = densify(QUERY, FIGURE), densify(DOC, FIGURE)
    assert (query.values.tolist(), query.gates.tolist()) == ([[2, 3, 4]], [[2, 1, 4]])
    assert (doc.values.tolist(), doc.gates.tolist()) == ([[5, 2, 2]], [[2, 2, 4]])
    assert gip(query, doc).tolist() == [[2 * 5 + 4 * 2]]


def test_a_query_left_whole_also_meets_what_its_own_slices_would_drop() -> None:
    # slice 1: the query's token 7 (weight 1) hides behind its token 6, and is what the document kept (weight 2)
    assert gip_full(sp.csr_array(QUERY), densify(DOC, FIGURE), FIGURE).tolist() == [[2 * 5 + 1 * 2 + 4 * 2]]


def test_scores_are_one_row_a_query_and_one_column_a_document() -> None:
    slicing = Slicing.stride(2, 2)
    queries, docs = densify([[1, 0], [1, 1]], slicing), densify([[1, 2], [3, 0], [0, 4]], slicing)
    assert gip(queries, docs).tolist() == [[1, 3, 0], [3, 3, 4]]
    assert gip_full(sp.csr_array([[1, 0], [1, 1]]), docs, slicing).tolist() == [[1, 3, 0], [3, 3, 4]]


def test_no_documents_and_no_queries_have_no_scores() -> None:
    slicing = Slicing.stride(2, 2)
    some, none = densify([[1, 2]], slicing), densify(np.zeros((0, 2)), slicing)
    assert gip(some, none).shape == (1, 0)
    assert gip(none, some).shape == (0, 1)


def test_a_value_of_zero_never_matches() -> None:
    # token 0 has gate 0, the gate that empty slices carry
    slicing = Slicing.contiguous(vocab=4, slices=2)
    empty = densify([[0, 0, 0, 0]], slicing)
    full = densify([[5, 0, 7, 0]], slicing)
    assert empty.gates.tolist() == full.gates.tolist()
    assert gip(empty, full).tolist() == [[0]]
    assert gip(full, empty).tolist() == [[0]]


def test_different_gates_never_match() -> None:
    slicing = Slicing.contiguous(vocab=4, slices=2)
    assert gip(densify([[5, 0, 7, 0]], slicing), densify([[0, 5, 0, 7]], slicing)).tolist() == [[0]]


def test_queries_and_documents_of_other_numbers_of_slices_are_refused() -> None:
    two, three = (Slices(np.zeros((1, m), np.float32), np.zeros((1, m), np.uint8)) for m in (2, 3))
    with pytest.raises(InputError, match="queries have 2 slices, documents 3"):
        gip(two, three)


@kinds
@few
@given(st.data())
def test_gip_is_at_most_the_full_querys_score_and_that_at_most_the_sparse_product(
    kind: str, data: st.DataObject
) -> None:
    vocab, slices = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 6))
    queries, docs = data.draw(vectors(vocab)), data.draw(vectors(vocab))
    slicing = Slicing.made(kind, sp.csr_array(docs), slices)
    doc_slices = densify(docs, slicing)
    sliced = gip(densify(queries, slicing), doc_slices)
    full = gip_full(sp.csr_array(queries), doc_slices, slicing)
    assert (sliced >= 0).all()
    assert (sliced <= full).all()
    assert (full <= queries @ docs.T).all()


@kinds
@few
@given(st.data())
def test_gip_is_the_sparse_product_when_there_are_as_many_slices_as_tokens(kind: str, data: st.DataObject) -> None:
    vocab = data.draw(st.integers(1, 12))
    queries, docs, sample = (data.draw(vectors(vocab)) for _ in range(3))
    slicing = Slicing.made(kind, sp.csr_array(sample), slices=vocab + data.draw(st.integers(0, 3)))
    doc_slices = densify(docs, slicing)
    assert gip(densify(queries, slicing), doc_slices).tolist() == (queries @ docs.T).tolist()
    assert gip_full(sp.csr_array(queries), doc_slices, slicing).tolist() == (queries @ docs.T).tolist()


@kinds
@few
@given(st.data())
def test_gip_is_the_sparse_product_of_what_densifying_keeps(kind: str, data: st.DataObject) -> None:
    vocab, slices = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 6))
    queries, docs = data.draw(vectors(vocab)), data.draw(vectors(vocab))
    slicing = Slicing.made(kind, sp.csr_array(docs), slices)

    def kept(row: np.ndarray) -> dict[int, float]:
        best: dict[int, int] = {}
        for token in range(vocab):
            if row[token] > (row[best[slicing.slice_of[token]]] if slicing.slice_of[token] in best else 0):
                best[slicing.slice_of[token]] = token
        return {token: float(row[token]) for token in best.values()}

    expected = [[sum(w * kept(d).get(t, 0.0) for t, w in kept(q).items()) for d in docs] for q in queries]
    assert gip(densify(queries, slicing), densify(docs, slicing)).tolist() == expected
