"""A replica: a Ray actor that has one shard open for reading. Ray restarts it if its process or machine is lost.

Requests and responses are pickled here, which costs a fraction of the time that Ray takes to serialise the objects.
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
    """A request for the shard's k best documents for each query."""

    queries: Sequence[QueryVectors]
    options: SearchOptions

    def answer(self, shard: Shard) -> list[Found]:
        """Search the shard."""
        return shard.find(self.queries, self.options)


class Fetch(NamedTuple):
    """A request for documents by id; the response has None for an id that was deleted."""

    ids: Sequence[str]

    def answer(self, shard: Shard) -> list[Doc | None]:
        """Fetch the documents from the shard."""
        return [shard.get(id) for id in self.ids]


class Explain(NamedTuple):
    """A request for the explanation of a score; `whole` is the query before slicing."""

    query: QueryVectors
    whole: QueryVectors
    id: str

    def answer(self, shard: Shard) -> Explanation:
        """Explain the score in the shard."""
        return shard.why(self.query, self.whole, self.id)


ReplicaRequest = Find | Fetch | Explain


def packed(request: ReplicaRequest) -> bytes:
    """Serialise a request."""
    return pickle.dumps(request)


def unpacked(response: bytes) -> Any:
    """Deserialise a response."""
    return pickle.loads(response)


@contextmanager
def compile_lock() -> Iterator[None]:
    """Run the block in one process first, and then in all others at the same time.

    One replica of a machine compiles the search code, and the others load it from the cache. The lock is on this file,
    because processes that share this file share the cache.
    """
    with ExitStack() as stack:
        with suppress(OSError):  # some file systems have no locks
            file = stack.enter_context(Path(__file__).open("rb"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fcntl.flock(file, fcntl.LOCK_SH)
        yield


class Replica:
    """Answers requests to one shard. A request names a commit; the replica refreshes unless it shows that commit."""

    def __init__(self, folder: str, on: OpenOptions = ON_CPU) -> None:
        self.folder = folder
        self.on = on
        self._opening = threading.Lock()
        self._open: Shard | None = None

    def ready(self) -> bool:
        """Open the shard, warm it up, and return True."""
        shard = self._shard("")
        with compile_lock():
            shard.warm_up()
        return True

    def answer(self, commit: str, packed_request: bytes) -> bytes:
        """Return the packed response to a request, at this commit or a later one."""
        request: ReplicaRequest = pickle.loads(packed_request)
        return pickle.dumps(request.answer(self._shard(commit)))

    def _shard(self, commit: str) -> Shard:
        with self._opening:
            self._open = self._open or Shard.open(self.folder, **vars(self.on))
            self._open.follow(commit)
            return self._open
