"""The paper's method in PyTorch on the CPU: values and gates of all documents, gathered, compared and summed.

This is its equation 7 as tensors: in the slices where the query has a weight, a document's value counts if its gate is
the query's. Every document is scored, so times are measured on some documents and scaled to all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from denslice.bench.bench_data import Collection
from denslice.bench.contender import Contender, Docs, Setting
from denslice.densify import densify
from denslice.slicing import Slicing

VALUES, GATES, QUERY_VALUES, QUERY_GATES = "values.npy", "gates.npy", "query_values.npy", "query_gates.npy"
LEARNED_FROM = 20_000  # documents the slicing is learned from, as an index learns it


@dataclass(frozen=True)
class Paper(Contender):
    """Values in float32 and gates in uint8, with a row for each document; all slices of the query are scored."""

    name: str = "the paper's method, PyTorch"
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"slicing": "learned", "slices": 768})
    packages: Sequence[str] = ("torch",)
    files: Sequence[str] = (VALUES, GATES)
    built_as: str = "paper"
    module: str = "torch"
    most_docs: int | None = 100_000

    def build(self, collection: Collection, folder: Path) -> None:
        docs = collection.docs[: self.most_docs]
        slicing = Slicing.made(self.parameters["slicing"], docs[:LEARNED_FROM], self.parameters["slices"])
        for names, rows in (((VALUES, GATES), docs), ((QUERY_VALUES, QUERY_GATES), collection.queries)):
            slices = densify(rows, slicing)
            np.save(folder / names[0], slices.values)
            np.save(folder / names[1], slices.gates)

    def open(self, collection: Collection, folder: Path) -> _OpenedPaper:
        return _OpenedPaper(folder)


class _OpenedPaper:
    def __init__(self, folder: Path) -> None:
        import torch

        torch.set_num_threads(torch.get_num_threads())
        self._torch = torch
        self._values, self._gates, self._query_values, self._query_gates = (
            torch.from_numpy(np.load(folder / name)) for name in (VALUES, GATES, QUERY_VALUES, QUERY_GATES)
        )

    def query(self, at: int) -> tuple[Any, Any, Any]:
        active = self._torch.nonzero(self._query_values[at])[:, 0]  # the slices where the query has a weight
        return active, self._query_values[at][active], self._query_gates[at][active]

    def search(self, query: tuple[Any, Any, Any], k: int, setting: Setting) -> Any:
        active, values, gates = query
        matching = self._gates[:, active] == gates  # (documents, active)
        scores = self._torch.einsum("dm,m->d", self._values[:, active] * matching, values)
        return self._torch.topk(scores, min(k, len(scores))).indices

    def docs(self, answer: Any) -> Docs:
        return np.asarray(answer)

    def search_all(self, k: int, setting: Setting) -> int:
        return sum(len(self.search(self.query(at), k, setting)) > 0 for at in range(len(self._query_values)))
