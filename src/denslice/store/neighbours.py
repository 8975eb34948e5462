"""Neighbours: a faiss index of a large segment's dense vectors, where scanning all of them would take too long.

It holds the vectors in 8 bits, in lists of vectors near each other, and only proposes rows: scores are always those of
the vectors themselves. Without faiss none is written, and one that is there is left aside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.errors import IndexFormatError
from denslice.store.files import Array, StoredFile, check_contents, seal
from denslice.vectors import Floats, Ints

NAME = "neighbours.faiss"
FROM = 1_000_000  # rows from which on a segment has neighbours
LOOKED_AT = 1 / 8  # of the lists, by each search
TRAINED_ON = 64  # vectors a list
AT_ONCE = 65_536  # vectors turned to float32 at a time


class Neighbours:
    """An open faiss index over a segment's rows."""

    def __init__(self, folder: Path, stored: StoredFile) -> None:
        faiss = _faiss()
        path = folder / NAME
        check_contents(folder, {NAME: stored})  # faiss trusts what it reads
        try:
            self._index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        except RuntimeError as error:
            raise IndexFormatError(f"{path}: cannot be read by faiss {faiss.__version__}") from error
        self._faiss = faiss

    def nearest(self, vector: Floats, count: int, mask: npt.NDArray[np.uint8]) -> Ints:
        """About the `count` rows with the largest inner products, among those whose mask is not 0, if it is given."""
        allowed = np.packbits(mask, bitorder="little") if len(mask) else None
        selector = None if allowed is None else self._faiss.IDSelectorBitmap(allowed)
        lists = max(1, round(self._index.nlist * LOOKED_AT))
        settings = self._faiss.SearchParametersIVF(nprobe=lists, sel=selector)
        _, rows = self._index.search(vector[None], min(count, self._index.ntotal), params=settings)
        found: Ints = rows[0][rows[0] >= 0]
        return found


def write_neighbours(folder: Path, vectors: Array) -> dict[str, StoredFile]:
    """Writes the neighbours of these vectors (n, dimensions), where they are many and faiss is installed."""
    if len(vectors) < FROM or not is_installed():
        return {}
    faiss = _faiss()
    lists = max(1, int(4 * len(vectors) ** 0.5))
    coarse = faiss.IndexFlatIP(vectors.shape[1])
    index = faiss.IndexIVFScalarQuantizer(
        coarse, vectors.shape[1], lists, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    index.train(vectors[:: max(1, len(vectors) // (lists * TRAINED_ON))].astype(np.float32))
    for start in range(0, len(vectors), AT_ONCE):
        index.add(vectors[start : start + AT_ONCE].astype(np.float32))
    faiss.write_index(index, str(folder / NAME))
    return {NAME: seal(folder / NAME)}


def is_installed() -> bool:
    """Whether faiss can be imported."""
    try:
        _faiss()
    except ImportError:
        return False
    return True


def _faiss() -> Any:
    import faiss

    return faiss
