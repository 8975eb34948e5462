"""Timers of the stages of a search: `timed` opens a record, and the code within adds to it with `stage`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class StageTimes(dict[str, float]):
    """Seconds by stage, and when each stage first began and last ended, by the clock of `time.perf_counter`."""

    def __init__(self) -> None:
        super().__init__()
        self.began: dict[str, float] = {}
        self.ended: dict[str, float] = {}

    def add(self, name: str, began: float, ended: float) -> None:
        """Add the time of a stage."""
        self[name] = self.get(name, 0.0) + ended - began
        self.began.setdefault(name, began)
        self.ended[name] = ended


_record: ContextVar[StageTimes | None] = ContextVar("stages", default=None)


@contextmanager
def timed() -> Iterator[StageTimes]:
    """Yield a record of seconds by stage, which this thread fills while the block runs."""
    record = StageTimes()
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
        record.add(name, began, time.perf_counter())
