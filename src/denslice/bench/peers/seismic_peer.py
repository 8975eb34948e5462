"""Seismic (pyseismic-lsr): approximate search of learned sparse vectors over clustered and pruned posting lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from denslice.bench.bench_data import Collection
from denslice.bench.contender import Contender, Docs, Setting

INDEX, INPUT, QUERIES = "index", "docs.bin", "queries.bin"
CUTS = (3, 4, 5, 6, 8, 12)
FACTORS = (0.9, 1.0)


@dataclass(frozen=True)
class Seismic(Contender):
    """Seismic's raw index, whose tokens are numbers; `parameters` are those of its build."""

    name: str = "Seismic"
    packages: Sequence[str] = ("pyseismic-lsr",)
    files: Sequence[str] = (INDEX,)
    built_as: str = "seismic"
    module: str = "seismic"

    def settings(self, k: int) -> Sequence[Setting]:
        return [{"query_cut": cut, "heap_factor": factor} for cut in CUTS for factor in FACTORS]

    def prepare(self, collection: Collection, folder: Path) -> None:
        write_rows(folder / INPUT, collection.docs)
        write_rows(folder / QUERIES, collection.queries)

    def build(self, collection: Collection, folder: Path) -> None:
        import seismic

        seismic.SeismicIndexRaw.build(str(folder / INPUT), **self.parameters).save(str(folder / INDEX))
        (folder / INPUT).unlink()

    def open(self, collection: Collection, folder: Path) -> _OpenedSeismic:
        return _OpenedSeismic(collection, folder)


class _OpenedSeismic:
    def __init__(self, collection: Collection, folder: Path) -> None:
        import seismic

        self._index = seismic.SeismicIndexRaw.load(str(folder / INDEX))
        self._queries = collection.queries
        self._file = str(folder / QUERIES)

    def query(self, at: int) -> tuple[Any, Any]:
        row = self._queries[at : at + 1]
        return row.indices.astype(np.int32), row.data.astype(np.float32)

    def search(self, query: tuple[Any, Any], k: int, setting: Setting) -> Any:
        return self._index.search(*query, k, setting["query_cut"], setting["heap_factor"], 0, True)

    def docs(self, answer: list[tuple[float, int]]) -> Docs:
        return np.array([doc for _, doc in answer], dtype=np.int64)

    def search_all(self, k: int, setting: Setting) -> int:
        found = self._index.batch_search(self._file, k, setting["query_cut"], setting["heap_factor"], 0, True)
        return len(found)


def write_rows(path: Path, rows: sp.csr_array) -> None:
    """Write Seismic's own format: the number of rows; for each its length, tokens as uint32 and weights as float32."""
    with path.open("wb") as file:
        file.write(np.uint32(rows.shape[0]).tobytes())
        for start, end in zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True):
            file.write(np.uint32(end - start).tobytes())
            file.write(rows.indices[start:end].astype("<u4").tobytes())
            file.write(rows.data[start:end].astype("<f4").tobytes())
