"""Logs of requests: a line of JSON for each, and one for each search that took long."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from denslice.errors import InputError
from denslice.options import SearchOptions
from denslice.queries import Query
from denslice.serve.answering import Answer, BatchOptions
from denslice.serve.json_bytes import json_bytes

slow = logging.getLogger("denslice.slow")


@dataclass(frozen=True)
class LogOptions:
    """What is logged: requests to a file, and searches that take at least so many milliseconds to stderr."""

    access_log: Path | None = None
    slow_ms: float | None = None

    def __post_init__(self) -> None:
        if self.slow_ms is not None and not self.slow_ms >= 0:
            raise InputError(f"--slow-ms is {self.slow_ms:g}, expected a number of milliseconds from 0 on")


class AccessLog:
    """A file to which a line of JSON is appended for each request. Workers share it: a line is one write."""

    def __init__(self, path: Path) -> None:
        try:
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise InputError(f"--access-log {path}: cannot be written ({error.strerror})") from error
        self._worker = os.getpid()

    def write(self, scope: Mapping[str, Any], status: int, seconds: float, sent: int) -> None:
        """Append the line of a request. It has no text of a query, which may be private."""
        client = scope.get("client")
        line = {
            "time": _now(),
            "client": client[0] if client else None,
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "ms": round(1000 * seconds, 3),
            "bytes": sent,
            "worker": self._worker,
        }
        os.write(self._handle, json_bytes(line) + b"\n")

    def __del__(self) -> None:
        if handle := vars(self).get("_handle"):
            os.close(handle)


def log_if_slow(
    least_ms: float | None,
    asked: Sequence[str | Query],
    options: BatchOptions,
    answer: Answer,
    took_ms: Mapping[str, float],
) -> None:
    """Log a search whose time in the queue and in its batch together was `least_ms` or more."""
    if least_ms is not None and took_ms["total"] >= least_ms:
        slow.warning("%s", json_bytes(_slow_search(asked, options, answer, took_ms)).decode())


def _slow_search(
    asked: Sequence[str | Query], options: BatchOptions, answer: Answer, took_ms: Mapping[str, float]
) -> dict[str, Any]:
    """Return what is logged of a search. What was read is that of its batch, as are the stages."""
    defaults = SearchOptions().keywords()
    changed = {name: value for name, value in options.options.keywords().items() if value != defaults[name]}
    shown = {"explain": options.explain, "highlight": options.highlight}
    return {
        "time": _now(),
        "slow_ms": took_ms["total"],
        "queries": [one if isinstance(one, str) else {"text": one.text, "has": one.conditions} for one in asked],
        "options": changed | {name: True for name, is_set in shown.items() if is_set},
        "took_ms": dict(took_ms),
        "read": answer.cost.counts,
        "batch": answer.batch,
        "generation": answer.generation,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
