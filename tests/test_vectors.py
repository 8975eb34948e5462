"""Batches of encoded texts: cut and joined."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from denslice.vectors import Encoded


def batch() -> Encoded:
    weights = sp.csr_array(np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0], [4, 5, 6]], np.float32))
    return Encoded(weights, np.arange(8, dtype=np.float32).reshape(4, 2), np.array([2, 0, 1, 3]))


def as_lists(encoded: Encoded) -> tuple[list[list[float]], list[list[float]] | None, list[int] | None]:
    dense = None if encoded.dense is None else encoded.dense.tolist()
    return encoded.lexical.toarray().tolist(), dense, None if encoded.lengths is None else encoded.lengths.tolist()


def test_rows_are_cut_by_a_slice_or_chosen_in_any_order() -> None:
    assert as_lists(batch().rows(slice(2, 9))) == ([[0, 3, 0], [4, 5, 6]], [[4, 5], [6, 7]], [1, 3])
    assert as_lists(batch().rows(np.array([3, 0]))) == ([[4, 5, 6], [1, 0, 2]], [[6, 7], [0, 1]], [3, 2])


def test_a_batch_that_is_cut_and_joined_is_the_batch() -> None:
    parts = [batch().rows(slice(at, at + 3)) for at in (0, 3)]
    assert as_lists(Encoded.joined(parts)) == as_lists(batch())


def test_joined_batches_are_as_wide_as_the_widest_since_a_vocabulary_grows() -> None:
    narrow, wide = (Encoded(sp.csr_array(np.array(row, np.float32))) for row in ([[1]], [[0, 2]]))
    assert as_lists(Encoded.joined([narrow, wide])) == ([[1, 0], [0, 2]], None, None)
