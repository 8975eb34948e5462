"""WordTable: the quick side of a model, a vector for each word and a small network over their sum.

A text's quick vector approximates the one that the whole model gives it, from nothing but its BM25 weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, is_zipfile
from zlib import crc32
from zlib import error as ZlibError  # noqa: N812

import numpy as np
import numpy.typing as npt

from denslice.blas_threads import one_blas_thread
from denslice.encoders.bm25 import LANGUAGE, PHRASE
from denslice.errors import InputError
from denslice.store.vocabulary import WordIds
from denslice.vectors import Floats, Ints, csr

if TYPE_CHECKING:
    import scipy.sparse as sp

RowNumbers = npt.NDArray[np.int32]
Array = npt.NDArray[Any]
TABLE_FILE = "words.npz"
NUMBERS = ("lam", "word_scale", "vector_scale")
SHAPES: dict[str, tuple[str, ...]] = {  # of its arrays, beside the bytes of the words
    "rows": ("rows", "width"),
    "scale": ("rows",),
    "straight": ("width", "dimensions"),
    "inner": ("width", "neurons"),
    "inner_bias": ("neurons",),
    "outer": ("neurons", "dimensions"),
    "outer_bias": ("dimensions",),
    **dict.fromkeys(NUMBERS, ()),
}
TINY = np.float32(1e-12)
UNKNOWN = -1  # the row of a token that was not needed yet


@dataclass(frozen=True)
class WordTable:
    """Rows of words, then rows that all other words share, and one of zeros; and the network from a sum to a vector.

    Phrases and languages add nothing: their row is that of zeros.
    """

    places: Mapping[str, int]  # the rows of words that have one of their own
    rows: Floats  # (words + shared + 1, width)
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
        """Read the table of a model folder; raise InputError if it has none, or one that cannot be read."""
        path = folder / TABLE_FILE
        if not path.is_file():
            raise InputError(f"the model {folder.name} has no {TABLE_FILE}, so it cannot read texts quickly")
        try:
            return cls.of(_arrays(path))
        except (ValueError, EOFError, RuntimeError, BadZipFile, ZlibError) as error:
            raise InputError(f"the model {folder.name} cannot read texts quickly: {TABLE_FILE}: {error}") from error

    @classmethod
    def of(cls, stored: Mapping[str, Array]) -> WordTable:
        """Return the table that these arrays make; raise ValueError if they do not fit each other."""
        _check_shapes(stored)
        words = stored["words"].tobytes().decode().split("\n")
        single = {name: stored[name].astype(np.float32) for name in SHAPES}
        if len(words) >= len(single["rows"]):
            raise ValueError(
                f"{len(words):,} words and those not among them need more than {len(single['rows']):,} rows"
            )
        rows = np.pad(single.pop("rows") * single.pop("scale")[:, None], ((0, 1), (0, 0)))
        lam, word_scale, vector_scale = (float(single.pop(name)) for name in NUMBERS)
        places = {word: row for row, word in enumerate(words)}
        return cls(places, rows, lam=lam, word_scale=word_scale, vector_scale=vector_scale, **single)

    def row_of(self, word: str) -> int:
        """Return the row of a word; phrases and languages have that of zeros."""
        nothing = len(self.rows) - 1
        return nothing if word.startswith((PHRASE, LANGUAGE)) else row_of(word, self.places, nothing - len(self.places))

    def vectors(self, weights: sp.csr_array, row_of: RowNumbers) -> Floats:
        """Return the vectors of texts with these weights: of length 1, or 0 without words.

        `row_of` has the rows of tokens.
        """
        by_row = csr((weights.data, row_of[weights.indices], weights.indptr), (weights.shape[0], len(self.rows)))
        sums = by_row @ self.rows
        unit = _unit(sums) * np.float32(self.rows.shape[1] ** 0.5)
        with one_blas_thread():
            bent = np.maximum(unit @ self.inner + self.inner_bias, 0) @ self.outer + self.outer_bias
            vectors = _unit(unit @ self.straight + bent)
        found: Floats = vectors * sums.any(axis=1)[:, None]
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


def _arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of a table by their names; raise ValueError if one is missing."""
    if not is_zipfile(path):
        raise ValueError("is not a zip file")
    with np.load(path) as stored:
        if missing := [name for name in ("words", *SHAPES) if name not in stored]:
            raise ValueError(f"has no array {', '.join(missing)}")
        return {name: np.asarray(stored[name]) for name in ("words", *SHAPES)}


def _check_shapes(stored: Mapping[str, Array]) -> None:
    """Raise ValueError at the first array that has not the shape which those before it require."""
    sizes: dict[str, int] = {}
    for name, axes in SHAPES.items():
        shape = stored[name].shape
        known = tuple(sizes.get(axis) for axis in axes)
        if len(shape) != len(axes) or any(had not in (None, size) for had, size in zip(known, shape, strict=True)):
            expected = ", ".join(
                axis if had is None else f"{axis} = {had}" for axis, had in zip(axes, known, strict=True)
            )
            raise ValueError(f"{name} has the shape {shape}, expected ({expected})")
        sizes.update(zip(axes, shape, strict=True))


def _unit(vectors: Floats) -> Floats:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    found: Floats = (vectors / np.maximum(lengths, TINY)).astype(np.float32)
    return found
