"""Seismic: posting lists that are pruned and clustered, with a summary of each cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contenders.contender import Contender, Found, Setting, Tokens, grid
from contenders.vectors_folder import Floats, VectorsFolder

INDEX, INPUT = "seismic", "docs.bin"
CUTS, FACTORS = (4, 6, 8, 12, 20), (0.8, 0.9, 1.0)
LARGER = {"n_postings": 3000, "centroid_fraction": 0.2, "summary_energy": 0.5, "max_fraction": 6.0}


class SeismicRaw(Contender):
    """Seismic over numbered tokens, with longer posting lists than by default."""

    packages = ("pyseismic-lsr",)

    def settings(self, k: int) -> Sequence[Setting]:
        return grid(query_cut=CUTS, heap_factor=FACTORS)

    def build(self, vectors: VectorsFolder, folder: Path) -> None:
        import seismic

        write_rows(vectors, folder / INPUT)
        seismic.SeismicIndexRaw.build(str(folder / INPUT), **LARGER).save(str(folder / INDEX))
        (folder / INPUT).unlink()

    def open(self, vectors: VectorsFolder, folder: Path) -> None:
        import seismic

        self._index = seismic.SeismicIndexRaw.load(str(next(folder.glob(f"{INDEX}*"))))

    def query(self, tokens: Tokens, weights: Floats, dense: Floats) -> tuple[Tokens, Floats]:
        return tokens, weights

    def search(self, query: tuple[Tokens, Floats], k: int, setting: Setting) -> Any:
        return self._index.search(*query, k, setting["query_cut"], setting["heap_factor"], 0, True)

    def found(self, answer: list[tuple[float, int]]) -> Found:
        return [row for _, row in answer]


def write_rows(vectors: VectorsFolder, path: Path) -> None:
    """Write Seismic's own format: the number of rows; for each its length, tokens as uint32 and weights as float32."""
    docs = vectors.docs
    with path.open("wb") as file:
        file.write(np.uint32(docs.shape[0]).tobytes())
        for start, end in zip(docs.indptr[:-1].tolist(), docs.indptr[1:].tolist(), strict=True):
            file.write(np.uint32(end - start).tobytes())
            file.write(docs.indices[start:end].astype("<u4").tobytes())
            file.write(docs.data[start:end].astype("<f4").tobytes())
