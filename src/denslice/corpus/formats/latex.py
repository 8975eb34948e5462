"""LaTeX: the text is the source, with its title, author and date as metadata. Passages are cut at its sections."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from unicodedata import normalize

from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.stated_fields import stated
from denslice.records import Doc

LATEX_ENDINGS = (".tex", ".ltx")
TITLE_PAGE_WITHIN = 50_000  # characters; the preamble comes before it
LONGEST_ARGUMENT = 2_000  # characters
_stated = re.compile(r"^[ \t]*\\(title|author|date)[ \t]*(?:\[[^\]\n]*\])?[ \t]*(?=\{)", re.MULTILINE)
_comment = re.compile(r"(?<!\\)%.*\n?")
_note = re.compile(r"\\(?:thanks|footnote|inst|affil|email|href)\b[ \t]*\{[^{}]*\}")
_accent = re.compile(r"\\([\"'`^~])(?:\{(\w)\}|(\w))")
_ACCENTS = {'"': "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303"}
_command = re.compile(r"\\\\(?:\[[^\]]*\])?|\\[A-Za-z]+\*?|[{}~]")
_escaped = re.compile(r"\\([&%$#_])")


def read_latex(file: SourceFile) -> Iterator[Doc]:
    """Yield the file as one document. Nothing is run, and nothing that it includes is opened."""
    text = file.text()
    title, meta = stated(_title_page(text[:TITLE_PAGE_WITHIN]))
    yield Doc("", text, title, meta)


def _title_page(text: str) -> dict[str, Any]:
    """Return the title, the authors and the date that a text gives as arguments of these commands."""
    fields: dict[str, Any] = {}
    for found in _stated.finditer(text):
        argument = _comment.sub("", _argument(text, found.end()))
        parts = [_plain(part) for part in re.split(r"\\and\b", _note.sub(" ", argument), flags=re.IGNORECASE)]
        fields.setdefault(found[1], parts if found[1] == "author" else parts[0])
    return fields


def _argument(text: str, start: int) -> str:
    """Return what is between the brace at `start` and the one that closes it, or nothing if it is never closed."""
    depth = 0
    for at in range(start, min(len(text), start + LONGEST_ARGUMENT)):
        is_escaped = text[at - 1] == "\\"
        depth += 0 if is_escaped else (text[at] == "{") - (text[at] == "}")
        if not depth:
            return text[start + 1 : at]
    return ""


def _plain(tex: str) -> str:
    """Return a line of LaTeX without commands and braces, with its accents as characters."""
    accented = _accent.sub(lambda found: normalize("NFC", (found[2] or found[3]) + _ACCENTS[found[1]]), tex)
    return " ".join(_escaped.sub(r"\1", _command.sub(" ", accented)).split())
