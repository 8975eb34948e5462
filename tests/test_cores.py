"""Threads follow what a process may use, not what its machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from denslice.cores import cores, quota

SEARCHED = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import threading
from denslice import Index
from denslice.cores import cores
from denslice.provenance import hardware
index = Index.create("my.idx", "bm25")
index.add([{"id": str(n), "text": f"fox {n}"} for n in range(50)])
started = []
threading.setprofile(lambda *given: started.append(threading.get_ident()))  # called in threads that begin from now on
index.search_batch(["fox 3"] * 200)
print(cores(), hardware()["cores"], len(set(started)))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_a_process_with_one_core_searches_in_one_thread(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", SEARCHED], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    assert done.stdout.split() == ["1", "1", "0"]  # no thread was started beside the main one


@pytest.mark.parametrize(("given", "expected"), [("1", 1), ("default", cores())])
def test_the_environment_can_limit_cores(given: str, expected: int) -> None:
    code = "from denslice.cores import cores; print(cores())"
    environment = os.environ | {"PYTHON_CPU_COUNT": given}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no affinity")
def test_cores_are_no_more_than_the_affinity() -> None:
    assert 1 <= cores() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("files", "membership", "expected"),
    [
        ({}, "0::/\n", None),
        ({"cpu.max": "max 100000\n"}, "0::/\n", None),
        ({"cpu.max": "150000 100000\n"}, "0::/\n", 1.5),
        ({"a/cpu.max": "max 100000", "a/b/cpu.max": "200000 100000"}, "0::/a/b\n", 2.0),
        ({"a/cpu.max": "50000 100000", "a/b/cpu.max": "200000 100000"}, "0::/a/b\n", 0.5),  # one above is tighter
        ({"cpu.max": "300000 100000"}, "0::/gone/away\n", 3.0),  # as in a container that sees its host's paths
        ({"other/cpu.max": "100000 100000"}, "0::/a\n", None),  # another process's
        ({"cpu,cpuacct/a/cpu.cfs_quota_us": "-1", "cpu,cpuacct/a/cpu.cfs_period_us": "100000"},
         "4:cpu,cpuacct:/a", None),
        ({"cpu,cpuacct/a/cpu.cfs_quota_us": "250000", "cpu,cpuacct/a/cpu.cfs_period_us": "100000"},
         "5:memory:/a\n4:cpu,cpuacct:/a\n", 2.5),
        ({"memory/a/cpu.cfs_quota_us": "100000", "memory/a/cpu.cfs_period_us": "100000"}, "5:memory:/a\n", None),
        ({"cpu.max": "100000 0"}, "0::/", None),
        ({"cpu.max": "nonsense"}, "0::/", None),
        ({"cpu.max": "100000 100000"}, "nonsense", None),
    ],
)  # fmt: skip
def test_a_quota_is_the_least_of_a_group_and_those_above_it(
    tmp_path: Path, files: dict[str, str], membership: str, expected: float | None
) -> None:
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "memberships").write_text(membership)
    assert quota(tmp_path / "memberships", tmp_path / "groups") == expected


def test_a_system_without_control_groups_has_no_quota(tmp_path: Path) -> None:
    assert quota(tmp_path / "none", tmp_path) is None
