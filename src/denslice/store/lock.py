"""The write lock of a folder: a lock on a file, which the operating system releases when its process dies.

A writer that waits for the write lock holds a second lock, the turnstile. A process that writes again and again has to
take it too, so it cannot keep other writers waiting for ever.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from denslice.errors import InputError, LockedError

LOCK_FILE = "lock"
TURNSTILE_FILE = "lock.next"
MERGE_FILE = "lock.merge"  # of the process that merges large segments
POLL_SECONDS = 0.005
WAIT_SECONDS = 10.0  # that a writer waits by default; the lock is held only while a commit is made


@contextmanager
def writing(folder: Path, wait: float = WAIT_SECONDS) -> Iterator[None]:
    """Hold the folder's write lock; raise LockedError if another writer holds it for more than `wait` seconds."""
    deadline = time.monotonic() + wait
    try:
        held = _lock(folder / LOCK_FILE)
        with _lock(folder / TURNSTILE_FILE).acquire(timeout=wait, poll_interval=POLL_SECONDS):
            held.acquire(timeout=max(0.0, deadline - time.monotonic()), poll_interval=POLL_SECONDS)
    except Timeout:
        raise LockedError(f"{folder}: {holder(folder / LOCK_FILE)} is writing to this index; try again later") from None
    except OSError as error:
        raise InputError(f"{folder}: the folder cannot be written to ({error.strerror or error})") from error
    try:
        _write_pid(folder / LOCK_FILE)
        yield
    finally:
        held.release()


@contextmanager
def alive(path: Path) -> Iterator[bool]:
    """Hold a lock that shows that this process is alive and yield True; yield False if another process holds it."""
    lock = _lock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        _write_pid(path)
        yield True
    finally:
        lock.release()


def _lock(path: Path) -> FileLock:
    """Return a lock to acquire; raise OSError if its file cannot be made, which filelock takes for a held lock."""
    if not path.exists():
        path.touch()
    return FileLock(path, thread_local=False)


def _write_pid(path: Path) -> None:
    """Write the process id into a lock's file, for error messages only; a full disk is no error."""
    with suppress(OSError):
        path.write_text(str(os.getpid()), encoding="ascii")


def holder(path: Path) -> str:
    """Return the process that holds a lock, for an error message."""
    try:
        number = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        number = ""
    if number == str(os.getpid()):
        return "another thread of this process"
    return f"process {number}" if number else "another process"
