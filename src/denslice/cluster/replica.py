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
from typing import NamedTuple

import numpy as np

from denslice.index.found_docs import FoundScore
from denslice.index.index import Index
from denslice.index.match_requests import MatchRequest
from denslice.index.reader import Reader
from denslice.index.similar import StoredVectors
from denslice.options import ON_CPU, OpenOptions, SearchOptions
from denslice.rankings import Explanation, FoundDoc
from denslice.records import Doc, Place
from denslice.search.query import Found, QueryVectors


class Find(NamedTuple):
    """A request for the shard's k best documents for each query."""

    queries: Sequence[QueryVectors]
    options: SearchOptions

    def answer(self, reader: Reader) -> list[Found]:
        """Search the shard. The weights of the queries use the idf of the whole collection."""
        return reader.find(self.queries, self.options)


class Fetch(NamedTuple):
    """A request for documents by id; the response has None for an id that was deleted."""

    ids: Sequence[str]

    def answer(self, reader: Reader) -> list[Doc | None]:
        """Fetch the documents from the shard."""
        return [reader.get(id) for id in self.ids]


class FetchPlaces(NamedTuple):
    """A request for the places of a document's passages."""

    id: str

    def answer(self, reader: Reader) -> list[Place] | None:
        """Fetch the places from the shard; None if the document was deleted."""
        return reader.places(self.id)


class FetchFound(NamedTuple):
    """A request for documents with their best passages for a query, or for single passages by number."""

    query: QueryVectors
    wanted: Sequence[tuple[str, FoundScore]]  # the id of each document, and its scores

    def answer(self, reader: Reader) -> list[FoundDoc | None]:
        """Fetch the documents from the shard; None for one that was deleted."""
        return [reader.get_found(id, self.query, score) for id, score in self.wanted]


class Explain(NamedTuple):
    """A request for the explanation of a score; `whole` is the query before slicing."""

    query: QueryVectors
    whole: QueryVectors
    id: str
    passage: int | None

    def answer(self, reader: Reader) -> Explanation:
        """Explain the score in the shard."""
        return reader.explain_vectors(self.query, self.whole, self.id, self.passage)


class FetchVectors(NamedTuple):
    """A request for the stored vectors of a document."""

    id: str

    def answer(self, reader: Reader) -> StoredVectors | None:
        """Fetch the vectors from the shard; None if the document was deleted."""
        return reader.vectors_of(self.id)


ReplicaRequest = Find | Fetch | FetchPlaces | FetchFound | FetchVectors | Explain | MatchRequest


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
        self._index: Index | None = None

    def ready(self) -> bool:
        """Open the shard, search once so that the search code is compiled or loaded, and return True."""
        reader = self._reader("")
        dimensions = reader.snapshot.manifest.dimensions
        dense = np.zeros(dimensions, dtype=np.float32) if dimensions else None
        query = QueryVectors(np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.float32), dense)
        with compile_lock():
            reader.find([query, query], SearchOptions(k=1))  # one alone might be answered without compiled code
        return True

    def answer(self, commit: str, packed_request: bytes) -> bytes:
        """Return the packed response to a request, at this commit or a later one."""
        request: ReplicaRequest = pickle.loads(packed_request)
        return pickle.dumps(request.answer(self._reader(commit)))

    def _reader(self, commit: str) -> Reader:
        """Return a reader of the shard, refreshed unless it shows the commit."""
        with self._opening:
            self._index = self._index or Index.open(self.folder, **vars(self.on))
            if commit not in ("", self._index.commit):
                self._index.refresh()
            return self._index.reader
