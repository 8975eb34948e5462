"""Two columns in reading order, for pages whose program wrote them line by line across both columns.

A PDF stores text in the order in which a program wrote it, and most write one column after the other. A page is
reordered only if an empty strip, the gutter, divides it, if the lines on both sides fill their columns, as prose does
and tables do not, and if lines on the left and on the right alternate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

FEWEST_LINES = 6  # of a column
NARROWEST_GUTTER = 8  # points
NARROWEST_COLUMN = 100  # points
MIDDLE = (0.3, 0.7)  # of the width of the text: where a gutter is looked for
MOST_ACROSS = 0.4  # of all lines, that cross a gutter: titles, abstracts, figures
STRAY = 0.05  # of all lines, that may reach into a gutter
FILLED_WIDTH, FILLED_SHARE = 0.75, 0.6  # at least so wide, of the widest line, are so many lines of prose
ALTERNATING_SHARE = 0.6  # of the lines of a column, that have their neighbour in the other one next to them
WIDEST_SPACE = 0.8  # between words, of the height of a line
ACROSS, LEFT, RIGHT = range(3)


class TextBox(NamedTuple):
    """The rectangle of a piece of text, in points from the lower left corner of the page."""

    left: float
    bottom: float
    right: float
    top: float


class PrintedLine(NamedTuple):
    """A line that is in one column, or across both."""

    side: int
    text: str


PrintedCharacter = tuple[str, TextBox | None]  # spaces and line ends have no box


def alternating_gutter(boxes: Sequence[TextBox]) -> float | None:
    """Return the middle of the gutter of a page whose text, in the order of its boxes, alternates between columns."""
    lines = _line_boxes(boxes)
    gutter = _gutter(lines) if len(lines) >= 2 * FEWEST_LINES else None
    if gutter is None:
        return None
    sides = [_side(line, gutter) for line in lines]
    columns = [[line for line, one in zip(lines, sides, strict=True) if one == side] for side in (LEFT, RIGHT)]
    return gutter if all(map(_is_prose, columns)) and _alternate(lines, sides) else None


def in_columns(characters: Iterable[PrintedCharacter], gutter: float) -> str:
    """Return the text of a page with this gutter: between lines across, first the left column, then the right one."""
    ordered: list[str] = []
    right: list[str] = []
    for line in _printed_lines(characters, gutter):
        if line.side == ACROSS:
            ordered += right
            right = []
        (right if line.side == RIGHT else ordered).append(line.text.strip())
    return "\n".join([*ordered, *right])


def _line_boxes(boxes: Sequence[TextBox]) -> list[TextBox]:
    """Return the boxes of lines: the words of one, if they were written one by one, are joined."""
    lines: list[TextBox] = []
    for box in boxes:
        if box.right <= box.left or box.top <= box.bottom:
            continue
        if lines and _continues(lines[-1], box):
            last = lines.pop()
            box = TextBox(last.left, min(last.bottom, box.bottom), box.right, max(last.top, box.top))
        lines.append(box)
    return lines


def _continues(last: TextBox, box: TextBox) -> bool:
    """Return whether a box is the next word on the line of the last one."""
    space = WIDEST_SPACE * (last.top - last.bottom)
    return _is_beside(last, box) and -space < box.left - last.right < space


def _is_beside(one: TextBox, other: TextBox) -> bool:
    """Return whether two boxes are at the same height, at least with half of the lower one."""
    shared = min(one.top, other.top) - max(one.bottom, other.bottom)
    return shared >= 0.5 * min(one.top - one.bottom, other.top - other.bottom)


def _gutter(lines: Sequence[TextBox]) -> float | None:
    """Return the middle of the widest strip, in the middle of the text, that the fewest lines cross."""
    first, last = min(line.left for line in lines), max(line.right for line in lines)
    changes = [0] * (int(last - first) + 3)
    for line in lines:
        changes[int(line.left - first)] += 1
        changes[int(line.right - first) + 1] -= 1
    begin, end = (int(share * (last - first)) for share in MIDDLE)
    crossing = list(accumulate(changes))[begin:end]  # lines at each point of the width
    fewest = min(crossing, default=len(lines)) + max(1, int(STRAY * len(lines)))
    if fewest > MOST_ACROSS * len(lines):
        return None
    crossed = [-1, *(at for at, count in enumerate(crossing) if count > fewest), len(crossing)]
    before, after = max(pairwise(crossed), key=lambda strip: strip[1] - strip[0])
    return first + begin + (before + after + 1) / 2 if after - before > NARROWEST_GUTTER else None


def _side(line: TextBox, gutter: float) -> int:
    return LEFT if line.right <= gutter else RIGHT if line.left >= gutter else ACROSS


def _is_prose(column: Sequence[TextBox]) -> bool:
    """Return whether most lines of a column are about as wide as its widest."""
    widths = [line.right - line.left for line in column]
    if len(widths) < FEWEST_LINES or max(widths) < NARROWEST_COLUMN:
        return False
    return sum(width >= FILLED_WIDTH * max(widths) for width in widths) >= FILLED_SHARE * len(widths)


def _alternate(lines: Sequence[TextBox], sides: Sequence[int]) -> bool:
    """Return whether most lines on the left are followed by their neighbours on the right."""
    both = pairwise(zip(lines, sides, strict=True))
    pairs = sum(a == LEFT and b == RIGHT and _is_beside(one, other) for (one, a), (other, b) in both)
    return pairs >= ALTERNATING_SHARE * min(sides.count(LEFT), sides.count(RIGHT))


def _printed_lines(characters: Iterable[PrintedCharacter], gutter: float) -> Iterator[PrintedLine]:
    """Yield the lines of a page in the order of its characters, cut at the gutter."""
    for line in _split_lines(characters):
        if _is_across([box for _, box in line if box is not None], gutter):
            yield PrintedLine(ACROSS, "".join(char for char, _ in line))
        else:
            yield from _cut(line, gutter)


def _split_lines(characters: Iterable[PrintedCharacter]) -> Iterator[list[PrintedCharacter]]:
    line: list[PrintedCharacter] = []
    for one in characters:
        if one[0] in "\r\n":
            yield line
            line = []
        else:
            line.append(one)
    yield line


def _is_across(boxes: Sequence[TextBox], gutter: float) -> bool:
    """Return whether a line has a character in the middle of the gutter, or only a space there."""
    if any(box.left < gutter < box.right for box in boxes):
        return True
    left = max((box.right for box in boxes if box.right <= gutter), default=None)
    right = min((box.left for box in boxes if box.left >= gutter), default=None)
    return left is not None and right is not None and right - left < NARROWEST_GUTTER


def _cut(line: Sequence[PrintedCharacter], gutter: float) -> Iterator[PrintedLine]:
    """Yield the parts of a line on both sides of the gutter; a character without a box stays with the one before."""
    side, part = ACROSS, ""
    for char, box in line:
        here = side if box is None else _side(box, gutter)
        if here != side and part.strip():
            yield PrintedLine(side, part)
            part = ""
        side, part = here, part + char
    if part.strip():
        yield PrintedLine(side, part)
