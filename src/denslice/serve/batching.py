"""Batching of concurrent queries: queries that arrive while the workers are busy are searched together next.

An idle server searches a query at once. The busier it is, the larger the batches are, up to a limit.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from denslice.queries import Query
from denslice.serve.answering import Answer, BatchOptions
from denslice.serve.background import Background, in_thread
from denslice.serve.http_errors import busy, timed_out
from denslice.serve.limits import Limits
from denslice.serve.metrics import Metrics

WORKERS = 2  # concurrent batches: while one is in a stage that uses one core, the other uses the rest
SearchBatch = Callable[[Sequence[str | Query], BatchOptions], list[Answer]]


@dataclass
class QueuedQuery:
    """A query in the queue, and the future of its answer."""

    text: str | Query
    options: BatchOptions
    answer: asyncio.Future[Answer]
    since: float = field(default_factory=time.perf_counter)
    waited: float = 0.0


class Batcher:
    """A queue of queries, and workers that take batches from it."""

    def __init__(self, work: SearchBatch, limits: Limits, metrics: Metrics) -> None:
        self._work, self._limits, self._metrics = work, limits, metrics
        self._queue: deque[QueuedQuery] = deque()
        self._arrived = asyncio.Event()
        self._pool = ThreadPoolExecutor(WORKERS, "denslice-search")

    def start(self, background: Background) -> None:
        """Start the workers."""
        for number in range(1, WORKERS + 1):
            background.forever(f"search worker {number}", self._search_batches)

    async def stop(self) -> None:
        """Cancel the queries in the queue and wait for running batches. The workers must have been stopped before."""
        while self._queue:
            self._queue.popleft().answer.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)

    async def search(self, texts: Sequence[str | Query], options: BatchOptions) -> tuple[list[Answer], float]:
        """Return an answer for each text, and the seconds that the first one waited in the queue.

        Raise HttpError if the queue is full or the timeout has passed.
        """
        if len(self._queue) + len(texts) > self._limits.max_waiting:
            raise busy(f"the queue is full ({self._limits.max_waiting:,} queries); try again")
        loop = asyncio.get_running_loop()
        asked = [QueuedQuery(text, options, loop.create_future()) for text in texts]
        self._queue.extend(asked)
        self._metrics.waiting.set(len(self._queue))
        self._arrived.set()
        try:
            async with asyncio.timeout(self._limits.timeout):
                waiting = [one.answer for one in asked]
                found = [await waiting[0]] if len(waiting) == 1 else await asyncio.gather(*waiting)
        except TimeoutError:
            raise timed_out(self._limits.timeout) from None
        finally:
            for one in asked:
                one.answer.cancel()  # the workers skip queries that are cancelled
        return found, asked[0].waited

    async def _search_batches(self) -> None:
        while True:
            while not self._queue:
                self._arrived.clear()
                await self._arrived.wait()
            if batch := self._next():
                await self._run(batch)

    def _next(self) -> list[QueuedQuery]:
        """Return queries with equal options from the front of the queue; cancelled ones are dropped."""
        batch: list[QueuedQuery] = []
        others: list[QueuedQuery] = []
        while self._queue and len(batch) < self._limits.max_batch:
            one = self._queue.popleft()
            if not one.answer.done():
                (
                    batch if not batch or one.options is batch[0].options or one.options == batch[0].options else others
                ).append(one)
        self._queue.extendleft(reversed(others))
        self._metrics.waiting.set(len(self._queue))
        return batch

    async def _run(self, batch: list[QueuedQuery]) -> None:
        now = time.perf_counter()
        for one in batch:
            one.waited = now - one.since
            self._metrics.stage("queue", one.waited)
        self._metrics.running.inc(len(batch))
        try:
            await self._answer(batch)
        except Exception as error:
            for one in batch:
                _fail(one, error)
            raise
        finally:
            self._metrics.running.dec(len(batch))

    async def _answer(self, batch: list[QueuedQuery]) -> None:
        """Set the answer or the error of each query. If a batch fails, search its queries one by one."""
        texts, options = [one.text for one in batch], batch[0].options
        try:
            found = await in_thread(self._pool, lambda: self._work(texts, options))
            if len(found) != len(batch):
                raise RuntimeError(f"expected {len(batch)} answers, found {len(found)}")
        except Exception as error:  # noqa: BLE001 (it is raised where the query was submitted)
            if len(batch) == 1:
                return _fail(batch[0], error)
            for one in batch:
                await self._answer([one])
            return None
        self._metrics.batch(len(batch), found[0].cost.seconds)
        for one, answer in zip(batch, found, strict=True):
            if not one.answer.done():
                one.answer.set_result(answer)
        return None


def _fail(one: QueuedQuery, error: Exception) -> None:
    if not one.answer.done():
        one.answer.set_exception(error)
