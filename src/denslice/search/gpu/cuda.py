"""NVIDIA GPUs through CuPy: memory, compiled kernels, and launches that are recorded as CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import numpy as np

from denslice.errors import GpuMemoryError, InputError, MissingExtraError
from denslice.search.gpu import layout
from denslice.search.gpu.device import Device, Handle, Launch, Marker, Turn
from denslice.vectors import Array

STAGING_BYTES = 1 << 26  # bytes that are copied to the GPU at a time, through pinned memory of the host
MACROS = ("SECTIONS", "CHUNK", "BINS", "UNITS", "SIEVE", "KEYS_EACH", "AHEAD", "FEW", "NEAR", "RANKED")  # of layout.py
KERNELS = (
    "measure", "arrange", "begin", "dense_one", "dense_four", "pool", "scale", "score", "collect", "cut", "rescore",
    "order",
)  # fmt: skip


def cuda_devices(name: str) -> list[Device]:
    """Return the GPUs that a name such as "cuda", "cuda:1" or "cuda:0,1" means. Raise InputError if there are none."""
    try:
        import cupy
    except ImportError as error:
        raise MissingExtraError("search on a GPU", "gpu") from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise InputError(f"device {name!r}: no NVIDIA GPU can be used ({error}); use device='cpu'") from error
    return [CudaDevice(number) for number in device_numbers(name, count)]


def device_numbers(name: str, count: int) -> list[int]:
    """Return the numbers of the GPUs that a name means, on a machine that has `count`."""
    kind, _, list_ = name.partition(":")
    numbers = list_.split(",") if list_ else ["0"]
    if kind != "cuda" or not all(number.isascii() and number.isdigit() for number in numbers) or name.endswith(":"):
        raise InputError(f"device is {name!r}, expected cpu, cuda, cuda:1 or, for several GPUs, cuda:0,1")
    missing = [number for number in numbers if int(number) >= count]
    if missing:
        raise InputError(f"device {name!r}: there is no GPU {missing[0]}; this machine has {count}, numbered from 0")
    return [int(number) for number in numbers]


class CudaDevice:
    """A GPU with its own stream, which implements `Device`."""

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
            found = self._device.compute_capability
            raise InputError(f"{self.name} has compute capability {found}, expected 70 or more; use device='cpu'")
        with self._device:
            self._stream = cupy.cuda.Stream(non_blocking=True)
        self.turn = Turn()
        self._compiled: dict[tuple[str, ...], Launch] = {}

    @contextmanager
    def using(self) -> Iterator[None]:
        """Hold the turn, and send this thread's work to this GPU and its stream."""
        with self.turn, self._device, self._stream:
            yield

    def free_bytes(self) -> int:
        """Return how much memory is free, including what CuPy keeps for later."""
        self.turn.check()
        with self._device:
            free, _ = self._cupy.cuda.runtime.memGetInfo()
            return int(free + self._cupy.get_default_memory_pool().free_bytes())

    def put(self, array: Array) -> Handle:
        """Return a copy on the GPU, which is made in pieces. An array that is on a GPU already is returned as it is.

        Each copy has its own staging memory, so that files are read while other threads search.
        """
        import cupyx

        if isinstance(array, self._cupy.ndarray):
            return array
        with self.using():
            handle = self.empty(array.shape, array.dtype)
            stage = cupyx.empty_pinned(max(1, min(STAGING_BYTES, array.nbytes)), np.uint8)
        flat, to = array.reshape(-1), handle.reshape(-1)
        each = max(1, STAGING_BYTES // max(1, array.itemsize))
        for start in range(0, len(flat), each):
            piece = flat[start : start + each]
            staged = stage[: piece.nbytes].view(array.dtype)
            staged[:] = piece
            with self.using():
                to[start : start + each].set(staged, stream=self._stream)
                self._stream.synchronize()
        return handle

    def empty(self, shape: int | tuple[int, ...], dtype: Any) -> Handle:
        return self._allocated(self._cupy.empty, shape, dtype)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Handle:
        return self._allocated(self._cupy.zeros, shape, dtype)

    def _allocated(self, allocate: Callable[..., Handle], shape: int | tuple[int, ...], dtype: Any) -> Handle:
        self.turn.check()
        try:
            return allocate(shape, dtype)
        except self._cupy.cuda.memory.OutOfMemoryError as error:
            raise GpuMemoryError(f"{self.name} has too little free memory: {error}; use device='cpu'") from error

    def pinned(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        import cupyx

        self.turn.check()
        array: Array = cupyx.zeros_pinned(shape, dtype)
        return array

    def get(self, handle: Handle) -> Array:
        self.turn.check()
        array: Array = handle.get(stream=self._stream)
        return array

    def copy_in(self, handle: Handle, array: Array) -> None:
        self._copy(handle.data.ptr, array.ctypes.data, array.nbytes, "memcpyHostToDevice")

    def copy_back(self, to: Array, handle: Handle) -> None:
        self._copy(to.ctypes.data, handle.data.ptr, to.nbytes, "memcpyDeviceToHost")

    def _copy(self, to: int, source: int, size: int, kind: str) -> None:
        self.turn.check()
        runtime = self._cupy.cuda.runtime
        runtime.memcpyAsync(to, source, size, getattr(runtime, kind), self._stream.ptr)

    def address(self, handle: Handle | None) -> int:
        return 0 if handle is None else int(handle.data.ptr)

    def running_sum(self, handle: Handle) -> Handle:
        sums = self.zeros(len(handle) + 1, np.uint32)
        self._cupy.cumsum(handle, dtype=np.uint32, out=sums[1:])
        return sums

    def compile(self, threads: int, resident: int, dimensions: int) -> Launch:
        """Return a function that launches the kernels. CuPy keeps compiled kernels on disk for the next process."""
        self.turn.check()
        _, lanes, steps = layout.dense_shape(dimensions or 8)
        given = {name: getattr(layout, name) for name in MACROS}
        given |= {"THREADS": threads, "RESIDENT": resident, "DENSE_LANES": lanes, "DENSE_STEPS": steps}
        options = ("--std=c++14", *(f"-D{name}={value}" for name, value in given.items()))
        if options not in self._compiled:  # recorded launches need the kernels as long as the GPU is used
            source = files("denslice.search.gpu").joinpath("kernels.cu").read_text(encoding="utf-8")
            module = self._cupy.RawModule(code=source, options=options)
            functions, turn = {name: module.get_function(name) for name in KERNELS}, self.turn
            functions["score"].max_dynamic_shared_size_bytes = self.shared_bytes - 1024

            def launch(name: str, grid: tuple[int, int], threads: int, arguments: tuple[Any, ...], shared: int) -> None:
                turn.check()
                functions[name](grid, (threads,), tuple(map(_argument, arguments)), shared_mem=shared)

            self._compiled[options] = launch
        return self._compiled[options]

    def recorded(self, work: Callable[[], None]) -> Callable[[], None]:
        """Record launches as a CUDA graph: one launch instead of one for each kernel."""
        self.turn.check()
        self._stream.begin_capture()
        try:
            work()
        finally:
            graph = self._stream.end_capture()

        def launch_graph() -> None:
            self.turn.check()
            graph.launch(self._stream)

        return launch_graph

    def wait(self) -> None:
        self.turn.check()
        self._stream.synchronize()

    def marker(self) -> Marker:
        return _Event(self.turn, self._cupy.cuda.Event(disable_timing=True), self._stream)


class _Event:
    """A mark in a stream."""

    def __init__(self, turn: Turn, event: Any, stream: Any) -> None:
        self.turn, self.event, self.stream = turn, event, stream

    def set(self) -> None:
        self.turn.check()
        self.event.record(self.stream)

    def wait(self) -> None:
        """Wait until the work before the mark is done. This needs no turn: other threads may wait meanwhile."""
        self.event.synchronize()


def _argument(value: Any) -> Any:
    """Return a value as a kernel takes it: None is the address 0, and a count has 32 bits."""
    if value is None:
        return np.uint64(0)
    return np.uint32(value) if isinstance(value, int) else value
