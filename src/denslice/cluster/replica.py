"""A replica: one shard, open for reading in a process of its own, which Ray starts again wherever it can."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from denslice.cluster.shard import Shard
from denslice.records import Doc, Explanation
from denslice.search.retrieve import Found, QueryVectors, Settings
from denslice.view import Where


class Replica:
    """Answers for one shard. Each call names the commit it must at least see, and the replica moves on to it."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._opening = threading.Lock()
        self._open: Shard | None = None

    def ready(self) -> bool:
        """Opens the shard and loads the compiled loops; True."""
        from denslice.search import cpu

        return self._shard(0) is not None and cpu is not None

    def find(
        self, generation: int, queries: Sequence[QueryVectors], settings: Settings, where: Where = None
    ) -> list[Found]:
        """This shard's best for each query."""
        return self._shard(generation).find([_own(query) for query in queries], settings, where)

    def documents(self, generation: int, ids: Sequence[str]) -> list[Doc | None]:
        """The documents with these ids, None for those that are not here any more."""
        shard = self._shard(generation)
        return [shard.get(id) for id in ids]

    def explain(self, generation: int, query: QueryVectors, whole: QueryVectors, id: str) -> Explanation:
        """Why a document of this shard scores what it does."""
        return self._shard(generation).why(_own(query), _own(whole), id)

    def _shard(self, generation: int) -> Shard:
        with self._opening:
            self._open = self._open or Shard.open(self.folder)
            self._open.follow(generation)
            return self._open


def _own(query: QueryVectors) -> QueryVectors:
    """The query in arrays of this process: those from another are read-only, for which loops would be compiled anew."""
    dense = None if query.dense is None else np.array(query.dense)
    return replace(query, keys=np.array(query.keys), weights=np.array(query.weights), dense=dense)
