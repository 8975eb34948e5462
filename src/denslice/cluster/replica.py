"""A replica: one shard, open for reading in a process of its own, which Ray starts again wherever it can.

Questions and answers travel as bytes: pickled here, they cost a fraction of what Ray would take for the objects.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from denslice.cluster.shard import Shard
from denslice.records import Doc, Explanation
from denslice.search.retrieve import Found, QueryVectors, Settings
from denslice.view import Where


class Find(NamedTuple):
    """The shard's best for each query."""

    queries: Sequence[QueryVectors]
    settings: Settings
    where: Where = None

    def answer(self, shard: Shard) -> list[Found]:
        """What the shard finds."""
        return shard.find(self.queries, self.settings, self.where)


class Documents(NamedTuple):
    """The documents with these ids, None for those that are not there any more."""

    ids: Sequence[str]

    def answer(self, shard: Shard) -> list[Doc | None]:
        """What the shard has."""
        return [shard.get(id) for id in self.ids]


class Explain(NamedTuple):
    """Why a document scores what it does; `whole` is the query before any slicing."""

    query: QueryVectors
    whole: QueryVectors
    id: str

    def answer(self, shard: Shard) -> Explanation:
        """What the shard tells."""
        return shard.why(self.query, self.whole, self.id)


Question = Find | Documents | Explain


def packed(question: Question) -> bytes:
    """The question as it is sent."""
    return pickle.dumps(question)


def unpacked(answer: bytes) -> Any:
    """The answer as it was given."""
    return pickle.loads(answer)


class Replica:
    """Answers for one shard. Each question names the commit it must at least see, and the replica moves on to it."""

    def __init__(self, folder: str, device: str = "cpu") -> None:
        self.folder = folder
        self.device = device
        self._opening = threading.Lock()
        self._open: Shard | None = None

    def ready(self) -> bool:
        """Opens the shard and makes it ready to search; True."""
        self._shard(0).warm_up()
        return True

    def answer(self, generation: int, question: bytes) -> bytes:
        """The shard's answer, packed, at this commit or a later one."""
        asked: Question = pickle.loads(question)
        return pickle.dumps(asked.answer(self._shard(generation)))

    def _shard(self, generation: int) -> Shard:
        with self._opening:
            self._open = self._open or Shard.open(self.folder, self.device)
            self._open.follow(generation)
            return self._open
