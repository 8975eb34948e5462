"""The folder of a writer, which holds its segments until they are committed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from denslice.store import lock
from denslice.store.manifest import new_name
from denslice.store.snapshot import SESSION_LOCK, WRITING


@contextmanager
def session(folder: Path) -> Iterator[Path]:
    """Make a folder that no other writer removes while this process is alive, and remove it in the end."""
    part = folder / WRITING
    part.mkdir(exist_ok=True)
    with ExitStack() as held:
        name = _locked_name(part, held)
        try:
            (part / name).mkdir()
            yield part / name
        finally:
            shutil.rmtree(part / name, ignore_errors=True)
            with suppress(OSError):  # the commit may be made already, and the next writer removes the file
                _lock_path(part, name).unlink()


def _locked_name(part: Path, held: ExitStack) -> str:
    """Return a new name whose lock is held.

    If another writer sweeps the folder just before the lock is acquired, it removes the lock's file: then the next
    name is tried.
    """
    while True:
        name = new_name()
        if held.enter_context(lock.alive(_lock_path(part, name))) and _lock_path(part, name).exists():
            return name


def _lock_path(part: Path, name: str) -> Path:
    return part / f"{name}{SESSION_LOCK}"
