"""Readers in other processes see whole commits only, while a writer adds and merges."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("readers.py")


def test_four_readers_never_see_half_a_commit() -> None:
    command = [sys.executable, SCRIPT, "--commits", "20", "--docs", "100"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2,001 documents in 20 commits, 2 merges" in done.stdout
    assert done.stdout.count("rounds") == 4
