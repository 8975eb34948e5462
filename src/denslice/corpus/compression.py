"""Compressed files: the bytes that .gz, .bz2 and .zst files hold, and the extension below that of the compression."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from denslice.errors import MissingExtraError

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionObj, ZstdDecompressor

ZST_PIECE = 1 << 10  # bytes to decompress at once; they become 32 MB at most


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


def _open_zst(path: Path) -> IO[bytes]:
    try:
        from zstandard import ZstdDecompressor
    except ImportError:
        raise MissingExtraError(f"{path}: reading .zst", "files") from None
    return io.BufferedReader(ZstdStream(path, ZstdDecompressor()))


class ZstdStream(io.RawIOBase):
    """What a .zst file holds, in all of its frames.

    zstandard's own stream has no lines, and ends without an error where a file is cut.
    """

    def __init__(self, path: Path, decompressor: ZstdDecompressor) -> None:
        self._file = path.open("rb")
        self._decompressor = decompressor
        self._frame: ZstdDecompressionObj | None = None
        self._compressed = b""
        self._decompressed = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer and return how many bytes it got, 0 at the end; raise EOFError if a frame has no end."""
        while not self._decompressed and self._decompress_piece():
            pass
        part = self._decompressed[: len(buffer)]
        self._decompressed = self._decompressed[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)

    def _decompress_piece(self) -> bool:
        """Decompress a piece of the file and return True, or False at its end."""
        piece = self._compressed or self._file.read(ZST_PIECE)
        if not piece:
            if self._frame:
                raise EOFError("the file ends within a frame")
            return False
        self._frame = self._frame or self._decompressor.decompressobj()
        self._decompressed, self._compressed = memoryview(self._frame.decompress(piece)), b""
        if self._frame.eof:
            self._compressed, self._frame = self._frame.unused_data, None
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


COMPRESSIONS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".zst": _open_zst}
