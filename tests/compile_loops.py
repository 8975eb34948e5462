"""Compiles all loops that are not kept on disk yet: workers that start together would each do it."""

import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from denslice import Index, open_index
from denslice.search import compile_loops
from denslice.search.cpu import two_stage

WAYS = ({"theta": 0.5}, {"candidates": 20, "candidates_from": "lexical"})  # with other loops each
DENSE = np.ones((50, 8), np.float32)


def search(path: Path, options: dict[str, Any]) -> None:
    """Search with compiled loops, however small the index is."""
    two_stage.SMALL_INDEX = 0
    query = sp.csr_array(np.ones((1, 20), np.float32))
    open_index(path).search_vectors(query, dense=DENSE[0], **options)


def scan() -> None:
    """Read texts with compiled loops."""
    from denslice.encoders.chunk_scan import ChunkTable

    ChunkTable().scan([" ".join(map(str, range(3_000)))])  # more than fit the first table


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(2) as pool:
        path = Path(folder) / "my.idx"
        weights = sp.random(50, 20, 0.3, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
        with Index.create(path, "vectors", vocab=20, slices=4, slicing="learned") as index:
            index.add_vectors([str(row) for row in range(50)], weights, dense=DENSE)
        done = [pool.submit(compile_loops.main), pool.submit(scan)]
        list(pool.map(partial(search, path), WAYS))
        for one in done:
            one.result()
