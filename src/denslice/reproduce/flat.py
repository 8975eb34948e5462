"""Faiss's flat index over a model's dense vectors, on one thread, for comparison in the same run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from denslice.rankings import Ranking
from denslice.reproduce.encoding import Encodings
from denslice.vectors import Encoded

Search = Callable[[Sequence[str], Encoded], list[Ranking]]


def is_there() -> bool:
    """Return whether faiss is installed."""
    return find_spec("faiss") is not None


def flat_search(model: Encodings, doc_ids: Sequence[str], k: int) -> tuple[Search, int]:
    """Return a search by inner product, and the bytes of the index: its vectors in float32."""
    import faiss

    faiss.omp_set_num_threads(1)
    index: Any = faiss.IndexFlatIP(model.facts.dimensions or 0)  # asked only of models with dense vectors
    for part in model.doc_parts():
        index.add(part.dense)
    depth = min(k, len(doc_ids))

    def search(query_ids: Sequence[str], queries: Encoded) -> list[Ranking]:
        scores, rows = index.search(queries.dense, depth)  # (queries, depth) each
        ids = [tuple(doc_ids[row] for row in found) for found in rows.tolist()]
        return [Ranking(*one) for one in zip(query_ids, ids, map(tuple, scores.tolist()), strict=True)]

    return search, 4 * index.ntotal * index.d
