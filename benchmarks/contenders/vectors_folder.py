"""A folder with the vectors of documents and queries and the exact best documents, which every contender reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

ABOUT = "about.json"
TYPES = {"data": "<f2", "indices": "<u4", "dense": "<f2"}  # of the numbers in NAME.bin
KINDS = ("hybrid", "dense", "words")
SETS = ("chosen", "timed")  # the queries by which settings are chosen, and others that are timed
Floats = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Queries:
    """Queries, and the best documents of each."""

    words: sp.csr_array  # (queries, vocabulary)
    dense: Floats  # (queries, dimensions), of length 1
    best: dict[str, Rows]  # by kind: (queries, depth), best first

    def row(self, at: int) -> tuple[npt.NDArray[np.int32], Floats]:
        """Return the tokens and weights of a query."""
        span = slice(self.words.indptr[at], self.words.indptr[at + 1])
        return self.words.indices[span].astype(np.int32), self.words.data[span].astype(np.float32)


@dataclass(frozen=True)
class VectorsFolder:
    """The vectors of a collection. Files of documents are memory-mapped."""

    path: Path

    @cached_property
    def about(self) -> dict[str, Any]:
        """The name of the collection, its sizes, and λ."""
        about: dict[str, Any] = json.loads((self.path / ABOUT).read_text(encoding="utf-8"))
        return about

    @property
    def lam(self) -> float:
        """The weight λ of cosines."""
        return float(self.about["lambda"])

    @cached_property
    def docs(self) -> sp.csr_array:
        """The lexical weights (documents, vocabulary), in memory as float32."""
        weights, tokens = self._mapped("data").astype(np.float32), self._mapped("indices").astype(np.int32)
        shape = (self.about["documents"], self.about["vocabulary"])
        return sp.csr_array((weights, tokens, np.load(self.path / "indptr.npy")), shape)

    @cached_property
    def dense(self) -> npt.NDArray[np.float16]:
        """The dense vectors (documents, dimensions)."""
        return self._mapped("dense").reshape(-1, self.about["dimensions"])

    def queries(self, name: str) -> Queries:
        """Return one of SETS."""
        words = sp.csr_array(sp.load_npz(self.path / f"{name}.npz"))
        best = {kind: np.load(self.path / f"{name}-best-{kind}.npy") for kind in KINDS}
        return Queries(words, np.load(self.path / f"{name}-dense.npy"), best)

    def _mapped(self, name: str) -> npt.NDArray[Any]:
        return np.memmap(self.path / f"{name}.bin", TYPES[name], "r")
