"""Backups: a consistent copy of an index, made while other processes go on writing to it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from denslice.errors import InputError
from denslice.store import lock
from denslice.store import manifest as manifests
from denslice.store.files import sync_folder
from denslice.store.folder import Folder
from denslice.store.manifest import Manifest
from denslice.store.segment import SEGMENTS
from denslice.store.snapshot import SUBFOLDERS, Snapshot, file_names

COPY_ATTEMPTS = 3  # without the write lock, before one with it


def back_up(index: Path, to: Path) -> Manifest:
    """Copy the last commit of an index to a new folder and return its manifest; an error leaves no folder."""
    try:
        to.mkdir(parents=True, exist_ok=True)
        _check_empty(to)
    except OSError as error:
        raise InputError(f"{to}: a backup cannot be written here ({error.strerror})") from error
    with lock.writing(to):  # two backups to one folder must not remove each other's files
        _check_empty(to)
        try:
            return _copy_last_commit(index, to)
        except BaseException:
            shutil.rmtree(to, ignore_errors=True)
            raise


def _check_empty(to: Path) -> None:
    if {path.name for path in to.iterdir()} - {lock.LOCK_FILE, lock.TURNSTILE_FILE}:
        raise InputError(f"{to}: the folder is not empty; choose a new one")


def _copy_last_commit(index: Path, to: Path) -> Manifest:
    for part in SUBFOLDERS:
        (to / part).mkdir()
    for _ in range(COPY_ATTEMPTS):
        try:
            return _copy(index, to, manifests.read(Folder(index)))
        except FileNotFoundError:  # a commit has removed a file meanwhile
            continue
    with lock.writing(index):
        return _copy(index, to, manifests.read(Folder(index)))


def _copy(index: Path, to: Path, manifest: Manifest) -> Manifest:
    """Copy every file of a manifest that the folder lacks, then write the manifest."""
    for name in file_names(manifest):
        if not (to / name).exists():
            (to / name).parent.mkdir(exist_ok=True)
            link(index / name, to / name)
    _remove_others(to, manifest)
    for folder in (*(to / part for part in SUBFOLDERS), *(to / SEGMENTS).iterdir()):
        sync_folder(folder)
    manifests.write(to, manifest)
    Snapshot(to)
    return manifest


def link(source: Path, to: Path) -> None:
    """Hard-link a file that never changes, or copy it if the file system has no hard links."""
    try:
        os.link(source, to)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, to)
        with to.open("rb") as file:
            os.fsync(file.fileno())


def _remove_others(to: Path, manifest: Manifest) -> None:
    """Remove the files that an earlier attempt has copied and this manifest does not name."""
    named = {to / name for name in file_names(manifest)}
    for path in [path for part in SUBFOLDERS for path in (to / part).rglob("*") if path.is_file()]:
        if path not in named:
            path.unlink()
    for folder in (to / SEGMENTS).iterdir():
        if not any(folder.iterdir()):
            folder.rmdir()
