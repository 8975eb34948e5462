"""One writer at a time: locks on files, by filelock, which the system lets go when their process dies.

Whoever waits for the write lock holds a second one, the turnstile: a process that writes again and again has to pass
it too, so it cannot keep the others waiting for ever.
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
POLL_SECONDS = 0.005  # seconds between tries
WAIT_SECONDS = (
    10.0  # seconds that writers wait for one another, if not told otherwise: the lock is held for commits alone
)


@contextmanager
def writing(folder: Path, wait: float = WAIT_SECONDS) -> Iterator[None]:
    """Hold the folder's write lock; LockedError if someone else has it for longer than `wait` seconds."""
    deadline = time.monotonic() + wait
    try:
        held = _lock(folder / LOCK_FILE)
        with _lock(folder / TURNSTILE_FILE).acquire(timeout=wait, poll_interval=POLL_SECONDS):
            held.acquire(timeout=max(0.0, deadline - time.monotonic()), poll_interval=POLL_SECONDS)
    except Timeout:
        raise LockedError(f"{folder}: {holder(folder / LOCK_FILE)} is writing to this index; try again later") from None
    except OSError as error:
        raise InputError(f"{folder}: cannot be written to ({error.strerror or error})") from error
    try:
        _write_pid(folder / LOCK_FILE)
        yield
    finally:
        held.release()


@contextmanager
def alive(path: Path) -> Iterator[bool]:
    """Hold a lock that shows others that this process is alive; False, and nothing is held, if another has it."""
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
    """Return a lock to acquire; OSError where its file cannot be made, which filelock takes for a lock that is held."""
    if not path.exists():
        path.touch()
    return FileLock(path, thread_local=False)


def _write_pid(path: Path) -> None:
    """Say in a lock's file who holds it. That is for messages alone, and a full disk has no room for it."""
    with suppress(OSError):
        path.write_text(str(os.getpid()), encoding="ascii")


def holder(path: Path) -> str:
    """Return who holds a lock, for people to read."""
    try:
        number = path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        number = ""
    if number == str(os.getpid()):
        return "another thread of this process"
    return f"process {number}" if number else "another process"
