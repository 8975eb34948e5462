"""Lines of results: times, and their provenance (commit, date, index format, hardware and versions)."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from denslice.cores import cores
from denslice.store.manifest import INDEX_FORMAT

ROOT = Path(__file__).parents[2]  # of a checkout


def provenance(packages: Sequence[str], code: Sequence[str] = ("src",)) -> dict[str, Any]:
    """Return commit, date, index format, hardware and versions; changes under `code` make a commit dirty."""
    return {
        "commit": commit(code),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "index_format": INDEX_FORMAT,
        "hardware": hardware(),
        "versions": {"python": platform.python_version()} | {package: _version(package) for package in packages},
    }


def commit(code: Sequence[str] = ("src",)) -> str:
    """Return the commit that is checked out, with "+dirty" if files under `code` differ from it.

    On a machine without the repository it is the value of DENSLICE_COMMIT, or "none".
    """
    if "DENSLICE_COMMIT" in os.environ or not (ROOT / ".git").exists():
        return os.environ.get("DENSLICE_COMMIT", "none")
    head = _git("rev-parse", "--short=12", "--verify", "--quiet", "HEAD") or "none"
    return f"{head}+dirty" if _git("status", "--porcelain", "--", *code) else head


def hardware() -> dict[str, Any]:
    """Return the processor's name and how many cores this process may use."""
    return {"cpu": _cpu_name(), "cores": cores()}


def milliseconds(function: Callable[..., object], *arguments: object) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    function(*arguments)
    return 1000 * (time.perf_counter() - start)


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Append a line to a JSONL file of results, which is created if it does not exist."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _git(*arguments: str) -> str:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:  # no git on this machine
        return ""
