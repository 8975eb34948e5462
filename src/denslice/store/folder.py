"""An open folder: what is read through its handle stays the same folder's, whatever is renamed meanwhile."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from denslice.errors import IndexFormatError, InputError
from denslice.store.files import READ_BUFFER, cannot_read


class Folder:
    """A handle on a folder, closed when nobody holds on to it."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()  # a later change of the working directory does not matter
        try:
            self.handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            raise InputError(f"{path}: no such index") from None
        except NotADirectoryError:
            raise IndexFormatError(f"{path}: not an index, which is a folder") from None
        except OSError as error:
            raise cannot_read(path, error) from error
        weakref.finalize(self, os.close, self.handle)

    def open(self, name: str) -> int:
        """Return a file of this folder, or of one within it, opened for reading."""
        try:
            return os.open(name, os.O_RDONLY, dir_fd=self.handle)
        except OSError as error:
            raise cannot_read(self.path / name, error) from error

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        handle = self.open(name)
        try:
            with os.fdopen(handle, "rb", buffering=READ_BUFFER) as file:
                return file.read()
        except OSError as error:
            raise cannot_read(self.path / name, error) from error

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Folder):
            return NotImplemented
        return self.path == other.path and os.path.samestat(os.fstat(self.handle), os.fstat(other.handle))

    def __hash__(self) -> int:
        return hash(self.path)
