"""Compiled code is kept on disk: used again, never after a file has changed that it was made from, and nowhere else."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import denslice

LOADED = """
import numpy as np
from numba import config, njit
from denslice.array_loops import sort_by_value
from denslice.compiling import cache_folder
sort_by_value(np.array([0, 2]), np.zeros(2, np.uint16), np.ones(2, np.uint8))
print(sort_by_value.stats.cache_hits.total(), config.CACHE_DIR == {given!r}, cache_folder())
"""
COMPILED = """
import logging, sys
import numpy as np
from denslice.__main__ import main
sys.argv = ["denslice", "info", "my.idx"]
try:
    main()
except SystemExit:
    pass
from denslice.array_loops import sort_by_value
sort_by_value(np.array([0, 2]), np.zeros(2, np.uint16), np.ones(2, np.uint8))
sort_by_value(np.array([0, 2]), np.zeros(2, np.uint16), np.ones(2, np.uint8))
"""
TOLD = "compiling search kernels (once per installation) …"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, whose files can change."""
    source = Path(denslice.__file__).parent
    shutil.copytree(source, tmp_path / "denslice", ignore=shutil.ignore_patterns("__pycache__", "mini"))
    return tmp_path / "denslice"


def test_compiled_code_is_kept_until_a_file_changes_that_it_may_be_made_from(package: Path, tmp_path: Path) -> None:
    hits, folder = _loaded(tmp_path)
    assert hits == "0"
    for touched in package.rglob("*.py"):
        os.utime(touched)  # a new time is no new content
    with (package / "index/index.py").open("a") as file:
        file.write("# no compiled code is made from this file\n")
    assert _loaded(tmp_path) == ("1", folder)
    with (package / "search" / "cpu" / "postings.py").open("a") as file:
        file.write("# some compiled code is made from this file\n")
    hits, other = _loaded(tmp_path)
    assert hits == "0"
    assert other != folder
    assert not Path(folder).exists()  # what nothing can use any more
    assert Path(other).is_dir()


def test_numbas_own_setting_is_the_place_where_it_is_given_and_stays_as_it_was(package: Path, tmp_path: Path) -> None:
    given = str(tmp_path / "given")
    hits, folder = _loaded(tmp_path, NUMBA_CACHE_DIR=given)
    assert hits == "0"
    assert folder.startswith(given)
    assert _loaded(tmp_path, NUMBA_CACHE_DIR=given) == ("1", folder)
    assert not list(package.rglob("*.nbi"))


def test_without_a_folder_to_write_to_code_is_compiled_and_not_kept(package: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for _ in range(2):
        assert _loaded(tmp_path, XDG_CACHE_HOME=str(tmp_path / "file")) == ("0", "None")


def test_two_installations_keep_their_code_apart(package: Path, tmp_path: Path) -> None:
    shutil.copytree(package, tmp_path / "other" / "denslice")
    _, first = _loaded(tmp_path)
    _, second = _loaded(tmp_path / "other", XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert first != second
    assert Path(first).is_dir()
    assert _loaded(tmp_path)[0] == "1"


def test_compiling_is_told_once_on_a_terminal_and_not_where_code_is_loaded_or_in_a_pipe(
    package: Path, tmp_path: Path
) -> None:
    assert _stderr(tmp_path, terminal=True).count(TOLD) == 1
    assert TOLD not in _stderr(tmp_path, terminal=True)
    shutil.rmtree(tmp_path / "cache")
    assert TOLD not in _stderr(tmp_path, terminal=False)


def _loaded(where: Path, **settings: str) -> tuple[str, str]:
    """How often kept code was used, and its folder; numba's own setting stays as it was."""
    code = LOADED.format(given=settings.get("NUMBA_CACHE_DIR", ""))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=_environment(where, settings), cwd=where
    )
    assert done.stderr == ""
    hits, unchanged, folder = done.stdout.split()
    assert unchanged == "True"
    return hits, folder


def _stderr(where: Path, terminal: bool) -> str:
    ours, theirs = pty.openpty() if terminal else os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", COMPILED], stdout=subprocess.DEVNULL, stderr=theirs, env=_environment(where), cwd=where
    ) as process:
        os.close(theirs)
        told = b""
        try:
            while piece := os.read(ours, 1 << 16):
                told += piece
        except OSError:  # how a terminal says that nobody writes to it any more
            pass
    os.close(ours)
    assert process.returncode == 0
    return told.decode()


def _environment(where: Path, settings: dict[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    caches = {"XDG_CACHE_HOME": str(where / "cache"), "PYTHONPATH": os.pathsep.join([str(where), *sys.path])}
    return kept | caches | (settings or {})
