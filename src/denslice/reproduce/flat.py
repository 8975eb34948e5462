"""Faiss's flat index over a model's dense vectors, on one thread, for comparison in the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from denslice.records import Ranking
from denslice.vectors import Encoded, Floats

Search = Callable[[Sequence[str], Encoded], list[Ranking]]


def is_there() -> bool:
    """Return whether faiss is installed."""
    return find_spec("faiss") is not None


def flat_search(parts: Iterator[Encoded], doc_ids: Sequence[str], k: int) -> tuple[Search, int]:
    """Return a search by inner product, and the bytes of the index: its vectors in float32."""
    import faiss

    faiss.omp_set_num_threads(1)
    index: Any = None
    for part in parts:
        vectors = _dense(part)
        index = index or faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
    depth = min(k, len(doc_ids))

    def search(query_ids: Sequence[str], queries: Encoded) -> list[Ranking]:
        scores, rows = index.search(_dense(queries), depth)  # (queries, depth) each
        ids = [tuple(doc_ids[row] for row in found) for found in rows.tolist()]
        return [Ranking(*one) for one in zip(query_ids, ids, map(tuple, scores.tolist()), strict=True)]

    return search, 4 * index.ntotal * index.d


def _dense(encoded: Encoded) -> Floats:
    assert encoded.dense is not None  # only models with dense vectors get here
    return np.ascontiguousarray(encoded.dense, dtype=np.float32)
