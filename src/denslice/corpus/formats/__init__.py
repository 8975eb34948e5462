"""The formats of files. A new format is one file here that yields documents, and a line in FORMATS."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from denslice.corpus.formats.plain_text import read_plain_text
from denslice.corpus.formats.source_file import SourceFile
from denslice.records import Doc


class Format(NamedTuple):
    """How a file becomes documents. They have empty ids, unless the file itself has an id for each.

    A reader returns the title that the file gives itself, if any, and what it knows of itself as metadata: `author`,
    `date` (ISO 8601), `language`. The caller adds the id, the path, the time of modification, and the file's name as
    the title of a document without one.
    """

    read: Callable[[SourceFile], Iterable[Doc]]
    many: bool = False  # documents; without ids they are numbered


FORMATS: dict[str, Format] = {
    ".txt": Format(read_plain_text),
}
