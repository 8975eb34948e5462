"""How long each stage of a search takes, for whoever asks: `timed` opens a record, and `stage` deep inside fills it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_record: ContextVar[dict[str, float] | None] = ContextVar("stages", default=None)


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Seconds by stage, filled while the block runs, by this thread alone."""
    record: dict[str, float] = {}
    before = _record.set(record)
    try:
        yield record
    finally:
        _record.reset(before)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Adds what the block takes to the stage of this name, if somebody keeps a record."""
    record = _record.get()
    if record is None:
        yield
        return
    began = time.perf_counter()
    try:
        yield
    finally:
        record[name] = record.get(name, 0.0) + time.perf_counter() - began
