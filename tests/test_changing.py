"""The patches of docs/changing.md apply to the package as it is, and do what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "changing.md").read_text(encoding="utf-8")
CHANGE = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```diff\n(.*?)^```\n+```python\n(.*?)^```", re.M | re.S)
CHANGES = [pytest.param(*found.groups()[1:], id=found[1]) for found in CHANGE.finditer(PAGE)]


def test_four_of_the_five_changes_are_patches() -> None:
    assert len(CHANGES) == 4
    rows = re.findall(r"^\| [^|]+ \| (`[^|]+) \|$", PAGE, re.M)
    assert [len(re.findall(r"`[^`]+`", files)) for files in rows] == [2, 1, 1, 1, 2]


@pytest.mark.parametrize(("patch", "program"), CHANGES)
def test_a_patch_applies_and_its_program_runs(patch: str, program: str, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    skipped = shutil.ignore_patterns("__pycache__", "*.onnx")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=skipped)
    (tmp_path / "work").mkdir()
    applied = subprocess.run(
        ["git", "apply", "--verbose", "-"], input=patch, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert applied.returncode == 0, applied.stderr
    assert len(re.findall(r"^\+\+\+ ", patch, re.M)) <= 2
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "work",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(("patch", "program"), CHANGES)
def test_without_its_patch_a_program_fails(patch: str, program: str, tmp_path: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, check=False)
    assert ran.returncode != 0
