"""The peers of search on a GPU: the paper's method and a dense scan, both in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.bench.synthetic import SyntheticCollection, SyntheticPart
from denslice.errors import MissingExtraError
from denslice.search.query import QueryVectors

CHUNK = 1 << 20  # documents scored at a time
Found = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]


class PaperSearch:
    """The paper's search: row-major values and gates; the active slices are gathered, multiplied where the gates agree,
    and summed, and the best candidates are rescored with every slice."""

    def __init__(self, collection: SyntheticCollection, parts: Sequence[SyntheticPart]) -> None:
        torch = _torch()
        self.torch, self.collection = torch, collection
        docs = sum(part.rows for part in parts)
        self.values = torch.empty((docs, collection.slices), dtype=torch.float16, device="cuda")
        self.gates = torch.empty((docs, collection.slices), dtype=torch.uint8, device="cuda")
        for part in parts:
            rows = slice(part.first, part.first + part.rows)
            shape = (part.rows, collection.slices)
            self.values[rows] = torch.as_tensor(part.kept.weights.view(np.float16), device="cuda").reshape(shape)
            gates = (part.kept.keys % np.uint16(collection.gates)).astype(np.uint8)
            self.gates[rows] = torch.as_tensor(gates, device="cuda").reshape(shape)

    def search(self, query: QueryVectors, k: int) -> Found:
        """Return the k best by all weights of the query."""
        best = self._scores(*self._sliced(query)).topk(k)
        return best.indices.cpu().numpy(), best.values.float().cpu().numpy()

    def search_twice(self, query: QueryVectors, k: int, active: int, candidates: int) -> Found:
        """Return the k best by all weights among the `candidates` best by the strongest `active` weights."""
        slices, gates, weights = self._sliced(query)
        strong = weights.topk(active).indices
        kept = self._scores(slices[strong], gates[strong], weights[strong]).topk(candidates).indices
        best = _gated(self.values[kept][:, slices], self.gates[kept][:, slices], gates, weights).topk(k)
        return kept[best.indices].cpu().numpy(), best.values.float().cpu().numpy()

    def _sliced(self, query: QueryVectors) -> tuple[Any, ...]:
        """Return the query's slices, gates and weights on the GPU."""
        slices, gates = np.divmod(query.keys, self.collection.gates)
        parts = (slices, gates.astype(np.uint8), query.weights.astype(np.float16))
        return tuple(self.torch.from_numpy(part).cuda() for part in parts)

    def _scores(self, slices: Any, gates: Any, weights: Any) -> Any:
        every = len(slices) == self.collection.slices
        parts = []
        for start in range(0, len(self.values), CHUNK):
            values, theirs = self.values[start : start + CHUNK], self.gates[start : start + CHUNK]
            if not every:
                values, theirs = values[:, slices], theirs[:, slices]
            parts.append(_gated(values, theirs, gates, weights))
        return self.torch.cat(parts)


class DenseScan:
    """The product of every dense vector with the query, and the k best."""

    def __init__(self, parts: Sequence[SyntheticPart]) -> None:
        torch = _torch()
        self.torch = torch
        docs, dimensions = sum(part.rows for part in parts), parts[0].dense.shape[1]
        self.vectors = torch.empty((docs, dimensions), dtype=torch.float16, device="cuda")
        for part in parts:
            self.vectors[part.first : part.first + part.rows] = torch.as_tensor(part.dense, device="cuda")

    def search(self, query: QueryVectors, k: int) -> Found:
        """Return the k best by inner product."""
        best = (self.vectors @ self.torch.from_numpy(query.dense).cuda().half()).topk(k)
        return best.indices.cpu().numpy(), best.values.float().cpu().numpy()


def _gated(values: Any, gates: Any, query_gates: Any, weights: Any) -> Any:
    return _torch().einsum("nm,m->n", values * (gates == query_gates), weights)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("the comparison with PyTorch", "torch") from error
    return torch
