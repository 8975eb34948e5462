"""WordTable: the quick side of a model, a vector for each word and a small network over their sum.

A text's quick vector approximates the one that the whole model gives it, from nothing but its BM25 weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import numpy.typing as npt

from denslice.encoders.blas_threads import one_blas_thread
from denslice.errors import InputError
from denslice.store.vocabulary import WordIds
from denslice.vectors import Floats, Ints, csr

if TYPE_CHECKING:
    import scipy.sparse as sp

RowNumbers = npt.NDArray[np.int32]
TABLE_FILE = "words.npz"
TINY = np.float32(1e-12)
UNKNOWN = -1  # the row of a token that was not needed yet


@dataclass(frozen=True)
class WordTable:
    """Rows of words, then rows that all other words share; and the network from a sum of rows to a vector."""

    places: Mapping[str, int]  # the rows of words that have one of their own
    rows: Floats  # (words + shared, width)
    straight: Floats  # (width, dimensions)
    inner: Floats  # (width, neurons)
    inner_bias: Floats
    outer: Floats  # (neurons, dimensions)
    outer_bias: Floats
    lam: float  # λ for queries that it reads
    word_scale: float  # what the words and the vector of a query are multiplied by for documents that it read
    vector_scale: float

    @classmethod
    def load(cls, folder: Path) -> WordTable:
        """Read the table of a model folder; raise InputError if it has none."""
        path = folder / TABLE_FILE
        if not path.is_file():
            raise InputError(f"the model {folder.name} has no {TABLE_FILE}, so it cannot read texts quickly")
        with np.load(path) as stored:
            words = stored["words"].tobytes().decode().split("\n")
            rows = stored["rows"].astype(np.float32) * stored["scale"].astype(np.float32)[:, None]
            names = ("straight", "inner", "inner_bias", "outer", "outer_bias")
            straight, inner, inner_bias, outer, outer_bias = (stored[name].astype(np.float32) for name in names)
            numbers = [float(stored[name]) for name in ("lam", "word_scale", "vector_scale")]
        places = {word: row for row, word in enumerate(words)}
        return cls(places, rows, straight, inner, inner_bias, outer, outer_bias, *numbers)

    def row_of(self, word: str) -> int:
        """Return the row of a word."""
        return row_of(word, self.places, len(self.rows) - len(self.places))

    def vectors(self, weights: sp.csr_array, row_of: RowNumbers) -> Floats:
        """Return the vectors of texts with these weights: of length 1, or 0 without words.

        `row_of` has the rows of tokens.
        """
        by_row = csr((weights.data, row_of[weights.indices], weights.indptr), (weights.shape[0], len(self.rows)))
        unit = _unit(by_row @ self.rows) * np.float32(self.rows.shape[1] ** 0.5)
        with one_blas_thread():
            bent = np.maximum(unit @ self.inner + self.inner_bias, 0) @ self.outer + self.outer_bias
            vectors = _unit(unit @ self.straight + bent)
        found: Floats = vectors * (np.diff(weights.indptr) > 0)[:, None]
        return found


class TokenRows:
    """The rows of the tokens of a vocabulary that grows, each found when it is first needed."""

    def __init__(self, table: WordTable, words: WordIds) -> None:
        self._table, self._words = table, words
        self._rows = np.zeros(0, dtype=np.int32)

    def of(self, ids: Ints) -> RowNumbers:
        """Return an array that has the row of each of these tokens at its id."""
        rows = self._rows
        if len(rows) < len(self._words):
            unknown = np.full(len(self._words) - len(rows), UNKNOWN, dtype=np.int32)
            self._rows = rows = np.concatenate([rows, unknown])
        for id in np.unique(ids[rows[ids] == UNKNOWN]).tolist():
            rows[id] = self._table.row_of(self._words.word(id))
        return rows


def row_of(word: str, places: Mapping[str, int], shared: int) -> int:
    """Return the row of a word: its own, or one of those that all other words share."""
    own = places.get(word)
    return len(places) + crc32(word.encode("utf-8", "surrogatepass")) % shared if own is None else own


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Floats = (vectors / np.maximum(lengths, TINY)).astype(np.float32)
    return found
