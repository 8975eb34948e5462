"""Containers: a file of named arrays, aligned for memory mapping, and a JSON header with the checksum of each.

Readers ignore sections that they do not know, so later versions may add some. docs/index-format.md gives the bytes.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from denslice.errors import IndexFormatError
from denslice.store.files import StoredFile, cannot_read, damaged
from denslice.store.folder import Folder
from denslice.vectors import Array

ENDING = ".arrays"
MAGIC = b"denslice"
START = struct.Struct("<8sQ")  # the magic and the length of the JSON that follows
ALIGNMENT = 64  # bytes: a cache line, and more than any vector instruction needs
LONGEST_HEADER = 1 << 24
CHANGED_HEADER = "its header differs from what was written"
UNTRACKED = {"trackfd": False} if sys.version_info >= (3, 13) else {}  # the mapping then keeps no file open


@dataclass(frozen=True, slots=True)
class ArraySection:
    """The entry of an array in the header."""

    dtype: str
    shape: tuple[int, ...]
    at: int  # offset from the end of the header
    bytes: int  # padding included
    sha256: str  # of these bytes


def write_container(path: Path, arrays: Mapping[str, Array], about: Mapping[str, Any] | None = None) -> StoredFile:
    """Write arrays to one file, fsync it, and return its size and the SHA-256 of its header.

    The header holds the checksums of the arrays, so the checksum of the header covers the whole file.
    """
    sections, at = {}, 0
    laid_out = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in laid_out.items():
        size = _aligned(array.nbytes)
        digest = hashlib.sha256(array.data if array.size else b"")
        digest.update(bytes(size - array.nbytes))
        place = {"dtype": array.dtype.str, "shape": list(array.shape), "at": at, "bytes": size}
        sections[name] = {**place, "sha256": digest.hexdigest()}
        at += size
    header = _header({"about": dict(about or {}), "sections": sections})
    with path.open("xb") as file:
        file.write(header)
        for array in laid_out.values():
            file.write(array.data if array.size else b"")
            file.write(bytes(_aligned(array.nbytes) - array.nbytes))
        file.flush()
        os.fsync(file.fileno())
    return StoredFile(len(header) + at, hashlib.sha256(header).hexdigest())


class Container:
    """A container open for reading, memory-mapped or loaded. Its arrays keep it alive."""

    def __init__(self, path: Path, memory: mmap.mmap | bytes, stored: StoredFile) -> None:
        self.path, self.stored = path, stored
        self._check_size(memory)
        self._memory = memory
        self._source: tuple[Folder, str] | None = None  # the file that was loaded
        self._first, self.about, self.sections = _parsed(path, memory, stored.sha256)

    @classmethod
    def mapped(cls, folder: Folder, name: str, stored: StoredFile) -> Container:
        """Return the container of this name, memory-mapped."""
        path = folder.path / name
        handle = folder.open(name)
        try:
            if not os.fstat(handle).st_size:
                raise damaged(path, "is empty")
            return cls(path, mmap.mmap(handle, 0, access=mmap.ACCESS_READ, **UNTRACKED), stored)
        except OSError as error:
            raise cannot_read(path, error) from error
        finally:
            os.close(handle)

    @classmethod
    def loaded(cls, folder: Folder, name: str, stored: StoredFile) -> Container:
        """Return the container of this name, read into memory with its checksums verified: for small files."""
        container = cls(folder.path / name, folder.read(name), stored)
        container._check(container._memory)
        container._source = folder, name
        return container

    def __contains__(self, name: str) -> bool:
        return name in self.sections

    def array(self, name: str, dtypes: str, length: int | None = None, dimensions: int = 1) -> Array:
        """Return an array; raise IndexFormatError unless it has one of these types and this length."""
        if name not in self.sections:
            raise damaged(self.path, f"has no section {name}")
        section = self.sections[name]
        dtype = np.dtype(section.dtype)
        fits = dtype.name in dtypes.split() and len(section.shape) == dimensions
        if not fits or (length is not None and section.shape[0] != length):
            expected = f"a {dimensions}-dimensional array of {' or '.join(dtypes.split())}"
            expected += "" if length is None else f" with {length:,} rows"
            raise damaged(self.path, f"its section {name} holds {dtype} {section.shape}, expected {expected}")
        count = int(np.prod(section.shape))
        return np.frombuffer(self._memory, dtype, count, self._first + section.at).reshape(section.shape)

    def verify(self) -> None:
        """Read the file again in full; raise IndexFormatError naming the first section that has changed."""
        memory = self._on_disk()
        self._check_size(memory)
        if hashlib.sha256(memory[: self._first]).hexdigest() != self.stored.sha256:
            raise damaged(self.path, CHANGED_HEADER)
        self._check(memory)

    def _on_disk(self) -> mmap.mmap | bytes:
        """Return the bytes of the file as it is now, or those loaded if a later commit has removed it."""
        if self._source is None:
            return self._memory
        folder, name = self._source
        try:
            return folder.read(name)
        except IndexFormatError:
            return self._memory

    def _check_size(self, memory: mmap.mmap | bytes) -> None:
        if len(memory) != self.stored.bytes:
            raise damaged(self.path, f"has {len(memory):,} bytes, expected {self.stored.bytes:,}")

    def _check(self, memory: mmap.mmap | bytes) -> None:
        view = memoryview(memory)
        for name, section in self.sections.items():
            start = self._first + section.at
            if hashlib.sha256(view[start : start + section.bytes]).hexdigest() != section.sha256:
                raise damaged(self.path, f"its section {name} differs from what was written")


def _header(fields: Mapping[str, Any]) -> bytes:
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (_aligned(START.size + len(text)) - START.size - len(text))
    return START.pack(MAGIC, len(text)) + text


def _parsed(path: Path, memory: mmap.mmap | bytes, sha256: str) -> tuple[int, dict[str, Any], dict[str, ArraySection]]:
    """Return the offset of the first array, the header's `about` and its sections."""
    if len(memory) < START.size:
        raise damaged(path, "is too short to be a container")
    magic, length = START.unpack_from(memory)
    first = START.size + length
    if magic != MAGIC or length > min(LONGEST_HEADER, len(memory) - START.size):
        raise damaged(path, "is not a container of arrays")
    if hashlib.sha256(memory[:first]).hexdigest() != sha256:
        raise damaged(path, CHANGED_HEADER)
    header = json.loads(memory[START.size : first])
    sections = {name: _section(one) for name, one in header["sections"].items()}
    if any(one.at + one.bytes > len(memory) - first for one in sections.values()):
        raise damaged(path, "its sections are longer than the file")
    return first, header["about"], sections


def _section(entry: Mapping[str, Any]) -> ArraySection:
    known = {one.name: entry[one.name] for one in fields(ArraySection)}  # a later version may add others
    return ArraySection(**{**known, "shape": tuple(entry["shape"])})


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
