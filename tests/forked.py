"""A piece of work in a forked process, so that a signal, a hang or a stray exception there is something to tell of."""

import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

FAILED = "FAILED"


class Child:
    """A forked process at work."""

    def __init__(self, work: Callable[[], str], *, seconds: int = 60, room: int | None = None) -> None:
        """The child ends after so many seconds at the latest, and may map `room` bytes more than it starts with."""
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reading)
            _limit(seconds, room)
            run_and_exit(lambda: os.write(writing, work().encode()), writing)
        os.close(writing)

    def result(self) -> str:
        """What the work returned, or how it failed: FAILED and the traceback, or FAILED and the signal."""
        with os.fdopen(self._reading, "rb") as pipe:
            told = pipe.read().decode()
        _, status = os.waitpid(self.pid, 0)
        return f"{FAILED} {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else told


def run_and_exit(work: Callable[[], object], errors: int) -> None:
    """Runs the work and ends this process, without the parent's clean-up; a traceback goes to the file `errors`."""
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001  the parent is told of it
        os.write(errors, f"{FAILED} {traceback.format_exc()}".encode())
    finally:
        sys.stdout.flush()
        os._exit(code)


def _limit(seconds: int, room: int | None) -> None:
    signal.alarm(seconds)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if room is not None:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + room, mapped + room))
