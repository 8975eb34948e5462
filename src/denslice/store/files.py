"""Files that survive: written whole, hashed as they are written, forced to disk, and checked when read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from tokenize import TokenError  # numpy lets it through from a damaged header
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from denslice.errors import IndexFormatError

CHUNK = 1 << 20
NEW = ".new"  # ends the name of a file that is to take another's place
Array = npt.NDArray[Any]
# numpy has Python parse a header, and CPython 3.11 counts the depth of its parser over all threads: two of them at it
# at once can end in a SystemError.
_reading_header = Lock()


@dataclass(frozen=True, slots=True)
class StoredFile:
    """What the manifest remembers of a file."""

    bytes: int
    sha256: str


class _Hashing:
    """A file that hashes what is written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.digest = hashlib.sha256()
        self.bytes = 0

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        self.bytes += len(data)
        return self.file.write(data)


def save_array(path: Path, array: npt.NDArray[Any]) -> StoredFile:
    """Writes a plain .npy file and forces it to disk."""
    with path.open("wb") as file:
        hashing = _Hashing(file)
        np.lib.format.write_array(hashing, np.ascontiguousarray(array), allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return StoredFile(hashing.bytes, hashing.digest.hexdigest())


def save_arrays(folder: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, StoredFile]:
    """Writes each array as `NAME.npy` in the folder; what was stored, by file name."""
    return {f"{name}.npy": save_array(folder / f"{name}.npy", array) for name, array in arrays.items()}


def load_array(path: Path) -> npt.NDArray[Any]:
    """The array of a .npy file, mapped read-only, so that opening costs nothing and memory is the system's to give."""
    try:
        with _reading_header:
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        whole = isinstance(mapped, np.memmap) and mapped.offset + mapped.nbytes == path.stat().st_size
    except (OSError, ValueError, EOFError, SyntaxError, TokenError, OverflowError, TypeError) as error:
        raise IndexFormatError(f"{path}: cannot be read as an array ({error}); the index is damaged") from error
    if not whole:
        raise IndexFormatError(f"{path}: its header does not fit its size; the index is damaged")
    return np.asarray(mapped)


def seal(path: Path) -> StoredFile:
    """Forces a finished file to disk and hashes it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return StoredFile(path.stat().st_size, sha256_of(path))


def sha256_of(path: Path) -> str:
    """The file's SHA-256, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def check_sizes(folder: Path, files: Mapping[str, StoredFile]) -> None:
    """Raises IndexFormatError naming the first file that is missing or has another size than was stored."""
    for name, stored in files.items():
        path = folder / name
        try:
            size = path.stat().st_size
        except OSError as error:
            raise IndexFormatError(f"{path}: missing ({error.strerror}); the index is damaged") from None
        if size != stored.bytes:
            raise IndexFormatError(f"{path}: has {size:,} bytes, expected {stored.bytes:,}; the index is damaged")


def check_contents(folder: Path, files: Mapping[str, StoredFile]) -> None:
    """Raises IndexFormatError naming the first file whose contents are not what was stored."""
    check_sizes(folder, files)
    for name, stored in files.items():
        if sha256_of(folder / name) != stored.sha256:
            raise IndexFormatError(f"{folder / name}: contents differ from what was written; the index is damaged")


def replace_file(path: Path, data: bytes) -> None:
    """Puts a file in place in one step: after a crash the old one or the new one is there, whole."""
    new = path.with_name(path.name + NEW)
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Forces a folder's list of names to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
