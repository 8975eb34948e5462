"""impact-index: compressed posting lists with block maxima (MaxScore, WAND), and block-max pruning (BMP)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contenders.contender import Contender, Found, Setting, Tokens, grid
from contenders.vectors_folder import Floats, VectorsFolder

RAW, INDEX = "raw", "searched"
BITS = 16  # of a weight in posting lists
BLOCK = 32  # documents of a block of BMP


class ImpactLists(Contender):
    """Posting lists, of which both exact algorithms are tried."""

    packages = ("impact-index",)

    def settings(self, k: int) -> Sequence[Setting]:
        return grid(method=["maxscore", "wand"])

    def build(self, vectors: VectorsFolder, folder: Path) -> None:
        _raw(vectors, folder).compress(str(folder / INDEX), nbits=BITS)
        shutil.rmtree(folder / RAW)

    def open(self, vectors: VectorsFolder, folder: Path) -> None:
        import impact_index

        index = impact_index.Index.load(str(folder / INDEX), True)
        self._searches: dict[str, Any] = {"maxscore": index.search_maxscore, "wand": index.search_wand}

    def query(self, tokens: Tokens, weights: Floats, dense: Floats) -> dict[int, float]:
        return dict(zip(tokens.tolist(), weights.tolist(), strict=True))

    def search(self, query: dict[int, float], k: int, setting: Setting) -> Any:
        return self._searches[setting["method"]](query, k)

    def found(self, answer: Any) -> Found:
        return [one.docid for one in answer]


class ImpactBlocks(Contender):
    """BMP, whose weights have 8 bits; it skips blocks if alpha is below 1."""

    packages = ("impact-index",)

    def settings(self, k: int) -> Sequence[Setting]:
        return grid(alpha=[0.8, 0.9, 1.0])

    def build(self, vectors: VectorsFolder, folder: Path) -> None:
        _raw(vectors, folder).to_bmp(str(folder / INDEX), BLOCK, True)
        shutil.rmtree(folder / RAW)

    def open(self, vectors: VectorsFolder, folder: Path) -> None:
        import impact_index

        self._index: Any = impact_index.BmpSearcher(str(folder / INDEX))

    def query(self, tokens: Tokens, weights: Floats, dense: Floats) -> dict[str, float]:
        return dict(zip(map(str, tokens.tolist()), weights.tolist(), strict=True))

    def search(self, query: dict[str, float], k: int, setting: Setting) -> Any:
        return self._index.search(query, k, setting["alpha"], 1.0)[0]

    def found(self, answer: list[str]) -> Found:
        return [int(one) for one in answer]


def _raw(vectors: VectorsFolder, folder: Path) -> Any:
    """Return an index of plain posting lists, from which the others are made."""
    import impact_index

    docs = vectors.docs
    builder = impact_index.IndexBuilder(str(folder / RAW), impact_index.BuilderOptions())
    for row, (start, end) in enumerate(zip(docs.indptr[:-1].tolist(), docs.indptr[1:].tolist(), strict=True)):
        builder.add(row, docs.indices[start:end].astype(np.uintp), docs.data[start:end])
    return builder.build(False)
