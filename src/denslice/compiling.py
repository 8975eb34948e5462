"""The decorators that compile loops with numba, and the folder that caches the compiled code.

numba caches compiled code until the function's own file changes, but compiled functions call those of other files. So
the name of the cache folder is a hash of all these files: after a change it is another folder.
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
SOURCES = (
    Path(__file__),
    *(PACKAGE_FOLDER / name for name in ("array_loops.py", "encoders/chunk_scan.py")),
    *sorted(PACKAGE_FOLDER.joinpath("search").rglob("*.py")),
)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function with numba at its first call, and cache it on disk; it releases the GIL."""
    return _cached(function, fastmath=False)


def compiled_reordering(function: Callable[..., Any]) -> Any:
    """Compile a function like `compiled`, but let sums of floats be reordered, so that they are vectorised."""
    return _cached(function, fastmath={"reassoc", "contract"})


def helper(function: Callable[..., Any]) -> Any:
    """Compile a function for compiled functions to call; it is cached on disk only as a part of theirs."""
    return njit(nogil=True)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """Inline a function into its caller before that is compiled: for a helper with a single caller.

    LLVM optimises a helper again in every function above it in the call graph, and an inlined function once.
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
    """Let numba cache the functions of the block in this folder, and those of other packages where it did before."""
    before = NUMBA_CONFIG.CACHE_DIR
    NUMBA_CONFIG.CACHE_DIR = str(folder)
    try:
        yield
    finally:
        NUMBA_CONFIG.CACHE_DIR = before


@cache
def cache_folder() -> Path | None:
    """Return the folder that caches this installation's compiled code, or None if it cannot be written to.

    It is <cache>/<installation>/<hash of the sources>; a new one replaces those of other sources.
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
    """Return the user's cache folder for compiled code, or NUMBA_CACHE_DIR if that is set."""
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
    """Return a hash of what compiled code depends on beside its sources: their folder, the versions, the processor."""
    versions = (numba.__version__, llvmlite.__version__, np.__version__, platform.python_version())
    processor = (platform.machine(), llvmlite.binding.get_host_cpu_name())
    return _hash(*(text.encode() for text in (str(PACKAGE_FOLDER), *versions, *processor)))


def _hash(*parts: bytes) -> str:
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:20]


class _CompileNotice(event.Listener):
    """Logs once that search is being compiled, which takes seconds; code from the cache is not compiled."""

    is_logged = False

    def on_start(self, begun: Any) -> None:
        """Log that numba begins to compile a function of denslice."""
        function = begun.data["dispatcher"].py_func
        if not self.is_logged and function.__module__.startswith("denslice."):
            self.is_logged = True
            logging.getLogger(__name__).info("compiling search kernels (once per installation) …")

    def on_end(self, ended: Any) -> None:
        """Do nothing when numba has compiled a function."""


event.register("numba:compile", _CompileNotice())  # type: ignore[no-untyped-call]
