"""The vectors that encoders return (Encoded) and that slicing makes of them (Slices).

scipy.sparse is imported with the first vector, since it takes longer than all else that `import denslice` loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from denslice.errors import InputError

if TYPE_CHECKING:
    import scipy.sparse as sp

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Phrases = Mapping[int, tuple[str, ...]]  # the phrases of a text, by the token id that they share


class Weights(NamedTuple):
    """Lexical weights as the arrays of a CSR matrix: making the matrix takes as long as a small search."""

    data: Floats
    indices: npt.NDArray[Any]
    indptr: npt.NDArray[Any]
    shape: tuple[int, int]


@dataclass(frozen=True)
class Encoded:
    """A batch of encoded texts: lexical weights (n, vocabulary), and dense vectors if the encoder makes any.

    `lengths` are in tokens, from encoders that normalise by them.
    """

    weights: sp.csr_array | Weights
    dense: Floats | None = None  # (n, dimensions) float32
    lengths: Ints | None = None  # (n,)

    @property
    def lexical(self) -> sp.csr_array:
        """The lexical weights as CSR."""
        w = self.weights
        return csr((w.data, w.indices, w.indptr), w.shape) if isinstance(w, Weights) else w

    def rows(self, chosen: slice | Ints) -> Encoded:
        """Return these rows as a batch of their own."""
        dense = None if self.dense is None else self.dense[chosen]
        lengths = None if self.lengths is None else self.lengths[chosen]
        return Encoded(self.lexical[chosen], dense, lengths)

    @classmethod
    def joined(cls, batches: Sequence[Encoded]) -> Encoded:
        """Return the rows of all batches as one batch."""
        dense = [batch.dense for batch in batches if batch.dense is not None]
        lengths = [batch.lengths for batch in batches if batch.lengths is not None]
        return cls(
            stacked([batch.lexical for batch in batches]),
            np.concatenate(dense) if dense else None,
            np.concatenate(lengths) if lengths else None,
        )


@dataclass(frozen=True)
class Slices:
    """Densified vectors (DSRs): the largest weight of each slice, and the gate of the token that had it."""

    values: Floats  # (n, M) float32, 0 where a slice is empty
    gates: npt.NDArray[Any]  # (n, M) uint8, or wider when a slice holds more than 256 tokens

    def __post_init__(self) -> None:
        if self.values.shape != self.gates.shape or self.values.ndim != 2:
            raise InputError(f"values {self.values.shape} and gates {self.gates.shape} must have one (n, M) shape")


def csr(parts: tuple[Any, ...], shape: tuple[int, int]) -> sp.csr_array:
    """Return the sparse matrix of (data, columns, row starts), or of (data, (rows, columns))."""
    import scipy.sparse as sp

    return sp.csr_array(parts, shape)


def no_weights(rows: int, vocab: int) -> sp.csr_array:
    """Return a sparse matrix without any weight."""
    import scipy.sparse as sp

    return sp.csr_array((rows, vocab), dtype=np.float32)


def is_sparse(weights: object) -> bool:
    """Return whether this is a sparse matrix of scipy."""
    import scipy.sparse as sp

    return bool(sp.issparse(weights))


def lexical_csr(weights: object, vocab: int | None = None) -> sp.csr_array:
    """Return lexical weights as CSR in float32 with sorted columns, no duplicates and no zeros.

    Raise InputError if they are not finite numbers of 0 or more.
    """
    matrix = _as_csr(weights)
    if vocab is not None and matrix.shape[1] != vocab:
        raise InputError(f"vectors have {matrix.shape[1]:,} columns, expected a vocabulary of {vocab:,}")
    least, most = matrix.data.min(initial=np.inf), matrix.data.max(initial=0)
    if least < 0:
        row = _row_of(matrix, matrix.data < 0)
        raise InputError(f"vectors hold negative weights, first in row {row}; expected 0 or more")
    if not matrix.has_canonical_format or least == 0:
        matrix = matrix.copy()
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        most = matrix.data.max(initial=0)
    if not most < np.inf:
        row = _row_of(matrix, ~np.isfinite(matrix.data))
        raise InputError(f"vectors hold NaN or infinite weights, first in row {row}")
    return matrix


def dense_rows(vectors: object, count: int) -> Floats:
    """Return dense vectors (count, dimensions) in float32; raise InputError unless float16 can hold them.

    One vector may have the shape (dimensions,).
    """
    try:
        given = np.asarray(vectors, dtype=np.float32)
    except (ValueError, TypeError):
        kind = type(vectors).__name__
        raise InputError(f"dense vectors must be numbers in rows of one length, not {kind}") from None
    rows = given[None] if given.ndim == 1 and count == 1 else given
    if rows.ndim != 2 or len(rows) != count or not rows.shape[1]:
        found = f"have shape {given.shape}" if given.ndim else f"are the single number {vectors!r}"
        raise InputError(f"dense vectors {found}, expected ({count}, dimensions)")
    wrong = ~(np.abs(rows) <= np.finfo(np.float16).max).all(axis=1)  # (count,)
    if wrong.any():
        raise InputError(f"dense vectors hold NaN, infinite or too large numbers, first in row {int(wrong.argmax())}")
    return np.ascontiguousarray(rows)


def stacked(parts: Sequence[sp.csr_array]) -> sp.csr_array:
    """Return the rows of all parts in one matrix as wide as the widest, since a vocabulary may grow between them."""
    width = max(part.shape[1] for part in parts)
    import scipy.sparse as sp

    wide = [sp.csr_array((part.data, part.indices, part.indptr), (part.shape[0], width)) for part in parts]
    return sp.csr_array(sp.vstack(wide, format="csr", dtype=np.float32))


def _as_csr(weights: object) -> sp.csr_array:
    import scipy.sparse as sp

    if isinstance(weights, sp.csr_array) and weights.dtype == np.float32 and weights.ndim == 2:
        return weights
    if sp.issparse(weights):
        if weights.ndim == 1:  # type: ignore[attr-defined]
            weights = weights.reshape(1, -1)  # type: ignore[attr-defined]
    else:
        try:
            weights = np.atleast_2d(np.asarray(weights, dtype=np.float32))
        except (ValueError, TypeError):
            raise InputError(f"vectors must be numbers in rows of one length, not {type(weights).__name__}") from None
        if weights.ndim != 2:
            raise InputError(f"vectors must have 2 dimensions (vectors, vocabulary), not {weights.ndim}")
    return sp.csr_array(weights, dtype=np.float32)


def _row_of(matrix: sp.csr_array, marked: npt.NDArray[np.bool_]) -> int:
    """Return the row of the first weight that is marked."""
    return int(np.searchsorted(matrix.indptr, int(marked.argmax()), side="right")) - 1
