"""densify, which turns lexical vectors into values and gates as in section 3.1 of the paper, and its inverse."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from denslice.errors import InputError
from denslice.slicing import Slicing
from denslice.vectors import Slices, csr, is_sparse, lexical_csr, no_weights

if TYPE_CHECKING:
    import scipy.sparse as sp


def densify(weights: object, slicing: Slicing) -> Slices:
    """Return the values and gates (n, M) of lexical vectors: CSR, a dense array, or an iterable of such batches.

    Of equal weights in a slice the lower gate is kept. An empty slice has value 0, which adds nothing to a score.
    """
    if _is_one_batch(weights):
        return _densify_batch(lexical_csr(weights, slicing.vocab), slicing)
    if not isinstance(weights, Iterable):
        raise InputError(f"densify takes vectors, not {type(weights).__name__}")
    batches = [_densify_batch(lexical_csr(batch, slicing.vocab), slicing) for batch in weights]
    batches = batches or [_densify_batch(no_weights(0, slicing.vocab), slicing)]
    return Slices(np.concatenate([b.values for b in batches]), np.concatenate([b.gates for b in batches]))


def restore(slices: Slices, slicing: Slicing) -> sp.csr_array:
    """Return the lexical vectors (n, vocab) of densified ones, with the weights that densifying kept."""
    tokens = np.full((slicing.slices, int(slicing.gate_of.max(initial=0)) + 1), -1, dtype=np.int64)
    placed = np.arange(slicing.skip, slicing.vocab)
    tokens[slicing.slice_of[placed], slicing.gate_of[placed]] = placed
    rows, cells = np.nonzero(slices.values)
    columns = tokens[cells, slices.gates[rows, cells]]
    return csr((slices.values[rows, cells], (rows, columns)), (len(slices.values), slicing.vocab))


def split_by_slice(weights: sp.csr_array, slicing: Slicing) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the weights that densifying keeps, and those it drops; skipped tokens are in neither."""
    from denslice.array_ops import largest_per_slice

    kept = largest_per_slice(weights.indptr, weights.indices, weights.data, slicing.slice_of, slicing.slices)
    placed = slicing.slice_of[weights.indices] >= 0
    return _only(weights, kept), _only(weights, placed & ~kept)


def without_skipped(weights: sp.csr_array, skip: int) -> sp.csr_array:
    """Return the weights of all tokens but the first `skip`."""
    return _only(weights, weights.indices >= skip) if skip else weights


def _densify_batch(weights: sp.csr_array, slicing: Slicing) -> Slices:
    kept, _ = split_by_slice(weights, slicing)
    values = np.zeros((kept.shape[0], slicing.slices), dtype=np.float32)
    gates = np.zeros(values.shape, dtype=slicing.gate_dtype)
    rows = np.repeat(np.arange(kept.shape[0]), np.diff(kept.indptr))
    cells = slicing.slice_of[kept.indices]
    values[rows, cells] = kept.data
    gates[rows, cells] = slicing.gate_of[kept.indices]
    return Slices(values, gates)


def _only(weights: sp.csr_array, marked: np.ndarray) -> sp.csr_array:
    before = np.concatenate([[0], np.cumsum(marked)])
    return csr((weights.data[marked], weights.indices[marked], before[weights.indptr]), weights.shape)


def _is_one_batch(weights: object) -> bool:
    if is_sparse(weights) or isinstance(weights, np.ndarray):
        return True
    if not isinstance(weights, (list, tuple)) or not weights:
        return False
    return all(isinstance(w, int | float) or _is_numbers(w) for w in weights)


def _is_numbers(row: object) -> bool:
    return isinstance(row, (list, tuple)) and all(isinstance(w, int | float) for w in row)
