"""Prefetching: a thread prepares the next batches while the model computes the current one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any, TypeVar

Batch = TypeVar("Batch")
QUEUE_SIZE = 8  # batches that are prepared ahead of time


def prefetch(batches: Iterator[Batch]) -> Generator[Batch, None, None]:
    """Yield the batches, prepared by a thread. An error of the thread is raised in place of the batch that failed."""
    made: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(QUEUE_SIZE)
    stop = threading.Event()
    maker = threading.Thread(target=_make, args=(batches, made, stop), daemon=True)
    maker.start()
    try:
        while True:
            batch, error = made.get()
            if error is not None:
                raise error
            yield batch
    finally:
        stop.set()
        maker.join()  # the process crashes if it ends while a thread is inside torch


def _make(batches: Iterator[Batch], made: queue.Queue[Any], stop: threading.Event) -> None:
    try:
        for batch in batches:
            if not _put((batch, None), made, stop):
                return
    except Exception as error:  # noqa: BLE001 - it is raised again in the caller's thread
        _put((None, error), made, stop)


def _put(item: Any, made: queue.Queue[Any], stop: threading.Event) -> bool:
    """Put an item into the queue and return True, or return False if the caller stopped before there was room."""
    while not stop.is_set():
        with suppress(queue.Full):
            made.put(item, timeout=0.2)
            return True
    return False
