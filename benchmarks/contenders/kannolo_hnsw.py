"""kANNolo: a graph (HNSW) over sparse vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contenders.contender import Contender, Found, Setting, Tokens, grid
from contenders.vectors_folder import Floats, VectorsFolder

INDEX = "kannolo"
NEIGHBOURS, CONSTRUCTION = 32, 200  # as by default
EFFORTS = (20, 40, 80, 160, 320, 640, 1280)


class KannoloHnsw(Contender):
    """The plain graph, whose vectors are not quantised."""

    packages = ("kannolo",)

    def settings(self, k: int) -> Sequence[Setting]:
        return grid(ef_search=[effort for effort in EFFORTS if effort >= k])

    def build(self, vectors: VectorsFolder, folder: Path) -> None:
        import kannolo

        docs = vectors.docs
        parts = docs.indices.astype(np.int32), docs.data, docs.indptr.astype(np.int64)
        kannolo.SparsePlainHNSW.build_from_arrays(*parts, NEIGHBOURS, CONSTRUCTION).save(str(folder / INDEX))

    def open(self, vectors: VectorsFolder, folder: Path) -> None:
        import kannolo

        self._index = kannolo.SparsePlainHNSW.load(str(folder / INDEX))

    def query(self, tokens: Tokens, weights: Floats, dense: Floats) -> tuple[Tokens, Floats]:
        return tokens, weights

    def search(self, query: tuple[Tokens, Floats], k: int, setting: Setting) -> Any:
        return self._index.search(*query, k, setting["ef_search"])[1]

    def found(self, answer: Any) -> Found:
        return list(answer)
