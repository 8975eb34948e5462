"""One thread for numpy's products of matrices: idle threads of OpenBLAS spin on cores that others need."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

SYMBOLS = "scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads"


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let OpenBLAS use one thread in the block; where numpy has another library, nothing is changed."""
    found = openblas()
    if found is None:
        yield
        return
    usual, set_threads = found
    set_threads(1)
    try:
        yield
    finally:
        set_threads(usual)


@cache
def openblas() -> tuple[int, Callable[[int], object]] | None:
    """Return how many threads numpy's OpenBLAS uses, and the function that sets it."""
    numpy = ctypes.CDLL(np._core._multiarray_umath.__file__)  # type: ignore[attr-defined]
    for name in SYMBOLS:
        if hasattr(numpy, name.format("set")):
            return int(getattr(numpy, name.format("get"))()), getattr(numpy, name.format("set"))
    return None
