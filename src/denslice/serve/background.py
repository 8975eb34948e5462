"""Work that goes on beside the requests: where it fails, this is logged, counted, told by /readyz, and tried again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar

from denslice.errors import DensliceError
from denslice.serve.metrics import Metrics

log = logging.getLogger("denslice.serve")
PAUSE = 1.0  # seconds after a failure
Work = Callable[[], Awaitable[None]]
Value = TypeVar("Value")


@dataclass(frozen=True)
class Failure:
    """How often a task has failed in a row, and how it did the last time."""

    times: int
    error: Exception

    def __str__(self) -> str:
        often = "once" if self.times == 1 else f"{self.times:,} times in a row"
        return f"failed {often}, the last time with {type(self.error).__name__}"


class Background:
    """The server's own tasks. None ends before `stop`, whatever its work raises."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._failures: dict[str, Failure] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def trouble(self) -> str:
        """Which tasks fail at present, without what their errors say, as that may name files; empty if none does."""
        return "; ".join(f"{name} {failure}" for name, failure in self._failures.items())

    def until_done(self, name: str, work: Work) -> None:
        """Does the work, and again until it succeeds once."""

        async def run() -> None:
            while not await self._succeeds(name, work):
                await asyncio.sleep(PAUSE)

        self._start(name, run())

    def every(self, seconds: float, name: str, work: Work) -> None:
        """Does the work each time so many seconds have passed."""

        async def run() -> None:
            while True:
                await asyncio.sleep(seconds)
                await self._succeeds(name, work)

        self._start(name, run())

    def without_end(self, name: str, work: Work) -> None:
        """Does work that never ends by itself, and begins it again where it fails."""

        async def run() -> None:
            while True:
                await self._succeeds(name, work)
                await asyncio.sleep(PAUSE)
                self._failures.pop(name, None)  # it runs again; whether it succeeds shows only when it is needed

        self._start(name, run())

    async def stop(self) -> None:
        """Ends all tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, name: str, run: Coroutine[Any, Any, None]) -> None:
        self._metrics.background_failures.labels(name)  # so that it is shown as 0 from the start
        self._tasks.append(asyncio.create_task(run))

    async def _succeeds(self, name: str, work: Work) -> bool:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 (told by the log, the metrics and /readyz)
            self._failed(name, error)
            return False
        if self._failures.pop(name, None):
            log.info("%s works again", name)
        return True

    def _failed(self, name: str, error: Exception) -> None:
        before = self._failures.get(name)
        self._failures[name] = Failure(before.times + 1 if before else 1, error)
        self._metrics.background_failures.labels(name).inc()
        if before is None or repr(before.error) != repr(error):
            unexpected = None if isinstance(error, DensliceError) else error
            log.error("%s failed and will be tried again: %s", name, error, exc_info=unexpected)


async def in_thread(pool: Executor, work: Callable[[], Value]) -> Value:
    """What the work returns or raises, in a thread of the pool.

    A CancelledError that the work raises comes as another error: here it would end the task that waits, silently.
    """
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, work)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("the work was cancelled from within") from error
