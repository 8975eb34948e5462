"""Labels of places: where a passage is in its document, as a person looks for it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from denslice.cli.output import on_one_line
from denslice.rankings import Passage
from denslice.records import Place

SEPARATOR = " › "  # between the headings of a path
LEAST = 8  # characters of a path that say something
LEFT_OUT = "…"  # stands for the outer headings of a path that is too long


def place_label(number: int, place: Place | Passage, text: str, width: int | None = None) -> str:
    """Return where a passage of this text is, such as `Install › Linux, line 120, passage 3`.

    It is empty if the passage is the whole text. Outer headings are left out if the label is wider than `width`.
    """
    if number == 0 and place.end == len(text):
        return ""
    where = f"line {line_of(place, text)}" if place.page is None else f"page {place.page}"
    rest = f"{where}, passage {number}"
    path = on_one_line(place.heading)
    if width is not None:
        path = _fitted(path.split(SEPARATOR), width - len(rest) - 2)
    return f"{path}, {rest}" if path else rest


def line_of(place: Place | Passage, text: str) -> int:
    """Return the line of the text, counted from 1, in which a passage starts."""
    return text.count("\n", 0, place.start) + 1


def _fitted(headings: Sequence[str], width: int) -> str:
    """Return a path of headings that fits the width: without outer ones, or with a shortened innermost one, or none."""
    if width < LEAST:
        return ""
    path = SEPARATOR.join(headings)
    for inner in range(1, len(headings)):
        if cell_len(path) <= width:
            break
        path = SEPARATOR.join([LEFT_OUT, *headings[inner:]])
    shown = Text(path)
    shown.truncate(width, overflow="ellipsis")
    return shown.plain
