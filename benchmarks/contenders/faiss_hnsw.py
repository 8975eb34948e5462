"""The graph (HNSW) of Faiss over dense vectors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contenders.contender import Contender, Found, Setting, Tokens, grid
from contenders.vectors_folder import Floats, VectorsFolder

INDEX = "hnsw"
NEIGHBOURS, CONSTRUCTION = 32, 200  # M and efConstruction
AT_ONCE = 65_536  # vectors that are added together
EFFORTS = (16, 32, 64, 128, 256, 512, 1024)


def build_graph(vectors: VectorsFolder, path: Path) -> None:
    """Build the graph of the dense vectors and write it to a file."""
    import faiss

    index: Any = faiss.IndexHNSWFlat(vectors.dense.shape[1], NEIGHBOURS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = CONSTRUCTION
    for start in range(0, len(vectors.dense), AT_ONCE):
        index.add(vectors.dense[start : start + AT_ONCE].astype(np.float32))
    faiss.write_index(index, str(path))


class FaissHnsw(Contender):
    """The nearest vectors by inner product."""

    kind = "dense"
    packages = ("faiss-cpu",)

    def settings(self, k: int) -> Sequence[Setting]:
        return grid(efSearch=[effort for effort in EFFORTS if effort >= k])

    def build(self, vectors: VectorsFolder, folder: Path) -> None:
        build_graph(vectors, folder / INDEX)

    def open(self, vectors: VectorsFolder, folder: Path) -> None:
        import faiss

        self._index: Any = faiss.read_index(str(folder / INDEX))

    def query(self, tokens: Tokens, weights: Floats, dense: Floats) -> Floats:
        return dense[None]

    def search(self, query: Floats, k: int, setting: Setting) -> Any:
        self._index.hnsw.efSearch = setting["efSearch"]
        return self._index.search(query, k)[1]

    def found(self, answer: Any) -> Found:
        return list(answer[0])
