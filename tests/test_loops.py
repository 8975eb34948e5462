"""Where loops were never compiled, the first searches do not wait for them, and find what the loops find."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock

from denslice import compiling
from denslice.loops import FIRST_SEARCHES, READY, Loops
from denslice.search.compile_loops import LOCK_FILE

PYTHON = sys.executable  # which some tests change
SEARCHES = """
import numpy as np
from numba.core import event
from denslice import Index, open_index
from denslice.loops import LOOPS

class Compiled(event.Listener):
    def on_start(self, begun):
        function = begun.data["dispatcher"].py_func
        if function.__module__.startswith("denslice.search"):
            names.append(function.__name__)
    def on_end(self, ended):
        pass

names = []
event.register("numba:compile", Compiled())
text = [f"word{n} word{n // 2} term{n % 7}" for n in range(12_000)] + ["a garden"]
with Index.create("words.idx", "bm25") as index:
    index.add({"id": str(n), "text": one} for n, one in enumerate(text))
rows = np.random.default_rng(0).random((3_000, 12)).astype(np.float32)
with Index.create("vectors.idx", "vectors", vocab=12, slices=12, slicing="stride") as index:
    index.add_vectors([str(n) for n in range(len(rows))], rows, dense=rows[:, :4])
words, vectors = open_index("words.idx"), open_index("vectors.idx")
for found in (
    words.search("word77 term3"),
    words.search("graden"),
    vectors.search_vectors(rows[:1]),
    vectors.search_vectors(rows[1:2], dense=rows[1, :4]),
):
    print([(hit.id, hit.score) for hit in found])
print(sorted(set(names)), LOOPS.ready)
"""


def test_first_searches_compile_nothing_but_products_and_find_what_the_loops_find(tmp_path: Path) -> None:
    caches = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    *first, compiled = printed(tmp_path / "a", SEARCHES, caches)
    assert compiled == "['half_products'] False"
    assert "[]" not in first
    until_there(tmp_path / "cache")
    *again, compiled = printed(tmp_path / "b", SEARCHES, caches)
    assert compiled == "[] True"
    assert again == first


def printed(folder: Path, code: str, settings: dict[str, str]) -> list[str]:
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | settings, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def until_there(cache: Path) -> None:
    deadline = time.monotonic() + 300
    while not [*cache.rglob(READY)]:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_of_several_commands_that_start_together_one_compiles(tmp_path: Path) -> None:
    settings = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    [told] = printed(tmp_path / "a", "from denslice.compiling import cache_folder; print(cache_folder())", settings)
    cache = Path(told)
    command = [sys.executable, "-c", "from denslice.search.compile_loops import main; main()"]
    with FileLock(cache / LOCK_FILE):  # another process compiles
        second = subprocess.Popen(command, env=os.environ | settings)
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(3)
        (cache / READY).touch()
    assert second.wait(60) == 0
    assert not [*cache.rglob("*.nbc")]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for compiled code."""
    monkeypatch.setattr(compiling.NUMBA_CONFIG, "CACHE_DIR", str(tmp_path))
    compiling.cache_folder.cache_clear()
    folder = compiling.cache_folder()
    assert folder is not None
    yield folder
    compiling.cache_folder.cache_clear()


def python_that(does: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the other process be a program that does this."""
    program = folder / "python3"
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def test_loops_on_disk_are_used_at_once(cache: Path) -> None:
    (cache / READY).touch()
    assert Loops().ready_for_search()
    assert Loops().ready_or_begun()


def test_the_first_searches_do_not_wait_and_the_next_one_does(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python_that(f"sleep 2; touch {cache / READY}", tmp_path, monkeypatch)
    loops = Loops()
    assert [loops.ready_for_search() for _ in range(FIRST_SEARCHES)] == [False] * FIRST_SEARCHES
    assert not (cache / READY).exists()
    assert loops.ready_for_search()
    assert (cache / READY).exists()


def test_loops_are_compiled_here_if_the_other_process_fails(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python_that("exit 1", tmp_path, monkeypatch)
    loops = Loops()
    assert not loops.ready_or_begun()
    deadline = time.monotonic() + 60
    while not loops.ready_or_begun():
        assert time.monotonic() < deadline


def test_a_process_may_end_before_the_other_one(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python_that("sleep 2", tmp_path, monkeypatch)
    code = "import sys; from denslice import loops; sys.executable = sys.argv[1]; loops.LOOPS.ready_or_begun()"
    command = [PYTHON, "-X", "dev", "-c", code, sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"NUMBA_CACHE_DIR": str(cache)})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("program", ["", "/usr/bin/blender", "/nowhere/python3"])
def test_without_a_python_to_start_the_first_searches_go_without_loops(
    cache: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    loops = Loops()
    assert [loops.ready_for_search() for _ in range(FIRST_SEARCHES + 1)] == [False] * FIRST_SEARCHES + [True]


def test_without_a_folder_for_them_too(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(compiling.NUMBA_CONFIG, "CACHE_DIR", str(tmp_path / "file"))
    compiling.cache_folder.cache_clear()
    python_that(f"touch {tmp_path / 'started'}", tmp_path, monkeypatch)
    loops = Loops()
    assert [loops.ready_for_search() for _ in range(FIRST_SEARCHES + 1)] == [False] * FIRST_SEARCHES + [True]
    assert not (tmp_path / "started").exists()
