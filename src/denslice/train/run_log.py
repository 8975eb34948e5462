"""The log of a run and results.jsonl, both with one JSON object per line."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from denslice.provenance import append_line, commit
from denslice.train.config import TrainConfig

RESULTS = "results.jsonl"
TRAIN_PACKAGES = ("torch", "transformers", "accelerate")
Watch = Callable[[dict[str, Any]], None]


class RunLog:
    """Appends entries to a file, if it has a path, and passes each to `watch`.

    A run that resumes removes the entries it will write again.
    """

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


def append_result(
    out: Path, config: TrainConfig, split: str, queries: int, docs: int, seconds: float, found: Mapping[str, Any]
) -> None:
    """Append a finished model's measures to results.jsonl, with its commit, config, versions and hardware."""
    made = {
        "commit": commit(),
        "model": Path(config.output.folder).name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "cpu",
        "versions": {"python": platform.python_version()} | {package: version(package) for package in TRAIN_PACKAGES},
    }
    measured = {"split": split, "queries": queries, "docs": docs, "seconds": seconds, "config": asdict(config)}
    append_line(out / RESULTS, {**made, **measured, **found})
