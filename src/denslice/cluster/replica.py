"""A replica: one shard, open for reading in a process of its own, which Ray starts again wherever it can.

Questions and answers travel as bytes: pickled here, they cost a fraction of what Ray would take for the objects.
"""

from __future__ import annotations

import fcntl
import pickle
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from denslice.cluster.shard import Shard
from denslice.options import ON_CPU, OpenOptions, SearchOptions
from denslice.records import Doc, Explanation
from denslice.search.query import Found, QueryVectors


class Find(NamedTuple):
    """The shard's best for each query."""

    queries: Sequence[QueryVectors]
    options: SearchOptions

    def answer(self, shard: Shard) -> list[Found]:
        """What the shard finds."""
        return shard.find(self.queries, self.options)


class Fetch(NamedTuple):
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


Question = Find | Fetch | Explain


def packed(question: Question) -> bytes:
    """The question as it is sent."""
    return pickle.dumps(question)


def unpacked(answer: bytes) -> Any:
    """The answer as it was given."""
    return pickle.loads(answer)


@contextmanager
def first_alone() -> Iterator[None]:
    """A block that the first of some processes is in alone, and the others after it, together.

    So one of a machine's replicas compiles what search needs, if nobody has yet, and the others load that. The lock is
    on this file, which those have in common that share what was compiled.
    """
    with ExitStack() as held:
        with suppress(OSError):  # some file systems have no locks
            file = held.enter_context(Path(__file__).open("rb"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fcntl.flock(file, fcntl.LOCK_SH)
        yield


class Replica:
    """Answers for one shard. Each question names the commit it must at least see, and the replica moves on to it."""

    def __init__(self, folder: str, on: OpenOptions = ON_CPU) -> None:
        self.folder = folder
        self.on = on
        self._opening = threading.Lock()
        self._open: Shard | None = None

    def ready(self) -> bool:
        """Opens the shard and makes it ready to search; True."""
        shard = self._shard("")
        with first_alone():
            shard.warm_up()
        return True

    def answer(self, commit: str, question: bytes) -> bytes:
        """The shard's answer, packed, at this commit or a later one."""
        asked: Question = pickle.loads(question)
        return pickle.dumps(asked.answer(self._shard(commit)))

    def _shard(self, commit: str) -> Shard:
        with self._opening:
            self._open = self._open or Shard.open(self.folder, **vars(self.on))
            self._open.follow(commit)
            return self._open
