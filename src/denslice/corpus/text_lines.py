"""The lines of a text, and what lines form: headings and blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

NEW_LINE, BLANK_LINE, NEW_PAGE = range(3)  # what is between a line and the one before it
INDENT = 4  # columns by which code is indented
LONGEST_HEADING = 200  # characters; a longer line is a paragraph


class TextLine(NamedTuple):
    """A line of a text, where it starts and ends, without the spaces around it; blank lines are no lines."""

    start: int
    end: int
    indent: int
    body: str
    after: int  # NEW_LINE, BLANK_LINE or NEW_PAGE


class Heading(NamedTuple):
    """A heading: its lines from the first up to, but not including, `end`, how deep it is, and its text."""

    first: int
    end: int
    level: int
    text: str


class Block(NamedTuple):
    """Lines that belong together, from the first up to, but not including, `end`."""

    first: int
    end: int


def text_lines(text: str) -> list[TextLine]:
    """Return the lines of a text. The first starts at 0, and only the first and the last can be empty."""
    lines: list[TextLine] = []
    start, after = 0, BLANK_LINE
    for whole in text.replace("\f", "\n").split("\n"):
        body = whole.strip()
        end = start + len(whole)
        if body or not start or end == len(text):
            indent = whole.find(body[0]) if body else len(whole)
            lines.append(TextLine(start, end, INDENT * indent if whole[:1] == "\t" else indent, body, after))
            after = NEW_LINE
        elif after == NEW_LINE:
            after = BLANK_LINE
        if text[end : end + 1] == "\f":
            after = NEW_PAGE
        start = end + 1
    return lines


def outside(count: int, blocks: Iterable[Block]) -> Iterator[int]:
    """Yield the numbers of the lines that are in none of these blocks, which are in order."""
    number = 0
    for block in blocks:
        yield from range(number, block.first)
        number = block.end
    yield from range(number, count)
