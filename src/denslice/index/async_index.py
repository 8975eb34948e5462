"""AsyncIndex: an Index for programs with an event loop. Each method runs in a thread, and the loop goes on meanwhile.

asyncio is imported where it is used: `import denslice` must not wait for it in programs without an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from denslice.cores import cores
from denslice.errors import InputError
from denslice.index.index import Index
from denslice.index.index_info import IndexInfo
from denslice.options import IndexOptions, MoreIndexKeywords, SearchKeywords, SearchOptions, takes
from denslice.queries import Query
from denslice.rankings import Explanation, Ranking
from denslice.records import Doc, GivenDocs, Progress
from denslice.store import lock
from denslice.store.manifest import FULL

if TYPE_CHECKING:
    from asyncio import Future

LEAST_THREADS = 2  # so that a write does not keep searches waiting on one core
Done = TypeVar("Done")


class Abandoned(Exception):  # noqa: N818 (no error: nobody waits for the write)
    """The caller of a write was cancelled before the commit began."""


class AsyncIndex:
    """An index whose methods are awaited. `async with AsyncIndex.open(path) as index` opens and closes it.

    Methods take the arguments of Index and raise its errors. They run in as many threads as there are cores, two at
    least, and wait for a free one. Writes take turns. An AsyncIndex belongs to the event loop in which it was entered.

    If a search is cancelled, its caller goes on at once and the result is dropped. If a write is cancelled, its caller
    goes on when the write has ended: an `add` before its commit changes nothing, and a commit is made whole.
    """

    def __init__(self, opens: Callable[[], Index]) -> None:
        """Keep what opens the index, which a thread calls when `async with` begins."""
        from asyncio import Lock

        self._opens = opens
        self._index: Index | None = None
        self._threads = ThreadPoolExecutor(max(LEAST_THREADS, cores()), "denslice-async")
        self._writes = Lock()

    @classmethod
    def open(
        cls, path: str | Path, device: str = "cpu", *, leave_out: Sequence[str] = (), queries: str = FULL
    ) -> AsyncIndex:
        """Return the index in a folder, which `async with` opens at its last commit: see `Index.open`."""
        return cls(partial(Index.open, path, device, leave_out=leave_out, queries=queries))

    @classmethod
    @takes(IndexOptions)
    def create(cls, path: str | Path, encoder: str = "mini", **options: Unpack[MoreIndexKeywords]) -> AsyncIndex:
        """Return a new index, which `async with` creates in a folder that does not exist yet: see `Index.create`."""
        return cls(partial(Index.create, path, encoder, **options))

    async def __aenter__(self) -> Self:
        self._index = await self._started(self._opens)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Wait for the calls that are running, then release all files. A second call has no effect."""
        from asyncio import to_thread

        index, self._index = self._index, None
        if index is not None:
            await to_thread(self._release, index)

    def _release(self, index: Index) -> None:
        self._threads.shutdown()
        index.close()

    @property
    def index(self) -> Index:
        """The Index itself, for its other methods: call them in a thread, as with `asyncio.to_thread`."""
        if self._index is None:
            raise InputError("this index is not open; use it within `async with AsyncIndex.open(path) as index`")
        return self._index

    @property
    def generation(self) -> int:
        """The number of the commit that is shown."""
        return self.index.generation

    # --- reading

    @takes(SearchOptions)
    async def search(self, text: str | Query, k: int = 10, **options: Unpack[SearchKeywords]) -> Ranking:
        """Return the k best documents for a text or a Query, with their texts: see `Index.search`."""
        return await self._read(lambda index: _fetched([index.search(text, k, **options)])[0])

    @takes(SearchOptions)
    async def search_batch(
        self, texts: Sequence[str | Query], k: int = 10, **options: Unpack[SearchKeywords]
    ) -> list[Ranking]:
        """Return the k best documents for each text, with their texts: see `Index.search_batch`."""
        return await self._read(lambda index: _fetched(index.search_batch(texts, k, **options)))

    @takes(SearchOptions)
    async def similar(self, id: str | int, k: int = 10, **options: Unpack[SearchKeywords]) -> Ranking:
        """Return the k documents that are most like the one with this id: see `Index.similar`."""
        return await self._read(lambda index: _fetched([index.similar(id, k, **options)])[0])

    async def explain(
        self,
        asked: str | Query | Ranking,
        id: str | int,
        *,
        passage: int | None = None,
        lam: float | None = None,
        mode: str | None = None,
    ) -> Explanation:
        """Explain the score of a document or of one of its passages: see `Index.explain`."""
        return await self._read(lambda index: index.explain(asked, id, passage=passage, lam=lam, mode=mode))

    async def get(self, id: str | int) -> Doc | None:
        """Return the document with this id, or None."""
        return await self._read(lambda index: index.get(id))

    async def info(self) -> IndexInfo:
        """Return the encoder, slicing, counts and sizes of the index."""
        return await self._read(Index.info)

    async def refresh(self) -> bool:
        """Move on to the last commit, of any process, and return whether it was not shown yet."""
        return await self._read(Index.refresh)

    async def _read(self, work: Callable[[Index], Done]) -> Done:
        return await self._started(partial(work, self.index))

    # --- writing

    async def add(
        self,
        docs: GivenDocs,
        *,
        level: str = FULL,
        wait: float = lock.WAIT_SECONDS,
        progress: Progress | None = None,
    ) -> int:
        """Add documents in one commit and return how many were added: see `Index.add`.

        A thread reads the documents and calls `progress`. If the call is cancelled, it stops after the batch of
        documents that is being encoded, and nothing is added unless the commit has begun.
        """
        stop = Event()

        def reported(count: int) -> None:
            _check(stop)
            if progress:
                progress(count)

        return await self._write(lambda index: index.add(docs, level=level, wait=wait, progress=reported), stop)

    async def update(self, id: str, meta: Mapping[str, Any], *, wait: float = lock.WAIT_SECONDS) -> bool:
        """Replace the metadata of a document in one commit, and return whether it exists."""
        return await self._write(lambda index: index.update(id, meta, wait=wait), Event())

    async def delete(self, ids: Iterable[str], *, wait: float = lock.WAIT_SECONDS) -> int:
        """Delete the documents with these ids in one commit, and return how many were found."""
        return await self._write(lambda index: index.delete(ids, wait=wait), Event())

    async def _write(self, work: Callable[[Index], Done], stop: Event) -> Done:
        """Run a write when those before it have ended. If its caller is cancelled, set `stop` and wait for its end."""
        from asyncio import CancelledError, shield, wait

        def begun(index: Index) -> Done:
            _check(stop)
            return work(index)

        async with self._writes:
            running = self._started(partial(begun, self.index))
            try:
                return await shield(running)
            except CancelledError:
                stop.set()
                await wait([running])
                raise

    def _started(self, work: Callable[[], Done]) -> Future[Done]:
        """Start the work in a thread, with the context variables of the caller."""
        from asyncio import get_running_loop

        return get_running_loop().run_in_executor(self._threads, copy_context().run, work)


def _fetched(rankings: list[Ranking]) -> list[Ranking]:
    """Return rankings whose texts are in memory: the first look at a hit would fetch them in the event loop."""
    for ranking in rankings:
        _ = ranking[:1]
    return rankings


def _check(stop: Event) -> None:
    if stop.is_set():
        raise Abandoned
