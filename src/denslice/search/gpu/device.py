"""One GPU through CuPy: its memory, the compiled kernels, and work recorded once and run again in one launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from importlib.resources import files
from threading import RLock, get_ident
from typing import Any, Protocol

import numpy as np

from denslice.errors import GpuMemoryError, InputError, MissingExtraError
from denslice.search.gpu import layout
from denslice.vectors import Array

PIECE = 1 << 26  # bytes copied to the card at a time, through memory of the host that the card can reach
NUMBERS = ("SECTIONS", "CHUNK", "BINS", "UNITS", "SIEVE", "KEYS_EACH", "AHEAD", "FEW", "NEAR", "RANKED")  # of layout
KERNELS = [
    "measure",
    "arrange",
    "begin",
    "dense_one",
    "dense_four",
    "scale",
    "score",
    "collect",
    "cut",
    "rescore",
    "order",
]
Handle = Any  # an array on the card
# takes a kernel's name, its grid, threads, arguments and bytes of shared memory
Launch = Callable[[str, tuple[int, int], int, tuple[Any, ...], int], None]


class Turn:
    """A lock that one thread holds at a time, as often as it enters, and that knows which thread that is.

    A GPU has one stream, on which launches are recorded, and memory that searches share. What touches any of them runs
    in the GPU's turn, and `check` raises where it does not: a missing lock is an error at once, not a wrong result now
    and then.
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
        """Raises RuntimeError unless this thread holds the lock."""
        if self._holder != get_ident():
            raise RuntimeError("a GPU was used outside of its turn; enter `device.using()` first")


@contextmanager
def all_turns(devices: Sequence[Device]) -> Iterator[None]:
    """A block that has the turns of all these GPUs, taken in their order."""
    with ExitStack() as held:
        for device in devices:
            held.enter_context(device.turn)
        yield


class Marker(Protocol):
    """A mark in the order of a card's work."""

    def set(self) -> None:
        """Sets it behind all work launched so far."""
        ...

    def wait(self) -> None:
        """Returns when the work before it is done."""
        ...


