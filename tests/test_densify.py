"""Densify: what each slice keeps, from whatever form the vectors come in, and the way back."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from denslice import InputError, Slices, Slicing, densify
from denslice.densify import restore, split_by_slice
from denslice.slicing import KINDS
from denslice.vectors import lexical_csr

few = settings(max_examples=50, deadline=None)

PAIRS = Slicing.contiguous(vocab=6, slices=3)  # slices {0, 1}, {2, 3}, {4, 5}


@st.composite
def slicings(draw: st.DrawFn) -> Slicing:
    vocab = draw(st.integers(1, 9))
    sample = sp.csr_array(np.tile(np.arange(vocab), (2, 1)))
    return Slicing.made(
        draw(st.sampled_from(KINDS)), sample, draw(st.integers(1, 11)), draw(st.integers(0, vocab)), seed=1
    )


def weights(slicing: Slicing, rows: int = 4) -> st.SearchStrategy[np.ndarray]:
    """Vectors with many zeros and many ties."""
    return hnp.arrays(np.float32, (rows, slicing.vocab), elements=st.sampled_from([0, 0, 0.5, 1, 2]))


def densified_by_definition(rows: np.ndarray, slicing: Slicing) -> list[dict[int, tuple[float, int]]]:
    """For each row, slice → (value, gate): the largest weight, of equals the one with the lowest gate."""
    kept: list[dict[int, tuple[float, int]]] = [{} for _ in rows]
    for row, weights in enumerate(rows):
        for token in range(slicing.skip, slicing.vocab):
            place = int(slicing.slice_of[token])
            if weights[token] > kept[row].get(place, (0.0, 0))[0]:
                kept[row][place] = (float(weights[token]), int(slicing.gate_of[token]))
    return kept


def assert_equal(found: Slices, expected: Slices) -> None:
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(found.gates, expected.gates)


# What is kept


def test_densify_keeps_the_largest_weight_of_each_slice() -> None:
    slices = densify([[1, 5, 4, 3, 0, 2]], PAIRS)
    assert slices.values.tolist() == [[5, 4, 2]]
    assert slices.gates.tolist() == [[1, 0, 1]]


def test_densify_keeps_the_lower_gate_of_equal_weights() -> None:
    slices = densify([[2, 2, 0, 3, 7, 7]], PAIRS)
    assert slices.values.tolist() == [[2, 3, 7]]
    assert slices.gates.tolist() == [[0, 1, 0]]


def test_densify_gives_an_empty_slice_the_value_zero() -> None:
    assert densify([[0, 0, 0, 3, 0, 0]], PAIRS).values.tolist() == [[0, 3, 0]]


def test_densify_leaves_skipped_tokens_out() -> None:
    slicing = Slicing.contiguous(vocab=5, slices=2, skip=1)
    assert densify([[9, 0, 1, 2, 0]], slicing).values.tolist() == [[1, 2]]


def test_densify_makes_float32_values_and_gates_as_wide_as_the_slicing_needs() -> None:
    narrow, wide = Slicing.stride(256, 1), Slicing.stride(257, 1)
    assert densify(np.eye(256), narrow).gates.dtype == np.uint8
    assert densify(np.eye(257), wide).gates.dtype == np.uint16
    assert densify(np.eye(257), wide).gates.ravel().tolist() == list(range(257))
    assert densify(np.eye(257), wide).values.dtype == np.float32


@few
@given(st.data())
def test_densify_is_its_definition(data: st.DataObject) -> None:
    slicing = data.draw(slicings())
    rows = data.draw(weights(slicing))
    slices = densify(rows, slicing)
    found = [
        {int(s): (float(values[s]), int(gates[s])) for s in np.flatnonzero(values)}
        for values, gates in zip(slices.values, slices.gates, strict=True)
    ]
    assert slices.values.shape == (len(rows), slicing.slices)
    assert found == densified_by_definition(rows, slicing)


# Forms of input


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: sp.csr_array(rows),
        lambda rows: sp.csr_matrix(rows),
        lambda rows: sp.csc_array(rows),
        lambda rows: sp.coo_array(rows),
        lambda rows: sp.csr_array(rows.astype(np.float64)),
        lambda rows: rows.astype(np.int64),
        lambda rows: rows.tolist(),
        lambda rows: [rows[:2], rows[2:]],
        lambda rows: list(rows),
        lambda rows: (sp.csr_array(rows[i : i + 1]) for i in range(len(rows))),
        lambda rows: iter([rows[:0], rows]),
    ],
    ids=["csr", "matrix", "csc", "coo", "float64", "int", "lists", "batches", "rows", "generator", "empty batch"],
)
def test_vectors_in_any_form_densify_to_the_same(form: Callable[[np.ndarray], Any]) -> None:
    rows = np.random.default_rng(0).integers(0, 4, (5, 6)).astype(np.float32)
    assert_equal(densify(form(rows), PAIRS), densify(rows, PAIRS))


def test_one_row_without_a_second_dimension_is_one_vector() -> None:
    assert densify(np.array([1, 0, 0, 2, 0, 3]), PAIRS).values.tolist() == [[1, 2, 3]]
    assert densify([1, 0, 0, 2, 0, 3], PAIRS).values.tolist() == [[1, 2, 3]]


def test_unsorted_rows_with_duplicates_count_as_their_sums() -> None:
    data, columns = [1.0, 3.0, 1.5, 2.0, 0.0], [1, 0, 1, 1, 2]  # token 1: 1 + 1.5 + 2 = 4.5
    rows = sp.csr_array((data, columns, [0, 5]), (1, 6))
    slices = densify(rows, PAIRS)
    assert slices.values.tolist() == [[4.5, 0, 0]]
    assert slices.gates.tolist() == [[1, 0, 0]]
    assert rows.indices.tolist() == columns, "the caller's matrix is left as it was"


def test_ties_in_unsorted_rows_go_to_the_lower_gate_too() -> None:
    rows = sp.csr_array(([2.0, 2.0], [1, 0], [0, 2]), (1, 6))
    assert densify(rows, PAIRS).gates.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize(
    "empty", [np.zeros((0, 6)), sp.csr_array((0, 6)), iter(()), []], ids=["array", "csr", "it", "[]"]
)
def test_no_vectors_densify_to_no_rows(empty: object) -> None:
    slices = densify(empty, PAIRS)
    assert slices.values.shape == (0, 3)
    assert slices.gates.shape == (0, 3)


@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf, -1.0])
def test_weights_that_are_not_finite_and_positive_are_refused(weight: float) -> None:
    with pytest.raises(InputError, match=r"NaN or infinite|negative"):
        densify([[1, weight, 0, 0, 0, 0]], PAIRS)
    with pytest.raises(InputError, match=r"NaN or infinite|negative"):
        densify(iter([np.ones((1, 6)), np.array([[1, weight, 0, 0, 0, 0]])]), PAIRS)


def test_duplicates_whose_sum_is_infinite_are_refused() -> None:
    rows = sp.csr_array((np.full(2, 3e38, np.float32), [1, 1], [0, 2]), (1, 6))
    with pytest.raises(InputError, match="NaN or infinite"), np.errstate(over="ignore"):
        densify(rows, PAIRS)


@pytest.mark.parametrize("columns", [5, 7])
def test_vectors_of_another_vocabulary_are_refused(columns: int) -> None:
    with pytest.raises(InputError, match=rf"{columns} columns, expected a vocabulary of 6"):
        densify(np.ones((2, columns)), PAIRS)


@pytest.mark.parametrize("thing", [None, 3, "words", [[1, 2, 3, 4, 5, 6], [1]], np.ones((1, 1, 6))], ids=repr)
def test_things_that_are_no_vectors_are_refused(thing: object) -> None:
    with pytest.raises(InputError):
        densify(thing, PAIRS)


def test_slices_whose_values_and_gates_differ_in_shape_are_refused() -> None:
    with pytest.raises(InputError, match="one \\(n, M\\) shape"):
        Slices(np.zeros((2, 3), np.float32), np.zeros((2, 4), np.uint8))


# And back


def test_restore_gives_back_what_each_slice_kept() -> None:
    back = restore(densify([[1, 5, 4, 3, 0, 2]], PAIRS), PAIRS)
    assert back.toarray().tolist() == [[0, 5, 4, 0, 0, 2]]


@few
@given(st.data())
def test_restoring_keeps_exactly_one_largest_weight_a_slice(data: st.DataObject) -> None:
    slicing = data.draw(slicings())
    rows = data.draw(weights(slicing))
    back = restore(densify(rows, slicing), slicing).toarray()
    assert ((back == rows) | (back == 0)).all()
    for s in range(slicing.slices):
        tokens = np.flatnonzero(slicing.slice_of == s)
        largest = rows[:, tokens].max(axis=1, initial=0)
        assert back[:, tokens].sum(axis=1).tolist() == largest.tolist()
        assert (np.count_nonzero(back[:, tokens], axis=1) <= 1).all()
    assert_equal(densify(back, slicing), densify(rows, slicing))


@few
@given(st.data())
def test_what_is_kept_and_what_is_lost_are_the_whole_without_skipped_tokens(data: st.DataObject) -> None:
    slicing = data.draw(slicings())
    rows = data.draw(weights(slicing))
    kept, lost = (part.toarray() for part in split_by_slice(lexical_csr(rows), slicing))
    assert (kept + lost)[:, slicing.skip :].tolist() == rows[:, slicing.skip :].tolist()
    assert not (kept * lost).any()
    assert not (kept + lost)[:, : slicing.skip].any()
    assert kept.tolist() == restore(densify(rows, slicing), slicing).toarray().tolist()
