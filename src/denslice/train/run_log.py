"""The log of a run, one JSON object per line. A run that resumes removes the entries it will write again."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

Watch = Callable[[dict[str, Any]], None]


class RunLog:
    """Appends entries to a file, if it has a path, and passes each to `watch`."""

    def __init__(self, path: Path | None, watch: Watch | None = None) -> None:
        self._path = path
        self._watch = watch

    def write(self, **entry: Any) -> None:
        """Write one entry."""
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        if self._watch is not None:
            self._watch(entry)

    def cut(self, step: int) -> None:
        """Remove the entries of later steps, and an incomplete line that a killed run left."""
        if self._path is None or not self._path.exists():
            return
        entries = []
        for line in self._path.read_text(encoding="utf-8").splitlines():
            with suppress(json.JSONDecodeError):
                entries.append(json.loads(line))
        kept = [json.dumps(entry, ensure_ascii=False) for entry in entries if entry.get("step", 0) <= step]
        self._path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
