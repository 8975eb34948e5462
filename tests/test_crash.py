"""A writer that is killed, interrupted or out of disk at any point leaves the index at its last commit."""

import subprocess
import sys
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from denslice import DensliceError, Index
from kill_writer import FAULTS, make, with_fault

SCRIPT = Path(__file__).with_name("kill_writer.py")


def run(*options: str) -> str:
    """What the script printed; its traceback is the message of the failure."""
    done = subprocess.run([sys.executable, SCRIPT, *options], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_writer_killed_at_random_moments_leaves_the_last_commit() -> None:
    assert "8 kills at random moments" in run("--kills", "8", "--steps")


def test_a_kill_before_any_step_of_an_add_or_a_merge_leaves_the_last_commit_or_the_new_one() -> None:
    told = run("--kills", "0", "--every", "9", "--steps", "add:kill", "merge:kill")
    assert "add kill after the commit" in told
    assert "merge kill after the commit" in told


def test_an_interrupt_or_a_failing_disk_at_any_step_leaves_the_last_commit_or_the_new_one() -> None:
    told = run("--kills", "0", "--every", "7", "--steps", "delete:interrupt", "delete:fail", "update:fail", "add:fail")
    assert "delete interrupt after the commit" in told
    assert all(f"{does} fail after the commit" in told for does in ("delete", "update", "add"))


@pytest.mark.parametrize("fault", FAULTS)
def test_making_an_index_that_ended_at_any_step_can_be_done_again(tmp_path: Path, fault: str) -> None:
    for step in count():
        path = tmp_path / f"at step {step}" / "my.idx"
        if not with_fault(partial(make, path), step, FAULTS[fault]):
            break
        try:
            index = Index.open(path)
        except DensliceError:
            make(path)
            index = Index.open(path)
        index.add([{"id": "a", "text": "is there"}])
        assert index.search("there")[0].id == "a"
    assert step > 7
