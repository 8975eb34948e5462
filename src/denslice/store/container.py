"""A container: one file of named arrays, aligned for mapping, each with a checksum, and a JSON header that lists them.

Sections that a reader does not know are left alone, so later versions may add some. docs/index-format.md has the bytes.
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
ALIGNMENT = 64  # bytes: a line of cache, and more than any vector instruction asks for
LONGEST_HEADER = 1 << 24
CHANGED_HEADER = "its header differs from what was written"
UNTRACKED = {"trackfd": False} if sys.version_info >= (3, 13) else {}  # a mapping then needs no open file


@dataclass(frozen=True, slots=True)
class ArraySection:
    """Where an array lies, counted from the end of the header, and the SHA-256 of its bytes and the padding behind."""

    dtype: str
    shape: tuple[int, ...]
    at: int
    bytes: int
    sha256: str


def write_container(path: Path, arrays: Mapping[str, Array], about: Mapping[str, Any] | None = None) -> StoredFile:
    """Write arrays as one file, force it to disk, and return its size and the SHA-256 of its header.

    The header holds the checksums of the arrays, so its own stands for the whole file.
    """
    sections, at = {}, 0
    laid_out = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    for name, array in laid_out.items():
        size = _aligned(array.nbytes)
        digest = hashlib.sha256(array.data if array.size else b"")
        digest.update(bytes(size - array.nbytes))
        told = {"dtype": array.dtype.str, "shape": list(array.shape), "at": at, "bytes": size}
        sections[name] = {**told, "sha256": digest.hexdigest()}
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
    """A container that was written, mapped or held in memory. Its arrays keep it alive."""

    def __init__(self, path: Path, memory: mmap.mmap | bytes, stored: StoredFile) -> None:
        self.path, self.stored = path, stored
        self._check_size(memory)
        self._memory = memory
        self._source: tuple[Folder, str] | None = None  # the file, where memory holds a copy of it
        self._first, self.about, self.sections = _parsed(path, memory, stored.sha256)

    @classmethod
    def mapped(cls, folder: Folder, name: str, stored: StoredFile) -> Container:
        """Return the container of this name in an open folder, mapped: memory is the system's to give."""
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
        """Return the container of this name in an open folder, read into memory and checked: for small ones."""
        container = cls(folder.path / name, folder.read(name), stored)
        container._check(container._memory)
        container._source = folder, name
        return container

    def __contains__(self, name: str) -> bool:
        return name in self.sections

    def array(self, name: str, dtypes: str, length: int | None = None, dimensions: int = 1) -> Array:
        """Return an array, which must have one of these types and, if given, this length."""
        if name not in self.sections:
            raise damaged(self.path, f"has no section {name}")
        section = self.sections[name]
        dtype = np.dtype(section.dtype)
        fits = dtype.name in dtypes.split() and len(section.shape) == dimensions
        if not fits or (length is not None and section.shape[0] != length):
            raise damaged(self.path, f"its section {name} holds {dtype} {section.shape}, which does not belong there")
        count = int(np.prod(section.shape))
        return np.frombuffer(self._memory, dtype, count, self._first + section.at).reshape(section.shape)

    def verify(self) -> None:
        """Read everything again; IndexFormatError names the first section that is not what was written."""
        memory = self._on_disk()
        self._check_size(memory)
        if hashlib.sha256(memory[: self._first]).hexdigest() != self.stored.sha256:
            raise damaged(self.path, CHANGED_HEADER)
        self._check(memory)

    def _on_disk(self) -> mmap.mmap | bytes:
        """The bytes that the file has now; those that are held, where a later commit has removed the file."""
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


def _header(told: Mapping[str, Any]) -> bytes:
    text = json.dumps(told, separators=(",", ":"), sort_keys=True).encode()
    text += b" " * (_aligned(START.size + len(text)) - START.size - len(text))
    return START.pack(MAGIC, len(text)) + text


def _parsed(path: Path, memory: mmap.mmap | bytes, sha256: str) -> tuple[int, dict[str, Any], dict[str, ArraySection]]:
    """Return where the arrays begin, what the header says about them, and the sections."""
    if len(memory) < START.size:
        raise damaged(path, "is too short to be a container")
    magic, length = START.unpack_from(memory)
    first = START.size + length
    if magic != MAGIC or length > min(LONGEST_HEADER, len(memory) - START.size):
        raise damaged(path, "is not a container of arrays")
    if hashlib.sha256(memory[:first]).hexdigest() != sha256:
        raise damaged(path, CHANGED_HEADER)
    told = json.loads(memory[START.size : first])
    sections = {name: _section(one) for name, one in told["sections"].items()}
    if any(one.at + one.bytes > len(memory) - first for one in sections.values()):
        raise IndexFormatError(f"{path}: its sections are longer than the file; the index is damaged")
    return first, told["about"], sections


def _section(told: Mapping[str, Any]) -> ArraySection:
    known = {one.name: told[one.name] for one in fields(ArraySection)}  # a later version may say more
    return ArraySection(**{**known, "shape": tuple(told["shape"])})


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
