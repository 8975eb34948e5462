"""Plain text and logs."""

from __future__ import annotations

from collections.abc import Iterator

from denslice.corpus.formats.source_file import SourceFile
from denslice.records import Doc


def read_plain_text(file: SourceFile) -> Iterator[Doc]:
    """Yield the file as one document."""
    yield Doc("", file.text())
