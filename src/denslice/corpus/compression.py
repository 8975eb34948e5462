"""Compressed files: the bytes that .gz, .bz2 and .zst files hold, and the extension below that of the compression."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

from denslice.errors import MissingExtraError


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file and return what it holds as a stream of bytes, decompressed if its name says that it is packed."""
    opener = COMPRESSIONS.get(path.suffix.lower())
    return cast(IO[bytes], opener(path)) if opener else path.open("rb")


def ending(path: Path) -> str:
    """Return the extension that names the format, in lower case: `.jsonl` of `Docs.JSONL.gz`."""
    return (path.with_suffix("") if is_compressed(path) else path).suffix.lower()


def is_compressed(path: Path) -> bool:
    """Return whether the name ends in the extension of a compression."""
    return path.suffix.lower() in COMPRESSIONS


def is_damage(error: Exception) -> bool:
    """Return whether an error of reading says that the file is damaged, or not compressed as its name says."""
    if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile):
        return True
    return type(error).__name__ == "ZstdError" or str(error) == "Invalid data stream"  # the latter of bz2


def _open_zst(path: Path) -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError(f"{path}: reading .zst", "files") from None
    return zstandard.open(path, "rb")


COMPRESSIONS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".zst": _open_zst}
