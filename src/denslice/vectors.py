"""The vectors that encoders return (Encoded) and that slicing makes of them (Slices).

scipy.sparse is imported with the first vector, since it takes longer than all else that `import denslice` loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from denslice.errors import InputError
from denslice.records import Place

if TYPE_CHECKING:
    import scipy.sparse as sp

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Phrases = Mapping[int, tuple[str, ...]]  # the phrases of a text, by the token id that they share


WHOLE = Place(0, 1)  # stands for a text of any length that is one passage
LARGEST_FLOAT16 = float(np.finfo(np.float16).max)


class Weights(NamedTuple):
    """Lexical weights as the arrays of a CSR matrix: making the matrix takes as long as a small search."""

    data: Floats
    indices: npt.NDArray[Any]
    indptr: npt.NDArray[Any]
    shape: tuple[int, int]


@dataclass(frozen=True)
class Passages:
    """The passages of a batch of documents: those of document i have the numbers starts[i] to starts[i + 1].

    A document of one passage has no places, and its passage no tokens: they are those of the document. The weights of
    a passage are numbers of float16. If they are not known, which holds for all tokens of a passage or for none, they
    are 0.
    """

    starts: Ints  # (documents + 1,)
    tokens: sp.csr_array  # (passages, vocabulary), with an entry where a passage has a token
    places: Sequence[Sequence[Place]]  # (documents,)

    @property
    def shares(self) -> Floats:
        """The part of its document's text that each passage has (passages,)."""
        sizes = np.array([at.end - at.start for some in self.places for at in (some or [WHOLE])], np.float64)
        totals = np.repeat(np.add.reduceat(sizes, self.starts[:-1]), np.diff(self.starts))
        shares: Floats = (sizes / totals).astype(np.float32)
        return shares

    @classmethod
    def single(cls, documents: int) -> Passages:
        """Return the passages of documents that have one each."""
        return cls(np.arange(documents + 1), no_weights(documents, 1), [()] * documents)

    @classmethod
    def joined(cls, parts: Sequence[Passages]) -> Passages:
        """Return the passages of all batches as those of one."""
        counts = np.concatenate([np.diff(part.starts) for part in parts])
        places = [one for part in parts for one in part.places]
        return cls(_starts(counts), stacked([part.tokens for part in parts]), places)

    def numbers(self, documents: Ints) -> Ints:
        """Return the numbers of the passages of these documents, in their order."""
        return spread(self.starts[documents], self.starts[documents + 1])

    def renamed(self, ids: Ints) -> Passages:
        """Return the same passages with other token ids."""
        shape = (self.tokens.shape[0], int(ids.max(initial=0)) + 1)
        tokens = csr((self.tokens.data, ids[self.tokens.indices], self.tokens.indptr), shape)
        tokens.sort_indices()
        return replace(self, tokens=tokens)

    def unweighed(self) -> Passages:
        """Return the same passages with weights that are not known."""
        tokens = self.tokens
        return replace(self, tokens=csr((np.zeros_like(tokens.data), tokens.indices, tokens.indptr), tokens.shape))

    def of(self, documents: Ints) -> Passages:
        """Return the passages of these documents."""
        counts = self.starts[documents + 1] - self.starts[documents]
        places = [self.places[at] for at in documents.tolist()]
        return Passages(_starts(counts), self.tokens[self.numbers(documents)], places)


@dataclass(frozen=True)
class Encoded:
    """A batch of encoded texts: lexical weights (n, vocabulary), and dense vectors if the encoder makes any.

    `lengths` are in tokens, from encoders that normalise by them. If texts are cut into `passages`, each passage has a
    dense vector; without them each text is one passage.
    """

    weights: sp.csr_array | Weights
    dense: Floats | None = None  # (passages, dimensions) float32
    lengths: Ints | None = None  # (n,)
    passages: Passages | None = None

    @property
    def lexical(self) -> sp.csr_array:
        """The lexical weights as CSR."""
        w = self.weights
        return csr((w.data, w.indices, w.indptr), w.shape) if isinstance(w, Weights) else w

    @property
    def passage_count(self) -> int:
        """The number of passages."""
        return self.weights.shape[0] if self.passages is None else int(self.passages.starts[-1])

    def rows(self, chosen: slice | Ints) -> Encoded:
        """Return these texts as a batch of their own."""
        lengths = None if self.lengths is None else self.lengths[chosen]
        if self.passages is None:
            return Encoded(self.lexical[chosen], None if self.dense is None else self.dense[chosen], lengths)
        texts = np.arange(self.weights.shape[0])[chosen]
        dense = None if self.dense is None else self.dense[self.passages.numbers(texts)]
        return Encoded(self.lexical[chosen], dense, lengths, self.passages.of(texts))

    @classmethod
    def joined(cls, batches: Sequence[Encoded]) -> Encoded:
        """Return the texts of all batches as one batch."""
        dense = [batch.dense for batch in batches if batch.dense is not None]
        lengths = [batch.lengths for batch in batches if batch.lengths is not None]
        return cls(
            stacked([batch.lexical for batch in batches]),
            np.concatenate(dense) if dense else None,
            np.concatenate(lengths) if lengths else None,
            joined_passages([(batch.weights.shape[0], batch.passages) for batch in batches]),
        )


def joined_passages(batches: Sequence[tuple[int, Passages | None]]) -> Passages | None:
    """Return the passages of batches of so many documents; None if no document of any has more than one."""
    if all(passages is None for _, passages in batches):
        return None
    return Passages.joined([Passages.single(count) if one is None else one for count, one in batches])


def rounded(weights: sp.csr_array) -> sp.csr_array:
    """Return the weights as they are stored: rounded to float16, without those that round to 0. Data stays float32."""
    if weights.nnz and weights.data.max() > LARGEST_FLOAT16:
        raise InputError(f"weight {weights.data.max():g} is too large: at most {LARGEST_FLOAT16:,.0f} can be stored")
    stored = csr((weights.data.astype(np.float16), weights.indices, weights.indptr), weights.shape)
    stored.data = stored.data.astype(np.float32)
    if (stored.data == 0).any():
        stored = stored.copy()
        stored.eliminate_zeros()
    return stored


def only_rows(weights: sp.csr_array, chosen: npt.NDArray[np.bool_]) -> sp.csr_array:
    """Return the weights with all rows but the chosen ones empty."""
    kept = np.repeat(chosen, np.diff(weights.indptr))
    before = np.concatenate([[0], np.cumsum(kept)])
    return csr((weights.data[kept], weights.indices[kept], before[weights.indptr]), weights.shape)


def spread(starts: Ints, ends: Ints) -> Ints:
    """Return the numbers from each start to its end, one range after the other."""
    counts = ends - starts
    before = np.cumsum(counts) - counts
    numbers: Ints = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    return numbers


def _starts(counts: Array) -> Ints:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


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
