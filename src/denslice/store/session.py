"""A writer's own corner of an index folder, in which segments lie until they are committed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from denslice.store import lock
from denslice.store.manifest import new_name
from denslice.store.snapshot import SESSION_LOCK, WRITING


@contextmanager
def session(folder: Path) -> Iterator[Path]:
    """Make a folder that no other writer sweeps away while this process is alive; it is removed in the end."""
    part, name = folder / WRITING, new_name()
    part.mkdir(exist_ok=True)
    with lock.alive(part / f"{name}{SESSION_LOCK}"):
        try:
            (part / name).mkdir()
            yield part / name
        finally:
            shutil.rmtree(part / name, ignore_errors=True)
            (part / f"{name}{SESSION_LOCK}").unlink(missing_ok=True)
