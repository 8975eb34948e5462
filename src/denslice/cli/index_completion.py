"""Shell completion of the folders of indexes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from denslice.cluster.cluster_folder import is_cluster
from denslice.store.manifest import has_manifest

DEEPEST = 3  # folders below the one that is typed; an index further down is found once more of its path is typed
MOST_FOLDERS = 2_000  # that are looked at: a shell waits for the answer


def index_folders(incomplete: str) -> list[str]:
    """Return the indexes and clusters whose paths begin with what is typed."""
    typed, _, beginning = incomplete.rpartition("/")
    start = f"{typed}/" if typed or incomplete.startswith("/") else ""
    looked_at = islice(_folders_below(start, beginning, DEEPEST), MOST_FOLDERS)
    return sorted(path for path in looked_at if _is_index(path))


def _folders_below(start: str, beginning: str, depth: int) -> Iterator[str]:
    """Yield the folders whose names have this beginning and those in them, but for hidden ones and parts of indexes."""
    names = _folder_names(start or ".", beginning)
    yield from (start + name for name in names)
    for name in names if depth > 1 else ():
        if not _is_index(start + name):
            yield from _folders_below(f"{start}{name}/", "", depth - 1)


def _folder_names(folder: str, beginning: str) -> list[str]:
    is_shown = beginning.startswith(".")
    try:
        with os.scandir(Path(folder).expanduser()) as entries:
            found = [entry.name for entry in entries if entry.name.startswith(beginning) and entry.is_dir()]
    except OSError:
        return []
    return sorted(name for name in found if is_shown or not name.startswith("."))


def _is_index(path: str) -> bool:
    folder = Path(path).expanduser()
    try:
        return has_manifest(folder) or is_cluster(folder)
    except OSError:
        return False
