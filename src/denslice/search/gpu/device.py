"""The protocol of a GPU as a searcher uses it, and the turns in which threads use it.

cuda.py implements it with CuPy; tests/numpy_card.py implements it in numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from threading import RLock, get_ident
from typing import Any, Protocol

from denslice.vectors import Array

Handle = Any  # an array on the GPU
# Takes the name of a kernel, its grid, threads, arguments, and bytes of shared memory.
Launch = Callable[[str, tuple[int, int], int, tuple[Any, ...], int], None]


class Turn:
    """A reentrant lock that knows which thread holds it.

    A GPU has one stream, on which launches are recorded, and memory that searches share. Code that uses either must
    hold the GPU's turn. `check` raises if it does not, so that a missing lock is an error at once and not a wrong
    result now and then.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._holder, self._depth = 0, 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self._holder, self._depth = get_ident(), self._depth + 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._holder = 0
        self._lock.release()

    def check(self) -> None:
        """Raise RuntimeError unless this thread holds the lock."""
        if self._holder != get_ident():
            raise RuntimeError("a GPU was used outside of its turn; enter `device.using()` first")


@contextmanager
def all_turns(devices: Sequence[Device]) -> Iterator[None]:
    """Hold the turns of all these GPUs, which are taken in their order."""
    with ExitStack() as turns:
        for device in devices:
            turns.enter_context(device.turn)
        yield


class Marker(Protocol):
    """A mark in the sequence of a GPU's work."""

    def set(self) -> None:
        """Set the mark after all work that was launched so far."""

    def wait(self) -> None:
        """Wait until the work before the mark is done."""


class Device(Protocol):
    """A GPU as a searcher uses it.

    A thread must hold the GPU's turn to call any method but `put`, `address` and `using`, which takes the turn.
    """

    name: str
    turn: Turn
    processors: int
    shared_bytes: int  # shared memory that a thread block can have
    processor_bytes: int  # shared memory of a multiprocessor

    def free_bytes(self) -> int:
        """Return how much memory is free."""

    def put(self, array: Array) -> Handle:
        """Return a copy of an array on the GPU. It is copied in pieces: each takes a turn, but reading takes none."""

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Handle:
        """Return an array on the GPU whose values are undefined."""

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Handle:
        """Return an array of zeros on the GPU."""

    def pinned(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Return an array of the host that the GPU can read and write."""

    def get(self, handle: Handle) -> Array:
        """Return a copy of an array on the host."""

    def copy_in(self, handle: Handle, array: Array) -> None:
        """Copy pinned memory to the GPU, in sequence with the kernels."""

    def copy_back(self, to: Array, handle: Handle) -> None:
        """Copy from the GPU to pinned memory, in sequence with the kernels."""

    def address(self, handle: Handle | None) -> int:
        """Return the address of an array, or 0 for None."""

    def running_sum(self, handle: Handle) -> Handle:
        """Return the sum of the entries before each one, and the sum of all entries at the end."""

    def compile(self, threads: int, resident: int, dimensions: int) -> Launch:
        """Return a function that launches the kernels, compiled for these sizes of tiles and dense vectors."""

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        """Record launches, and return a function that repeats all of them at once."""

    def wait(self) -> None:
        """Wait until all work is done."""

    def marker(self) -> Marker:
        """Return a mark for the sequence of work."""

    def using(self) -> AbstractContextManager[Any]:
        """Return a context in which this thread holds the turn and its work goes to this GPU."""
