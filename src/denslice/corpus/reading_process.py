"""A process that reads files, as its parent sees it: it is started, asked, watched, and killed when it hangs."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import IO

from denslice.corpus.reading_frames import HEADER, request_frame
from denslice.corpus.reading_limits import ONE_THREAD, ReadingLimits
from denslice.errors import UnavailableError, UnreadableError

COMMAND = ("-P", "-m", "denslice.corpus.reading_worker")  # -P: no module is imported from the folder that is read
CHUNK = 1 << 20  # bytes
TAIL = 4096  # bytes of stderr that are kept
OUT_OF_MEMORY = ("bad_alloc", "memory allocation", "MemoryError", "out of memory")  # last words of C++, Rust and Python
STARTING = 120.0  # seconds; it takes a third of one, but for machines under load
DEATH = 10.0  # seconds; a killed process takes longer only if it waits for a disk or a network drive that hangs


class ReadingProcess:
    """A process that reads one file at a time. `start` replaces one that has died; after `end`, there is none."""

    def __init__(self, limits: ReadingLimits, cut: bool) -> None:
        self._limits, self._cut = limits, cut
        self._lock = RLock()  # `end` is called by another thread
        self._ended = False
        self._process: subprocess.Popen[bytes] | None = None
        self.is_ready = False

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it anew and wait until it can be asked; raise UnavailableError if it cannot be started."""
        self.stop()
        self._launch()
        self.ask([{"seconds": self._limits.seconds, "memory": self._limits.memory, "cut": self._cut}])
        try:
            self.frame(STARTING)
        except UnreadableError as error:
            raise UnavailableError(f"the process that reads files does not start: {error}") from None
        self.is_ready = True

    def ask(self, requests: Iterable[object]) -> None:
        """Send requests, the answers to which `frame` returns, in order."""
        assert self._process is not None
        stdin, _, _ = _pipes(self._process)
        left = b"".join(map(request_frame, requests))
        with suppress(BrokenPipeError):  # `frame` tells how it died
            while left:
                left = left[os.write(stdin.fileno(), left) :]

    def frame(self, seconds: float) -> tuple[int, bytes]:
        """Return the mark and the payload of the next frame; raise UnreadableError if the process hangs or dies."""
        until = time.monotonic() + seconds
        while (found := self._whole_frame()) is None:
            if not self._receive(until):
                raise _slow(seconds)
        return found

    def end(self) -> None:
        """Kill it for good. Any thread may call this; the one that asks then calls `stop`."""
        with self._lock:
            self._ended = True
            if self._process is not None:
                self._process.kill()

    def stop(self) -> None:
        """Kill it and release what belongs to it."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        _wait(process)
        for pipe in _pipes(process):
            pipe.close()

    def _launch(self) -> None:
        with self._lock:
            if self._ended:
                raise UnavailableError("reading has ended")
            try:
                self._process = _new_process()
            except OSError as error:
                told = f"the process that reads files cannot be started: {error.strerror or error}"
                raise UnavailableError(told) from None
        _, self._answers, self._errors = _pipes(self._process)
        self._received = bytearray()
        self._tail = b""
        self._poll = select.poll()
        for pipe in (self._answers, self._errors):
            self._poll.register(pipe, select.POLLIN)

    def _whole_frame(self) -> tuple[int, bytes] | None:
        """Return the next frame if it has been received."""
        if len(self._received) < HEADER.size:
            return None
        mark, length = HEADER.unpack_from(self._received)
        if length > self._limits.memory:
            raise UnreadableError("damaged file", "the reader sent what is no answer")
        end = HEADER.size + length
        if len(self._received) < end:
            return None
        payload = bytes(memoryview(self._received)[HEADER.size : end])
        del self._received[:end]
        return mark, payload

    def _receive(self, until: float) -> bool:
        """Wait for bytes and keep them; return False if none came in time, and raise UnreadableError at their end."""
        ready = {handle for handle, _ in self._poll.poll(max(0, math.ceil(1000 * (until - time.monotonic()))))}
        if self._errors.fileno() in ready and not self._keep_tail():
            self._poll.unregister(self._errors)
        if self._answers.fileno() not in ready:
            return time.monotonic() < until  # noise on stderr does not count
        chunk = os.read(self._answers.fileno(), CHUNK)
        if not chunk:
            raise self._death()
        self._received += chunk
        return True

    def _keep_tail(self) -> bool:
        """Keep the last bytes of stderr, and return whether there may be more."""
        chunk = os.read(self._errors.fileno(), CHUNK)
        self._tail = (self._tail + chunk)[-TAIL:]
        return bool(chunk)

    def _death(self) -> UnreadableError:
        """Return how the process died."""
        assert self._process is not None
        code = _wait(self._process)
        os.set_blocking(self._errors.fileno(), False)
        with suppress(BlockingIOError):
            while self._keep_tail():
                pass
        if code == -signal.SIGALRM:
            return _slow(self._limits.seconds)
        said = self._tail.decode("utf-8", "replace")
        if code == -signal.SIGKILL or any(words in said for words in OUT_OF_MEMORY):
            return UnreadableError("large file", "the reader ran out of memory")
        why = (
            signal.strsignal(-code) if code and code < 0 else (said.strip().splitlines() or [f"exit status {code}"])[-1]
        )
        return UnreadableError("damaged file", f"the reader crashed ({why})")


def _slow(seconds: float) -> UnreadableError:
    return UnreadableError("slow file", f"not read within {seconds:g} s")


def _new_process() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *COMMAND],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the parent, which then ends its readers
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": _module_path(), "PYTHONUTF8": str(sys.flags.utf8_mode)},
    )


def _module_path() -> str:
    """Return where this process finds modules, but for the working directory, which may be the folder that is read."""
    folders = [folder for folder in sys.path if folder and not _is_working_directory(Path(folder))]
    root = str(Path(__file__).parents[2])
    return os.pathsep.join(folders if root in folders else [*folders, root])


def _is_working_directory(folder: Path) -> bool:
    return folder.exists() and folder.samefile(".")


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdin, process.stdout, process.stderr


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit status of a process that has been killed or has closed its pipes."""
    with suppress(subprocess.TimeoutExpired):
        return process.wait(DEATH)
    process.kill()
    return None
