"""The documents of one file, with ids, titles and what the file knows about itself as metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from denslice.corpus.compression import COMPRESSIONS, ending
from denslice.corpus.formats import FORMATS, PLAIN_TEXT, Format
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.lines import reading
from denslice.records import Doc

_words = re.compile(r"\w+")


def file_docs(file: SourceFile) -> Iterator[Doc]:
    """Yield the documents of a file. One without an id of its own has the file's name as id, or `NAME#7` of several.

    Raise UnreadableError if the file holds no text, and InputError if it cannot be read at all.
    """
    found = format_of(file.path)
    if not found.many:
        yield from (_whole(file, doc) for doc in found.read(file))
        return
    for number, doc in enumerate(found.read(file), 1):
        if doc.id == file.name:  # JSON that is no table
            yield _whole(file, doc)
        else:
            yield replace(doc, id=doc.id or f"{file.name}#{number}", meta={**_path(file), **doc.meta})


def _path(file: SourceFile) -> dict[str, Any]:
    """Return the path as metadata of a record; none if the user named the table, whose records are complete."""
    return {} if file.place else {"path": file.name}


def format_of(path: Path) -> Format:
    """Return the format of a file by its extension; anything else is read as plain text, unless it is binary."""
    return FORMATS.get(ending(path), PLAIN_TEXT)


def _whole(file: SourceFile, doc: Doc) -> Doc:
    """Return the one document of a file with its id, title and metadata."""
    with reading(file.path):
        modified = datetime.fromtimestamp(int(file.path.stat().st_mtime), UTC)
    own: dict[str, Any] = {"path": file.name, "modified": modified.strftime("%Y-%m-%dT%H:%M:%SZ")}
    return replace(doc, id=file.name, title=titled(doc.title, file.name), meta={**doc.meta, **own})


def titled(title: str, name: str) -> str:
    """Return the title of a document with the name of its file, unless the title has all words of that name."""
    path = PurePosixPath(name)
    stem = (PurePosixPath(path.stem) if path.suffix.lower() in COMPRESSIONS else path).stem.replace("_", " ")
    title = " ".join(title.split())
    if not title:
        return stem
    missing = set(_words.findall(stem.casefold())) - set(_words.findall(title.casefold()))
    return f"{title} ({path.name})" if missing else title
