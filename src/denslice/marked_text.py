"""Highlight: a snippet with marked words, as a value that can be shown as HTML or on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

BOLD, PLAIN = "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Highlight:
    """A part of a title or text, and which of its characters are words of the query.

    `text` begins at the character `start` of the field; `marks` are starts and ends within `text`, in order.
    """

    field: str  # "title" or "text"
    text: str
    start: int
    marks: tuple[tuple[int, int], ...]

    def html(self, open: str = "<mark>", close: str = "</mark>") -> str:
        """Return the text as HTML: everything is escaped, and words of the query are between two tags."""
        return "".join(f"{open}{escape(part)}{close}" if marked else escape(part) for part, marked in self._parts())

    def terminal(self) -> str:
        """Return the text on one line for a terminal, with words of the query in bold and no control characters."""
        shown = ((_printable(part), marked) for part, marked in self._parts())
        return "".join(f"{BOLD}{part}{PLAIN}" if marked else part for part, marked in shown)

    def _parts(self) -> Iterator[tuple[str, bool]]:
        """Yield the text in parts, and whether each is marked."""
        at = 0
        for start, end in self.marks:
            yield self.text[at:start], False
            yield self.text[start:end], True
            at = end
        yield self.text[at:], False


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
