"""How many cores this process may use: by its affinity, its container's quota, and what Python was told."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path

MEMBERSHIPS = Path("/proc/self/cgroup")  # a line for each hierarchy of control groups: number:controllers:path
GROUPS = Path("/sys/fs/cgroup")


def cores() -> int:
    """How many threads can run at once: the least that the machine, the affinity or a quota allows, 1 or more."""
    known: list[float | None] = [os.cpu_count()]
    if hasattr(os, "process_cpu_count"):  # Python 3.13; PYTHON_CPU_COUNT counts there
        known.append(os.process_cpu_count())
    if hasattr(os, "sched_getaffinity"):
        known.append(len(os.sched_getaffinity(0)))
    known.append(_own_quota())
    return max(1, math.ceil(min((one for one in known if one is not None), default=1)))


@cache
def _own_quota() -> float | None:
    """This process's quota, read once: a search takes less time than the reading."""
    return quota()


def quota(memberships: Path = MEMBERSHIPS, groups: Path = GROUPS) -> float | None:
    """Cores' worth of time that control groups leave this process, None where they set no limit.

    A group's limit holds for all groups below it, so the least of the group's own and those above it counts.
    """
    limits = [
        limit
        for line in _text(memberships).splitlines()
        for folder in _folders(line, groups)
        if (limit := _limit(folder)) is not None
    ]
    return min(limits, default=None)


def _folders(line: str, groups: Path) -> list[Path]:
    """The folders of a process's group and of those above it, from its line of memberships; none for other kinds."""
    _, _, rest = line.partition(":")
    controllers, _, path = rest.partition(":")
    if not path or (controllers and "cpu" not in controllers.split(",")):
        return []
    root = groups / controllers
    own = root / path.lstrip("/")
    return [root, *(folder for folder in (own, *own.parents) if root in folder.parents)]


def _limit(folder: Path) -> float | None:
    """A group's limit in cores: of version 2 (cpu.max), or of version 1."""
    if numbers := _text(folder / "cpu.max").split():
        allowed, period = numbers[0], numbers[-1]
    else:
        allowed, period = _text(folder / "cpu.cfs_quota_us").strip(), _text(folder / "cpu.cfs_period_us").strip()
    if not (allowed.isdigit() and period.isdigit() and int(period)):  # "max", -1, or no such file
        return None
    return int(allowed) / int(period)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
