"""What a process that reads files may use, so that no file can hang, crash or fill the one that indexes them."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress
from dataclasses import dataclass

SECONDS = 120.0
MEMORY = 4 << 30
BUFFER = 32 << 20
REFUSED = frozenset(
    {
        "socket.connect",
        "socket.getaddrinfo",
        "socket.gethostbyname",
        "socket.sendto",
        "socket.sendmsg",
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
    }
)  # Python's audit events of using the network and of running programs
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "POLARS_MAX_THREADS",
        "RAYON_NUM_THREADS",
        "MALLOC_ARENA_MAX",
    ),
    "1",
)  # environment: on many cores, the stacks and arenas of idle threads would take up the memory limit


@dataclass(frozen=True)
class ReadingLimits:
    """The limits of reading files. A file that exceeds one is left out and reported."""

    seconds: float = SECONDS  # until the next part of a file is read
    memory: int = MEMORY  # bytes of address space of one process
    buffer: int = BUFFER  # bytes that are read ahead of the caller, by all processes together


def confine(memory: int) -> None:
    """Limit this process's memory, and deny it core dumps, the network and other programs, for good."""
    _limit(resource.RLIMIT_CORE, 0)
    if hasattr(resource, "RLIMIT_AS"):
        _limit(resource.RLIMIT_AS, memory)
    sys.addaudithook(_refuse)


def _limit(kind: int, value: int) -> None:
    """Lower a limit of the system, unless it is lower already."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    with suppress(ValueError, OSError):  # macOS has no limit of address space, and says so only here
        resource.setrlimit(kind, (value, value))


def _refuse(event: str, given: tuple[object, ...]) -> None:
    if event in REFUSED:
        raise PermissionError(f"a reader of files may not do this: {event}")
