"""One writer at a time: a lock on a file that the system lets go when its process dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from denslice.errors import InputError, LockedError

NAME = "lock"
PAUSE = 0.05  # seconds between tries


@contextmanager
def writing(folder: Path, wait: float = 0.0) -> Iterator[None]:
    """Holds the folder's write lock; LockedError if another process has it for longer than `wait` seconds."""
    try:
        handle = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written to ({error.strerror})") from error
    try:
        _take(handle, folder, time.monotonic() + wait)
        with suppress(OSError):  # the number is for the message alone, and a full disk has no room for it
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _take(handle: int, folder: Path, deadline: float) -> None:
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
                raise LockedError(f"{folder}: process {holder} is writing to this index; try again later") from None
            time.sleep(PAUSE)
