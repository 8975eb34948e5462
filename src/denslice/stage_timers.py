"""Timers of the stages of a search: `timed` opens a record, and the code within adds to it with `stage`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_record: ContextVar[dict[str, float] | None] = ContextVar("stages", default=None)


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Yield a record of seconds by stage, which this thread fills while the block runs."""
    record: dict[str, float] = {}
    before = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(before)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Add the time of the block to the stage of this name, if a record is open."""
    record = _record.get()
    if record is None:
        yield
        return
    began = time.perf_counter()
    try:
        yield
    finally:
        record[name] = record.get(name, 0.0) + time.perf_counter() - began
