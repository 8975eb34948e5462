"""An open folder: files are opened through its handle, so that a rename cannot redirect a reader."""

from __future__ import annotations

import os
import weakref
from pathlib import Path

from denslice.errors import IndexFormatError, InputError
from denslice.store.files import READ_BUFFER, cannot_read


class Folder:
    """A handle of a folder, closed when the object is garbage-collected."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()  # so that it stays valid if the working directory changes
        try:
            self.handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            raise InputError(f"{path}: no such index") from None
        except NotADirectoryError:
            raise IndexFormatError(f"{path}: is a file and not an index, which is a folder") from None
        except OSError as error:
            raise cannot_read(path, error) from error
        weakref.finalize(self, os.close, self.handle)

    def open(self, name: str) -> int:
        """Open a file of this folder for reading and return its handle."""
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
