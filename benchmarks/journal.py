"""The result files in benchmarks/results: every script appends its line here, and every page reads its figures here.

A document cites a line by its file and commit, which stay the same when other lines are added or removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from denslice.provenance import append_line, provenance

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
Line = dict[str, Any]  # of a result file
MEASURED = ("src", "benchmarks", ":!benchmarks/results")  # a run's own line does not make the next commit dirty


def append(name: str, packages: Sequence[str], configuration: Mapping[str, Any], figures: Any) -> str:
    """Append a run to benchmarks/results/NAME.jsonl and return the sentence that cites it."""
    settings = {name: _without_folders(value) for name, value in configuration.items()}
    line = provenance(packages, MEASURED) | {"configuration": settings, "figures": figures}
    append_line(RESULTS / f"{name}.jsonl", line)
    return cited(name, [line])


def lines(name: str) -> list[Line]:
    """Return the lines of benchmarks/results/NAME.jsonl, oldest first."""
    return read_lines(RESULTS / f"{name}.jsonl")


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a result file, oldest first."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def cited(name: str, some: Iterable[Line]) -> str:
    """Return the sentence that says which file, commits and processors some figures come from."""
    some = list(some)
    commits = ", ".join(dict.fromkeys(line["commit"] for line in some))
    hardware = [line["hardware"] for line in some if isinstance(line.get("hardware"), dict)]
    processors = list(dict.fromkeys(one["cpu"] for one in hardware if "cpu" in one))
    return f"From `benchmarks/results/{name}.jsonl`, commit {', '.join([commits, *processors])}."


def _without_folders(value: Any) -> Any:
    """Return a setting without the folders of this machine: a path becomes its last part."""
    if isinstance(value, list | tuple):
        return [_without_folders(one) for one in value]
    is_path = isinstance(value, Path) or (isinstance(value, str) and "/" in value and Path(value).exists())
    return Path(value).name if is_path else value
