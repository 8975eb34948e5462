"""Concurrent queries gathered into small batches: what waits while the workers are busy is searched together next.

An idle server answers a lone query at once; the busier it is, the larger the batches, up to a limit.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from denslice.serve.answering import Answer, How
from denslice.serve.background import Background, in_thread
from denslice.serve.http_errors import Refusal, busy
from denslice.serve.limits import Limits
from denslice.serve.metrics import Metrics

WORKERS = 2  # batches under way: while one is in a stage that uses one core, the other has the rest
Work = Callable[[Sequence[str], How], list[Answer]]


@dataclass
class Waiting:
    """A query, and the place its answer will be put."""

    text: str
    how: How
    answer: asyncio.Future[Answer]
    since: float = field(default_factory=time.perf_counter)
    waited: float = 0.0


class Batcher:
    """A queue of queries, and workers that take batches from its front."""

    def __init__(self, work: Work, limits: Limits, metrics: Metrics) -> None:
        self._work, self._limits, self._metrics = work, limits, metrics
        self._queue: deque[Waiting] = deque()
        self._arrived = asyncio.Event()
        self._pool = ThreadPoolExecutor(WORKERS, "denslice-search")

    def start(self, background: Background) -> None:
        """Begins to take batches."""
        for number in range(1, WORKERS + 1):
            background.without_end(f"search worker {number}", self._take_turns)

    async def stop(self) -> None:
        """Ends after the workers have ended, when the batches under way are done; whoever still waits is told."""
        while self._queue:
            self._queue.popleft().answer.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)

    async def search(self, texts: Sequence[str], how: How) -> tuple[list[Answer], float]:
        """An answer for each text, and how long the first one waited; a Refusal if that would take too long."""
        if len(self._queue) + len(texts) > self._limits.max_waiting:
            raise busy("too many queries are waiting already")
        loop = asyncio.get_running_loop()
        asked = [Waiting(text, how, loop.create_future()) for text in texts]
        self._queue.extend(asked)
        self._metrics.waiting.set(len(self._queue))
        self._arrived.set()
        try:
            async with asyncio.timeout(self._limits.timeout):
                found = await asyncio.gather(*(one.answer for one in asked))
        except TimeoutError:
            raise Refusal(503, "timeout", f"not answered within {self._limits.timeout:g} s") from None
        finally:
            for one in asked:
                one.answer.cancel()  # what still waits need not be searched
        return found, asked[0].waited

    async def _take_turns(self) -> None:
        while True:
            while not self._queue:
                self._arrived.clear()
                await self._arrived.wait()
            if batch := self._next():
                await self._run(batch)

    def _next(self) -> list[Waiting]:
        """From the front of the queue, queries to be searched alike; those given up meanwhile are dropped."""
        batch: list[Waiting] = []
        others: list[Waiting] = []
        while self._queue and len(batch) < self._limits.max_batch:
            one = self._queue.popleft()
            if not one.answer.done():
                (batch if not batch or one.how == batch[0].how else others).append(one)
        self._queue.extendleft(reversed(others))
        self._metrics.waiting.set(len(self._queue))
        return batch

    async def _run(self, batch: list[Waiting]) -> None:
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

    async def _answer(self, batch: list[Waiting]) -> None:
        """Puts an answer or an error in each place; where a batch fails, its queries are tried one by one."""
        texts, how = [one.text for one in batch], batch[0].how
        try:
            found = await in_thread(self._pool, lambda: self._work(texts, how))
            if len(found) != len(batch):
                raise RuntimeError(f"{len(found)} answers to {len(batch)} queries")
        except Exception as error:  # noqa: BLE001 (whoever asked gets it)
            if len(batch) == 1:
                return _fail(batch[0], error)
            for one in batch:
                await self._answer([one])
            return None
        self._metrics.batch(len(batch), found[0].seconds)
        for one, answer in zip(batch, found, strict=True):
            if not one.answer.done():
                one.answer.set_result(answer)
        return None


def _fail(one: Waiting, error: Exception) -> None:
    if not one.answer.done():
        one.answer.set_exception(error)
