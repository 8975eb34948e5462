"""How loops are compiled, and where what was compiled is kept for the next process.

numba keeps compiled code until the function's own file changes, and our functions call those of other files. So what
is kept lies in a folder named after the contents of all of them: another content is another folder.
Import this module inside the function that needs it: numba is slow to load.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
import numpy as np
from numba import njit
from numba.core import event

NUMBA_CONFIG: Any = numba.config
PACKAGE_FOLDER = Path(__file__).parent
SOURCES = (Path(__file__), PACKAGE_FOLDER / "array_loops.py", *sorted(PACKAGE_FOLDER.joinpath("search").rglob("*.py")))


def compiled(function: Callable[..., Any]) -> Any:
    """The function compiled by numba when Python first calls it, without the interpreter's lock, and kept on disk."""
    return _cached(function, fastmath=False)


def compiled_reordering(function: Callable[..., Any]) -> Any:
    """The same, with leave to add up floats in another order, which lets sums run in vectors."""
    return _cached(function, fastmath={"reassoc", "contract"})


def helper(function: Callable[..., Any]) -> Any:
    """The function compiled by numba for compiled functions to call: it is kept on disk as a part of theirs alone."""
    return njit(nogil=True)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """The function written into its caller before that is compiled: a helper that one place alone calls.

    LLVM works through a helper again for each caller above it, and through what is inlined once.
    """
    return njit(inline="always")(function)


def _cached(function: Callable[..., Any], fastmath: bool | set[str]) -> Any:
    folder = cache_folder()
    if folder is None:
        return njit(nogil=True, fastmath=fastmath)(function)
    with _numba_caches_in(folder):
        return njit(nogil=True, cache=True, fastmath=fastmath)(function)


@contextmanager
def _numba_caches_in(folder: Path) -> Iterator[None]:
    """A block in which numba takes this folder for functions made to be kept; what others make is not touched."""
    before = NUMBA_CONFIG.CACHE_DIR
    NUMBA_CONFIG.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        NUMBA_CONFIG.CACHE_DIR = before


@cache
def cache_folder() -> Path | None:
    """The folder of this installation's compiled code, None where no such folder can be written to.

    It is <place>/<installation>/<contents>; a new one replaces those that were made from other contents.
    """
    try:
        ours = _place() / _installation()
        folder = ours / _hash(*(one.read_bytes() for one in SOURCES if one.exists()))
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            for other in ours.iterdir():
                if other != folder:
                    shutil.rmtree(other, ignore_errors=True)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError):  # RuntimeError: the user has no home
        return None
    return folder


def _place() -> Path:
    """Where caches of this user are kept, or NUMBA_CACHE_DIR where that is set."""
    if NUMBA_CONFIG.CACHE_DIR:
        return Path(NUMBA_CONFIG.CACHE_DIR) / "denslice"
    if sys.platform == "darwin":
        caches = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        caches = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "denslice" / "numba"


def _installation() -> str:
    """What compiled code is bound to beside its sources: where they lie, the versions, and the processor."""
    versions = (numba.__version__, llvmlite.__version__, np.__version__, platform.python_version())
    processor = (platform.machine(), llvmlite.binding.get_host_cpu_name())
    return _hash(*(text.encode() for text in (str(PACKAGE_FOLDER), *versions, *processor)))


def _hash(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:20]


class _CompileNotice(event.Listener):
    """Says once that search is being compiled, which takes seconds; nothing where it is loaded."""

    told = False

    def on_start(self, begun: Any) -> None:
        """Called by numba where it compiles a function."""
        function = begun.data["dispatcher"].py_func
        if not self.told and function.__module__.startswith("denslice."):
            self.told = True
            logging.getLogger(__name__).info("compiling search kernels (once per installation) …")

    def on_end(self, ended: Any) -> None:
        """Called by numba when it has."""


event.register("numba:compile", _CompileNotice())  # type: ignore[no-untyped-call]
