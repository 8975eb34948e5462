"""The number of cores that this process may use: it is limited by affinity, by a container's quota and by Python."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path

MEMBERSHIPS = Path("/proc/self/cgroup")  # a line for each hierarchy of cgroups: number:controllers:path
GROUPS = Path("/sys/fs/cgroup")
CPU_COUNT = "PYTHON_CPU_COUNT"  # of the environment


def cores() -> int:
    """Return how many threads can run at once: the least of the machine, the affinity and the quota, at least 1."""
    known: list[float | None] = [os.cpu_count()]
    if hasattr(os, "process_cpu_count"):  # since Python 3.13; it obeys PYTHON_CPU_COUNT
        known.append(os.process_cpu_count())
    elif (given := os.environ.get(CPU_COUNT, "")).isdecimal():
        known.append(int(given))
    if hasattr(os, "sched_getaffinity"):
        known.append(len(os.sched_getaffinity(0)))
    known.append(_own_quota())
    return max(1, math.ceil(min((one for one in known if one is not None), default=1)))


def quota(memberships: Path = MEMBERSHIPS, groups: Path = GROUPS) -> float | None:
    """Return the CPU quota of this process's cgroups in cores, or None if they set no limit.

    The limit of a cgroup holds for all cgroups below it, so the least of the path counts.
    """
    limits = [
        limit
        for line in _text(memberships).splitlines()
        for folder in _folders(line, groups)
        if (limit := _limit(folder)) is not None
    ]
    return min(limits, default=None)


_own_quota = cache(quota)  # read once: reading it takes longer than a search


def _folders(line: str, groups: Path) -> list[Path]:
    """Return the folders of a process's cgroup and of those above it, or none if the line is not about CPUs."""
    _, _, rest = line.partition(":")
    controllers, _, path = rest.partition(":")
    if not path or (controllers and "cpu" not in controllers.split(",")):
        return []
    root = groups / controllers
    own = root / path.lstrip("/")
    return [root, *(folder for folder in (own, *own.parents) if root in folder.parents)]


def _limit(folder: Path) -> float | None:
    """Return a cgroup's limit in cores: of version 2 (cpu.max), or of version 1."""
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
