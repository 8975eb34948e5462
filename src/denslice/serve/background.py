"""Background tasks of the server. A failure is logged, counted and shown by /readyz, and the task is tried again."""

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
RETRY_SECONDS = 1.0  # between a failure and the next try
TaskWork = Callable[[], Awaitable[None]]
Returned = TypeVar("Returned")


@dataclass(frozen=True)
class Failure:
    """How often a task has failed in a row, and its last error."""

    times: int
    error: Exception

    def __str__(self) -> str:
        often = "once" if self.times == 1 else f"{self.times:,} times in a row"
        return f"failed {often}, the last time with {type(self.error).__name__}"


class Background:
    """The background tasks of the server. An exception does not end a task; `stop` ends all of them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._failures: dict[str, Failure] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def failing(self) -> str:
        """The tasks that fail at present, or "". Error messages are left out, because they may hold file names."""
        return "; ".join(f"{name} {failure}" for name, failure in self._failures.items())

    def until_done(self, name: str, work: TaskWork) -> None:
        """Start a task that tries the work until it succeeds once."""

        async def run() -> None:
            while not await self._succeeds(name, work):
                await asyncio.sleep(RETRY_SECONDS)

        self._start(name, run())

    def every(self, seconds: float, name: str, work: TaskWork) -> None:
        """Start a task that waits and does the work in turn."""

        async def run() -> None:
            while True:
                await asyncio.sleep(seconds)
                await self._succeeds(name, work)

        self._start(name, run())

    def forever(self, name: str, work: TaskWork) -> None:
        """Start a task whose work does not return, and start the work again if it fails."""

        async def run() -> None:
            while True:
                await self._succeeds(name, work)
                await asyncio.sleep(RETRY_SECONDS)
                self._failures.pop(name, None)  # the work runs again, so the task counts as healthy

        self._start(name, run())

    async def stop(self) -> None:
        """Cancel all tasks and wait for them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, name: str, run: Coroutine[Any, Any, None]) -> None:
        self._metrics.background_failures.labels(name)  # the counter is shown as 0 before any failure
        self._tasks.append(asyncio.create_task(run))

    async def _succeeds(self, name: str, work: TaskWork) -> bool:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 (it goes to the log, the metrics and /readyz)
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


async def in_thread(pool: Executor, work: Callable[[], Returned]) -> Returned:
    """Run the work in a thread of the pool and return its result.

    A CancelledError that the work raises becomes a RuntimeError, because it would silently end the waiting task.
    """
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, work)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("the work raised CancelledError") from error
