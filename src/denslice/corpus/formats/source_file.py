"""A file as the readers of formats see it: its bytes, text or lines within limits, and the problems found in it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

from denslice.corpus.compression import ending, is_compressed, open_bytes
from denslice.corpus.lines import reading
from denslice.corpus.text_encodings import SAMPLE, decoded, encoding_of, is_wide
from denslice.errors import InputError, UnreadableError

LARGEST_FILE = 256 << 20  # bytes, decompressed, of a file that is read whole
LARGEST_LINE = 64 << 20  # bytes
CHUNK = 1 << 20  # bytes that are read at a time


class Problem(NamedTuple):
    """What could not be read: a whole file, or a part of it. `kind` is a noun that a summary counts."""

    place: str  # a file, or a file and a line
    kind: str  # "binary", "scanned page", "bad line"
    problem: str


@dataclass
class SourceFile:
    """A file to read. `name` is how ids name it; `text_field` is the column that holds the text.

    Of a file of lines, `start` and `end` may be the byte offsets of a part, at which lines begin.
    """

    path: Path
    name: str
    text_field: str | None = None
    strict: bool = False
    place: str = ""  # how problems name it, if not as ids do
    start: int = 0
    end: int | None = None
    line: int | None = None  # of the record that was read last
    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @property
    def ending(self) -> str:
        """The extension that names the format, in lower case and without that of a compression."""
        return ending(self.path)

    def open(self) -> IO[bytes]:
        """Return what the file holds as a stream, decompressed. The caller closes it."""
        with reading(self.path):
            return open_bytes(self.path)

    def seekable(self) -> IO[bytes]:
        """Return what the file holds as a stream that can seek; a compressed file is decompressed into memory."""
        return io.BytesIO(self.data()) if is_compressed(self.path) else self.open()

    def data(self, is_text: bool = False) -> bytes:
        """Return what the file holds; raise UnreadableError if it is too large, or should be text and is not."""
        with reading(self.path), self.open() as file:
            parts = [file.read(SAMPLE)]
            if is_text and len(parts[0]) == SAMPLE:
                encoding_of(parts[0])
            left = LARGEST_FILE + 1 - len(parts[0])
            while left > 0 and len(parts[0]) and (part := file.read(min(left, CHUNK))):
                parts.append(part)
                left -= len(part)
        if left <= 0:
            raise UnreadableError("large file", f"larger than {LARGEST_FILE >> 20} MB, decompressed")
        return b"".join(parts)

    def text(self) -> str:
        """Return the whole file as text, in whatever encoding it is, with LF line ends."""
        return decoded(self.data(is_text=True))

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number, from 1, and the text of each line that is not blank. The file is not read whole."""
        with reading(self.path), self.open() as file:
            encoding = encoding_of(file.read(SAMPLE))
        if is_wide(encoding):
            yield from ((n, line) for n, line in enumerate(self.text().split("\n"), 1) if line.strip())
            return
        with reading(self.path), self.open() as file:
            at = file.seek(self.start) if self.start else 0
            for number, raw in enumerate(iter(lambda: file.readline(LARGEST_LINE + 1), b""), 1):
                if self.end is not None and at >= self.end:
                    return
                at += len(raw)
                if len(raw) > LARGEST_LINE:
                    raise UnreadableError("large file", f"line {number} is larger than {LARGEST_LINE >> 20} MB")
                line = self._decoded_line(number, raw, encoding)
                if line.strip():
                    yield number, line

    def _decoded_line(self, number: int, raw: bytes, encoding: str) -> str:
        """Return a line as text, in its own encoding if it is not in that of the file's beginning."""
        try:
            line = raw.decode(encoding if number == 1 and not self.start else encoding.removesuffix("-sig"))
        except UnicodeDecodeError:
            line = decoded(raw)
        return line.removesuffix("\n").removesuffix("\r")

    def skip(self, kind: str, problem: str, line: int | None = None) -> None:
        """Record that a part of the file is left out; raise InputError instead if reading is strict."""
        place = (self.place or self.name) + ("" if line is None else f":{line}")
        if self.strict:
            raise InputError(f"{place}: {problem}")
        self.problems.append(Problem(place, kind, problem))

    def remark(self, told: str) -> None:
        """Record what a person should know about how the file was read, such as a field that was guessed."""
        self.remarks.append(f"{self.place or self.name}: {told}")