class Device(Protocol):
    """What the host side asks of a card.

    Every method but `put`, `address` and `using` is called in the card's turn; `using` takes it.
    """

    name: str
    turn: Turn
    processors: int
    shared_bytes: int  # a group of warps can have
    processor_bytes: int  # of shared memory on a multiprocessor

    def free_bytes(self) -> int:
        """Memory nobody uses."""
        ...

    def put(self, array: Array) -> Handle:
        """A copy of an array on the card, made in pieces: each takes a turn, and reading the array takes none."""
        ...

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Handle:
        """Memory on the card, with whatever is in it."""
        ...

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Handle:
        """Memory on the card."""
        ...

    def pinned(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Memory of the host that the card can read and write."""
        ...

    def get(self, handle: Handle) -> Array:
        """A copy on the host."""
        ...

    def copy_in(self, handle: Handle, array: Array) -> None:
        """Copies from pinned memory, in turn with the kernels."""
        ...

    def copy_back(self, to: Array, handle: Handle) -> None:
        """Copies to pinned memory, in turn with the kernels."""
        ...

    def address(self, handle: Handle | None) -> int:
        """Where an array begins, 0 for none."""
        ...

    def running_sum(self, handle: Handle) -> Handle:
        """The sum of all entries before each, and of all at the end."""
        ...

    def compile(self, threads: int, resident: int, dimensions: int) -> Launch:
        """What runs a kernel made for tiles of so many threads and vectors of so many dimensions."""
        ...

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        """The same work, launched at once each time it is called."""
        ...

    def wait(self) -> None:
        """Returns when all work is done."""
        ...

    def marker(self) -> Marker:
        """A mark to set in the order of work."""
        ...

    def using(self) -> AbstractContextManager[Any]:
        """While this lasts, the turn is this thread's and its work goes to this card."""
        ...


def cuda_devices(name: str) -> list[Device]:
    """The cards a name such as "cuda", "cuda:1" or "cuda:0,1" means; one clear sentence where there are none."""
    try:
        import cupy
    except ImportError as error:
        raise MissingExtraError("search on a GPU", "gpu") from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise InputError(f"device {name!r}: no NVIDIA GPU can be used here ({error}); device='cpu' works") from error
    return [CudaDevice(number) for number in device_numbers(name, count)]


def device_numbers(name: str, count: int) -> list[int]:
    """The numbers of the cards that a name means, of so many there are."""
    kind, _, list_ = name.partition(":")
    numbers = list_.split(",") if list_ else ["0"]
    if kind != "cuda" or not all(number.isascii() and number.isdigit() for number in numbers) or name.endswith(":"):
        raise InputError(f"device is {name!r}, expected cpu, cuda, cuda:1 or, for several cards, cuda:0,1")
    missing = [number for number in numbers if int(number) >= count]
    if missing:
        raise InputError(f"device {name!r}: there is no card {missing[0]}; this machine has {count}, counted from 0")
    return [int(number) for number in numbers]


class CudaDevice:
    """A card, used through a stream of our own."""

    def __init__(self, number: int) -> None:
        import cupy

        self._cupy = cupy
        self._device = cupy.cuda.Device(number)
        properties = cupy.cuda.runtime.getDeviceProperties(number)
        self.name = properties["name"].decode()
        self.processors = int(properties["multiProcessorCount"])
        self.shared_bytes = int(properties["sharedMemPerBlockOptin"])
        self.processor_bytes = int(properties["sharedMemPerMultiprocessor"])
        if int(self._device.compute_capability) < 70:
            raise InputError(f"{self.name} has compute capability {self._device.compute_capability}; 7.0 is needed")
        with self._device:
            self._stream = cupy.cuda.Stream(non_blocking=True)
        self.turn = Turn()
        self._compiled: dict[tuple[str, ...], Launch] = {}

    def using(self) -> AbstractContextManager[Any]:
        """While this lasts, the turn is this thread's and its work goes to this card and its stream."""
        return _Using(self.turn, self._device, self._stream)

    def free_bytes(self) -> int:
        """Memory nobody uses, counting what CuPy keeps for later."""
        self.turn.check()
        with self._device:
            free, _ = self._cupy.cuda.runtime.memGetInfo()
            return int(free + self._cupy.get_default_memory_pool().free_bytes())

    def put(self, array: Array) -> Handle:
        """A copy on the card, made in pieces; an array that is on a card already stays as it is.

        Each copy has staging memory of its own, so that files are read while others search.
        """
        import cupyx

        if isinstance(array, self._cupy.ndarray):
            return array
        with self.using():
            handle = self.empty(array.shape, array.dtype)
            stage = cupyx.empty_pinned(max(1, min(PIECE, array.nbytes)), np.uint8)
        flat, to = array.reshape(-1), handle.reshape(-1)
        each = max(1, PIECE // max(1, array.itemsize))
        for start in range(0, len(flat), each):
            piece = flat[start : start + each]
            staged = stage[: piece.nbytes].view(array.dtype)
            staged[:] = piece
            with self.using():
                to[start : start + each].set(staged, stream=self._stream)
                self._stream.synchronize()
        return handle

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Handle:
        """Memory on the card, with whatever is in it."""
        return self._allocated(self._cupy.empty, shape, dtype)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Handle:
        """Memory on the card."""
        return self._allocated(self._cupy.zeros, shape, dtype)

    def _allocated(self, allocate: Callable[..., Handle], shape: int | tuple[int, ...], dtype: Any) -> Handle:
        self.turn.check()
        try:
            return allocate(shape, dtype)
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise GpuMemoryError(f"{self.name} has too little free memory: {error}; device='cpu' works") from error

    def pinned(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """Memory of the host that the card can read and write."""
        import cupyx

        self.turn.check()
        array: Array = cupyx.zeros_pinned(shape, dtype)
        return array

    def get(self, handle: Handle) -> Array:
        """A copy on the host."""
        self.turn.check()
        array: Array = handle.get(stream=self._stream)
        return array

    def copy_in(self, handle: Handle, array: Array) -> None:
        """Copies from pinned memory, in turn with the kernels."""
        self._copy(handle.data.ptr, array.ctypes.data, array.nbytes, "memcpyHostToDevice")

    def copy_back(self, to: Array, handle: Handle) -> None:
        """Copies to pinned memory, in turn with the kernels."""
        self._copy(to.ctypes.data, handle.data.ptr, to.nbytes, "memcpyDeviceToHost")

    def _copy(self, to: int, source: int, size: int, kind: str) -> None:
        self.turn.check()
        runtime = self._cupy.cuda.runtime
        runtime.memcpyAsync(to, source, size, getattr(runtime, kind), self._stream.ptr)

    def address(self, handle: Handle | None) -> int:
        """Where an array begins, 0 for none."""
        return 0 if handle is None else int(handle.data.ptr)

    def running_sum(self, handle: Handle) -> Handle:
        """The sum of all entries before each, and of all at the end."""
        sums = self.zeros(len(handle) + 1, np.uint32)
        self._cupy.cumsum(handle, dtype=np.uint32, out=sums[1:])
        return sums

    def compile(self, threads: int, resident: int, dimensions: int) -> Launch:
        """What runs a kernel made for these. CuPy keeps what it compiled on disk for the next process."""
        self.turn.check()
        _, lanes, steps = layout.dense_shape(dimensions or 8)
        given = {name: getattr(layout, name) for name in NUMBERS}
        given |= {"THREADS": threads, "RESIDENT": resident, "DENSE_LANES": lanes, "DENSE_STEPS": steps}
        options = ("--std=c++14", *(f"-D{name}={value}" for name, value in given.items()))
        if options not in self._compiled:  # recorded work needs it as long as the card is used
            source = files("denslice.search.gpu").joinpath("kernels.cu").read_text(encoding="utf-8")
            module = self._cupy.RawModule(code=source, options=options)
            functions = {name: module.get_function(name) for name in KERNELS}
            functions["score"].max_dynamic_shared_size_bytes = self.shared_bytes - 1024
            self._compiled[options] = partial(_launch, self.turn, functions)
        return self._compiled[options]

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        """The same work as a CUDA graph: one launch instead of one for each kernel."""
        self.turn.check()
        self._stream.begin_capture()
        try:
            work()
        finally:
            graph = self._stream.end_capture()
        return partial(_launch_graph, self.turn, graph, self._stream)

    def wait(self) -> None:
        """Returns when all work is done."""
        self.turn.check()
        self._stream.synchronize()

    def marker(self) -> Marker:
        """A mark to set in the order of work."""
        return _Event(self.turn, self._cupy.cuda.Event(disable_timing=True), self._stream)


class _Event:
    """A mark in a stream."""

    def __init__(self, turn: Turn, event: Any, stream: Any) -> None:
        self.turn, self.event, self.stream = turn, event, stream

    def set(self) -> None:
        """Sets it behind all work launched so far."""
        self.turn.check()
        self.event.record(self.stream)

    def wait(self) -> None:
        """Returns when the work before it is done; other threads may wait at the same time."""
        self.event.synchronize()


class _Using:
    """Enters a turn, a device and its stream, and leaves all of them."""

    def __init__(self, *contexts: Any) -> None:
        self.contexts = contexts

    def __enter__(self) -> None:
        for context in self.contexts:
            context.__enter__()

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self.contexts):
            context.__exit__(*error)


def _launch_graph(turn: Turn, graph: Any, stream: Any) -> None:
    turn.check()
    graph.launch(stream)


def _launch(
    turn: Turn,
    functions: dict[str, Any],
    name: str,
    grid: tuple[int, int],
    threads: int,
    arguments: tuple[Any, ...],
    shared: int,
) -> None:
    """Runs a kernel, in turn with the others."""
    turn.check()
    functions[name](grid, (threads,), tuple(_argument(argument) for argument in arguments), shared_mem=shared)


def _argument(value: Any) -> Any:
    """What a kernel takes for it: an address of nothing for none, 32 bits for a count."""
    if value is None:
        return np.uint64(0)
    return np.uint32(value) if isinstance(value, int) else value
