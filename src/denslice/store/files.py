"""Files that survive a crash: they are written whole and fsynced, and checked when they are read.

An error says that an index is damaged only if a checksum, a size or the format proves it. If the system refuses a
file handle, a permission or memory, the error says so.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from tokenize import TokenError  # numpy lets it through from a damaged header

import numpy as np

from denslice.errors import IndexFormatError, UnavailableError
from denslice.vectors import Array

READ_BUFFER = 1 << 20
NEW = ".new"  # suffix of a file that is to replace another
# numpy lets Python parse the header, and CPython 3.11 counts the depth of its parser over all threads: two threads
# that parse at the same time can end in a SystemError.
_reading_header = Lock()


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file's entry in the manifest: its size, and the SHA-256 of its contents or of a container's header."""

    bytes: int
    sha256: str


def damaged(path: Path, found: str) -> IndexFormatError:
    """Return the error for a file that differs from what was written."""
    return IndexFormatError(f"{path}: {found}; the index is damaged")


def cannot_read(path: Path, error: OSError) -> IndexFormatError | UnavailableError:
    """Return the error for a file of an index that the system cannot read."""
    if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return damaged(path, "is missing")
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return UnavailableError(f"{path}: no file handle is free; close some files, or allow more with `ulimit -n`")
    return UnavailableError(f"{path}: cannot be read ({error.strerror or error})")


def save_array(path: Path, array: Array) -> None:
    """Write a .npy file and fsync it."""
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())


def save_arrays(folder: Path, arrays: Mapping[str, Array]) -> None:
    """Write each array as `NAME.npy` in the folder."""
    for name, array in arrays.items():
        save_array(folder / f"{name}.npy", array)


def load_array(path: Path) -> Array:
    """Return the array of a .npy file, memory-mapped read-only."""
    try:
        with _reading_header:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        whole = isinstance(mapped, np.memmap) and mapped.offset + mapped.nbytes == path.stat().st_size
    except OSError as error:
        raise cannot_read(path, error) from error
    except (ValueError, EOFError, SyntaxError, TokenError, OverflowError, TypeError) as error:
        raise damaged(path, f"cannot be read as an array ({error})") from error
    if not whole:
        raise damaged(path, "its header does not fit its size")
    return np.asarray(mapped)


def seal(path: Path) -> StoredFile:
    """Fsync a finished file and return its size and SHA-256."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return StoredFile(path.stat().st_size, sha256_of(path))


def sha256_of(path: Path) -> str:
    """Return the file's SHA-256, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file atomically: after a crash either the old file or the new one is there, complete."""
    new = path.with_name(path.name + NEW)
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Fsync a folder, so that new names in it survive a crash."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
