"""A writer's own corner of an index folder, in which segments lie until they are committed."""

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
    """Make a folder that no other writer sweeps away while this process is alive; it is removed in the end."""
    part = folder / WRITING
    part.mkdir(exist_ok=True)
    with ExitStack() as held:
        name = _locked_name(part, held)
        try:
            (part / name).mkdir()
            yield part / name
        finally:
            shutil.rmtree(part / name, ignore_errors=True)
            with suppress(OSError):  # the commit may stand already, and the next writer sweeps
                _lock_path(part, name).unlink()


def _locked_name(part: Path, held: ExitStack) -> str:
    """Return a new name whose lock is held.

    A sweep may find a lock in the moment before it is held, and take it and its name for a dead writer's: then another
    name is tried.
    """
    while True:
        name = new_name()
        if held.enter_context(lock.alive(_lock_path(part, name))) and _lock_path(part, name).exists():
            return name


def _lock_path(part: Path, name: str) -> Path:
    return part / f"{name}{SESSION_LOCK}"
