"""One JSON line for each benchmark run: what was measured, of which commit, on what, with what.

Lines are appended to benchmarks/results/NAME.jsonl and never rewritten; a figure in the docs names its line.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MEASURED = ("src", "benchmarks", ":!benchmarks/results")  # a run's own line does not make the next one dirty


def append(name: str, packages: Sequence[str], configuration: Mapping[str, Any], figures: Any) -> str:
    """Appends the line; where it stands, as `benchmarks/results/NAME.jsonl:LINE`."""
    line = {
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "hardware": hardware(),
        "versions": {"python": platform.python_version()} | {package: version(package) for package in packages},
        "configuration": {name: _nameless(value) for name, value in configuration.items()},
        "figures": figures,
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
    number = len(path.read_text(encoding="utf-8").splitlines())
    return f"{path.relative_to(ROOT).as_posix()}:{number}"


def _nameless(value: Any) -> Any:
    """A setting without the folders of this machine: of a path, only its last part."""
    if isinstance(value, list | tuple):
        return [_nameless(one) for one in value]
    is_path = isinstance(value, Path) or (isinstance(value, str) and "/" in value and Path(value).exists())
    return Path(value).name if is_path else value


def commit() -> str:
    """The commit that is checked out, with "+dirty" where measured files differ from it, or "none" before the first."""
    head = _git("rev-parse", "--short=12", "--verify", "--quiet", "HEAD") or "none"
    return f"{head}+dirty" if _git("status", "--porcelain", "--", *MEASURED) else head


def hardware() -> dict[str, Any]:
    """The processor's name and how many cores this process may use."""
    return {"cpu": _cpu_name(), "cores": len(os.sched_getaffinity(0))}


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()
