"""A replica: one shard, open for reading in a process of its own, which Ray starts again wherever it can."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from denslice.records import Doc, Explanation
from denslice.search.retrieve import Found, QueryVectors, Settings
from denslice.view import View, Where


class Replica:
    """Answers for one shard. Each call names the commit it must at least see, and the replica moves on to it."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._opening = threading.Lock()
        self._open: View | None = None

    def ready(self) -> int:
        """Opens the shard and loads the compiled loops; the commit it is at."""
        from denslice.search import cpu

        del cpu
        return self._view(0).generation

    def find(
        self, generation: int, queries: Sequence[QueryVectors], settings: Settings, where: Where = None
    ) -> list[Found]:
        """This shard's best for each query."""
        return self._view(generation).find([_own(query) for query in queries], settings, where)

    def documents(self, generation: int, ids: Sequence[str]) -> list[Doc | None]:
        """The documents with these ids, None for those that are not here any more."""
        view = self._view(generation)
        return [view.get(id) for id in ids]

    def explain(self, generation: int, query: QueryVectors, whole: QueryVectors, id: str) -> Explanation:
        """Why a document of this shard scores what it does."""
        return self._view(generation).explain_vectors(_own(query), _own(whole), id)

    def _view(self, generation: int) -> View:
        with self._opening:
            if self._open is None or self._open.generation < generation:
                self._open = View(self.folder)
            return self._open


def _own(query: QueryVectors) -> QueryVectors:
    """The query in arrays of this process: those from another are read-only, for which loops would be compiled anew."""
    dense = None if query.dense is None else np.array(query.dense)
    return replace(query, keys=np.array(query.keys), weights=np.array(query.weights), dense=dense)
