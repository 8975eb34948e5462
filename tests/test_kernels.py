"""What numba keeps on disk: used again, and never after a file that compiled code was made from has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import denslice

HITS = """
import numpy as np
from denslice.kernels import sort_by_value
sort_by_value(np.array([0, 2]), np.zeros(2, np.uint16), np.ones(2, np.uint8))
print(sort_by_value.stats.cache_hits.total())
"""


def test_compiled_code_is_kept_until_any_file_changes_that_it_may_be_made_from(tmp_path: Path) -> None:
    package = Path(denslice.__file__).parent
    shutil.copytree(package, tmp_path / "denslice", ignore=shutil.ignore_patterns("__pycache__", "mini"))
    assert [_hits(tmp_path), _hits(tmp_path)] == ["0", "1"]
    os.utime(tmp_path / "denslice" / "search" / "parts.py")
    assert _hits(tmp_path) == "0"
    os.utime(tmp_path / "denslice" / "index.py")
    assert _hits(tmp_path) == "1"


def _hits(where: Path) -> str:
    paths = os.pathsep.join([str(where), *sys.path])
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", HITS], capture_output=True, text=True, env=kept | {"PYTHONPATH": paths}, cwd=where
    )
    assert done.stderr == ""
    return done.stdout.strip()
