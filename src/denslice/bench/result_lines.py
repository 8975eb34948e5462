"""Result files of benchmarks: every run appends one JSON line, and no line is ever changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Append a line to a result file, which is created if it does not exist."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a result file, oldest first."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
