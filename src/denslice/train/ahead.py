"""Batches made in a thread of their own while the model is busy."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Any, TypeVar

Item = TypeVar("Item")
AHEAD = 8  # items made before they are wanted


def ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """The items, made while the caller is busy with the ones before; an error comes where its item was wanted."""
    made: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(AHEAD)
    stop = threading.Event()
    maker = threading.Thread(target=_make, args=(items, made, stop), daemon=True)
    maker.start()
    try:
        while True:
            item, error = made.get()
            if error is not None:
                raise error
            yield item
    finally:
        stop.set()
        maker.join()  # a thread that is in the middle of torch when the process ends brings it down


def _make(items: Iterator[Item], made: queue.Queue[Any], stop: threading.Event) -> None:
    try:
        for item in items:
            if not _put((item, None), made, stop):
                return
    except Exception as error:  # noqa: BLE001 - it is raised again in the caller's thread
        _put((None, error), made, stop)


def _put(item: Any, made: queue.Queue[Any], stop: threading.Event) -> bool:
    """Whether the item could be handed over before the caller stopped."""
    while not stop.is_set():
        with suppress(queue.Full):
            made.put(item, timeout=0.2)
            return True
    return False
