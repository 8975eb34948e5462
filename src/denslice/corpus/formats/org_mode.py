"""Org files of Emacs, turned into Markdown: headings, source blocks and text; drawers and settings are dropped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from denslice.corpus.formats.fenced_code import fenced_code
from denslice.corpus.formats.markdown import first_title
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.stated_fields import stated
from denslice.records import Doc

_NAMES = {"filetags": "tags"}
_KNOWN = ("title", "author", "date", "language", "filetags", "description", "keywords", "email")
_CODE = ("src", "example", "export")  # blocks in which nothing is markup
_DROPPED_DRAWERS = ("properties", "logbook")
_heading = re.compile(r"(\*+)[ \t]+(\S.*)")
_setting = re.compile(r"[ \t]*#\+([\w-]+)(?:\[[^\]]*\])?:[ \t]*(.*)")
_block = re.compile(r"[ \t]*#\+(begin|end)_(\w+)(?:[ \t]+(\S+))?", re.IGNORECASE)
_drawer = re.compile(r"[ \t]*:([\w-]+):[ \t]*$")
_comment = re.compile(r"[ \t]*#(?:[ \t]|$)")
_escaped = re.compile(r"^([ \t]*),(?=,*(?:\*|#\+))", re.MULTILINE)
_state = re.compile(r"^(?:(?:TODO|NEXT|WAITING|STARTED|DONE|CANCELLED|CANCELED) )?(?:\[#\w\] ?)?")
_tags = re.compile(r"[ \t]+:[\w@#%:]+:$")


def read_org(file: SourceFile) -> Iterator[Doc]:
    """Yield the file as one document in Markdown, with its title, author, date, language and tags as metadata."""
    lines = file.text().split("\n")
    text = "\n".join(_Org(lines).markdown()).strip("\n")
    title, meta = stated(_settings(lines))
    named = title or _tags.sub("", _state.sub("", first_title(text)))
    yield Doc("", text, named, meta)


def _settings(lines: Sequence[str]) -> dict[str, Any]:
    """Return the settings that describe the file, by the names of metadata; a name may have several lines."""
    found: dict[str, list[str]] = {}
    for line in lines:
        setting = _setting.match(line)
        if setting and setting[1].lower() in _KNOWN and setting[2].strip():
            found.setdefault(setting[1].lower(), []).append(setting[2].strip())
    fields: dict[str, Any] = {name: " ".join(values) for name, values in found.items()}
    if "filetags" in found:
        fields["filetags"] = [tag for tag in re.split(r"[:\s]+", fields["filetags"]) if tag]
    if "author" in found:
        fields["author"] = found["author"]
    return {_NAMES.get(name, name): value for name, value in fields.items()}


class _Org:
    """The lines of an Org file. What is opened and never closed is text, so that nothing after it is lost."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.last_ends = {found[2].lower(): n for n, found in self._matches(_block) if found[1].lower() == "end"}
        self.drawer_ends = _drawer_ends(lines)

    def _matches(self, pattern: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
        return ((n, found) for n, line in enumerate(self.lines) if (found := pattern.match(line)))

    def markdown(self) -> Iterator[str]:
        """Yield the lines in Markdown."""
        number = 0
        while number < len(self.lines):
            line = self.lines[number]
            if heading := _heading.match(line):
                yield from ("", f"{'#' * min(len(heading[1]), 6)} {heading[2].strip()}", "")
            elif end := self._end_of_code(number):
                yield self._code(number, end)
                number = end
            elif end := self._end_of_drawer(number):
                number = end
            else:
                yield from _text(line)
            number += 1

    def _end_of_code(self, number: int) -> int:
        """Return the number of the line that closes the block of code which a line opens, or 0."""
        block = _block.match(self.lines[number])
        if not block or block[1].lower() != "begin" or (kind := block[2].lower()) not in _CODE:
            return 0
        later = range(number + 1, self.last_ends.get(kind, 0) + 1)
        return next((n for n in later if _closes(self.lines[n], kind)), 0)

    def _code(self, number: int, end: int) -> str:
        block = _block.match(self.lines[number])
        language = block[3] if block and block[3] and block[2].lower() == "src" else ""
        return fenced_code(_escaped.sub(r"\1", "\n".join(self.lines[number + 1 : end])), language)

    def _end_of_drawer(self, number: int) -> int:
        """Return the number of the line that closes the drawer which a line opens and which is dropped, or 0."""
        drawer = _drawer.match(self.lines[number])
        return self.drawer_ends[number] if drawer and drawer[1].lower() in _DROPPED_DRAWERS else 0


def _drawer_ends(lines: Sequence[str]) -> list[int]:
    """Return for each line the number of the next one that closes a drawer in the same section, or 0."""
    ends, end = [0] * len(lines), 0
    for number in range(len(lines) - 1, -1, -1):
        if _heading.match(lines[number]):
            end = 0
        elif (drawer := _drawer.match(lines[number])) and drawer[1].lower() == "end":
            end = number
        ends[number] = end
    return ends


def _closes(line: str, kind: str) -> bool:
    block = _block.match(line)
    return block is not None and block[1].lower() == "end" and block[2].lower() == kind


def _text(line: str) -> Iterator[str]:
    """Yield what a line says to a reader: nothing if it is a comment, a setting, or a mark of a block or drawer."""
    if setting := _setting.match(line):
        yield from [setting[2]] * (setting[1].lower() == "caption")
    elif not (_comment.match(line) or _block.match(line) or _drawer.match(line)):
        yield line
