"""denslice on ready vectors, exact and as it is by default, through the calls that a user makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from contenders.contender import Contender, Found, Setting, Tokens
from contenders.vectors_folder import Floats, VectorsFolder
from denslice import Index, Ranking
from denslice.store.tiers import SEGMENT_DOCS

INDEX = "index"
MODES = {"words": "lexical"}  # the other kinds are called the same


class DensliceIndex(Contender):
    """An index of both vectors, or of the words alone, which is searched in one mode."""

    packages = ("numpy", "scipy", "numba")
    every = True

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def settings(self, k: int) -> Sequence[Setting]:
        return [{"pruning": 0.0}, {}]

    def build(self, vectors: VectorsFolder, folder: Path) -> None:
        docs = vectors.docs
        with Index.create(folder / INDEX, "vectors", vocab=docs.shape[1]) as index:
            for start in range(0, docs.shape[0], SEGMENT_DOCS):
                part = docs[start : start + SEGMENT_DOCS]
                dense = None if self.kind == "words" else vectors.dense[start : start + SEGMENT_DOCS]
                index.add_vectors([str(start + row) for row in range(part.shape[0])], part, dense=dense)

    def open(self, vectors: VectorsFolder, folder: Path) -> None:
        self._index, self._lam, self._vocab = Index.open(folder / INDEX), vectors.lam, vectors.docs.shape[1]

    def query(self, tokens: Tokens, weights: Floats, dense: Floats) -> tuple[sp.csr_array, Floats | None]:
        row = sp.csr_array((weights, tokens, np.array([0, len(tokens)])), (1, self._vocab))
        return row, None if self.kind == "words" else np.float32(self._lam) * dense

    def search(self, query: tuple[sp.csr_array, Floats | None], k: int, setting: Setting) -> Ranking:
        weights, dense = query
        mode: dict[str, Any] = {"mode": MODES.get(self.kind, self.kind), **setting}
        return self._index.search_vectors(weights, dense=dense, k=k, **mode)

    def found(self, answer: Ranking) -> Found:
        return [int(id) for id in answer.ids]
