"""Markup: the headings and blocks that the lines of a text form in Markdown, reStructuredText, LaTeX and code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from denslice.corpus.text_lines import INDENT, LONGEST_HEADING, NEW_LINE, Block, Heading, TextLine, outside, text_lines

LONGEST_OVER_SHORT_LINE = 60  # characters; Markdown lets = and - be shorter than the heading above them
ADORNMENTS = frozenset("=-~^\"'`#*+.:_<>")  # that underline headings of reStructuredText
_fence = re.compile(r"`{3,}(?=[^`]*$)|~{3,}")
_number_signs = re.compile(r"#{1,6}(?=[ \t])")
_code = re.compile(
    r"^(?:#!|#include\b|import [\w.]+(?: as \w+)?$|from [\w.]+ import |(?:async )?def \w+\(|class \w+[(:])",
    re.MULTILINE,
)


class Markup(NamedTuple):
    """The lines of a text, its headings, its fenced blocks and its indented ones, each in order."""

    lines: Sequence[TextLine]
    headings: Sequence[Heading]
    fenced: Sequence[Block]
    indented: Sequence[Block]


def markup_of(text: str) -> Markup:
    """Return the lines of a text and what they form."""
    lines = text_lines(text)
    fenced = _fenced_blocks(lines)
    return Markup(lines, _headings(text, lines, fenced), fenced, _indented_blocks(lines, fenced))


def _fenced_blocks(lines: Sequence[TextLine]) -> list[Block]:
    """Return the front matter and the fenced code blocks; one that is never closed ends with the text."""
    blocks: list[Block] = []
    end = 0
    for number in [0, *(number for number, line in enumerate(lines) if line.body[:1] in ("`", "~"))]:
        if number >= end and (after := _end_of_fence(lines, number)):
            blocks.append(Block(number, after))
            end = after
    return blocks


def _end_of_fence(lines: Sequence[TextLine], first: int) -> int:
    """Return the number of the line after the block that this line opens, or 0 if it opens none."""
    body = lines[first].body
    if not first and _opens_front_matter(lines):
        return next((n + 1 for n in range(1, len(lines)) if lines[n].body == body), 0)
    fence = body[:1] in ("`", "~") and _fence.match(body)
    if not fence or _is_underline(lines, first):
        return 0
    return next((n + 1 for n in range(first + 1, len(lines)) if _closes(lines[n].body, fence[0])), len(lines))


def _opens_front_matter(lines: Sequence[TextLine]) -> bool:
    """Return whether a text begins with fields in YAML or TOML, and not with a rule."""
    sign = {"---": ":", "+++": "="}.get(lines[0].body)
    return sign is not None and len(lines) > 1 and lines[1].after == NEW_LINE and sign in lines[1].body


def _closes(body: str, fence: str) -> bool:
    return body.startswith(fence) and not body.strip(fence[0])


def _indented_blocks(lines: Sequence[TextLine], fenced: Sequence[Block]) -> list[Block]:
    """Return runs of indented lines between blank lines, which are code, quotes or parts of lists."""
    in_fence = {number for block in fenced for number in range(block.first, block.end)}
    runs = groupby(range(len(lines)), lambda number: lines[number].indent >= INDENT and number not in in_fence)
    blocks = [_block(list(numbers)) for is_indented, numbers in runs if is_indented]
    return [block for block in blocks if _may_open(lines, block.first) and _may_end(lines, block.end)]


def _block(numbers: Sequence[int]) -> Block:
    return Block(numbers[0], numbers[-1] + 1)


def _may_open(lines: Sequence[TextLine], number: int) -> bool:
    return lines[number].after != NEW_LINE or lines[number - 1].body.endswith(":")


def _may_end(lines: Sequence[TextLine], end: int) -> bool:
    return end == len(lines) or lines[end].after != NEW_LINE


def _headings(text: str, lines: Sequence[TextLine], fenced: Sequence[Block]) -> list[Heading]:
    """Return the headings in order, without what looks like one in code."""
    levels: dict[tuple[str, bool], int] = {}  # of underlines, by their sign and whether there is a line above as well
    found: list[Heading] = []
    for number in [number for number in outside(len(lines), fenced) if lines[number].body[:1] in ADORNMENTS]:
        body = lines[number].body
        if _has_number_signs(lines, number):
            levels = levels or {("=", False): 1, ("-", False): 2}  # Markdown has only these two
            found.append(_marked_heading(number, body))
        elif _is_underline(lines, number):
            found.append(_underlined_heading(lines, number, levels))
    if any(_is_comment(lines, heading) for heading in found) and _is_code(text, lines, fenced):
        return [heading for heading in found if not _is_comment(lines, heading)]
    return found


def _has_number_signs(lines: Sequence[TextLine], number: int) -> bool:
    """Return whether a line is a heading with number signs, and not a part of a comment of several lines."""
    line = lines[number]
    if not _number_signs.match(line.body) or line.indent >= INDENT or len(line.body) > LONGEST_HEADING:
        return False
    around = [number - 1] * (line.after == NEW_LINE and number > 0)
    around += [number + 1] * (number + 1 < len(lines) and lines[number + 1].after == NEW_LINE)
    return not (line.body[1] != "#" and any(lines[n].body[:2] in ("#", "# ") for n in around))


def _marked_heading(number: int, body: str) -> Heading:
    title = body.lstrip("#")
    inner = title.rstrip("#")
    if inner[-1:].isspace():  # "# Title #", but not "# C#"
        title = inner
    return Heading(number, number + 1, len(body) - len(body.lstrip("#")), title.strip())


def _is_underline(lines: Sequence[TextLine], number: int) -> bool:
    """Return whether a line underlines the one before it, which is then a heading."""
    marks, title = lines[number], lines[number - 1]
    if not number or marks.after != NEW_LINE or not _is_adornment(marks.body) or title.indent >= INDENT:
        return False
    if marks.body in ("```", "~~~"):  # a fence; underlines with these signs are longer
        return False
    longest = max(len(marks.body), LONGEST_OVER_SHORT_LINE if marks.body[0] in "=-" else 0)
    if not 2 <= len(title.body) <= min(longest, LONGEST_HEADING) or _is_adornment(title.body):
        return False
    return title.after != NEW_LINE or _is_overlined(lines, number)


def _is_adornment(body: str) -> bool:
    return len(body) >= 3 and body[0] in ADORNMENTS and not body.strip(body[0])


def _is_overlined(lines: Sequence[TextLine], number: int) -> bool:
    """Return whether an underline has its twin above the heading."""
    return number > 1 and lines[number - 1].after == NEW_LINE and lines[number - 2].body == lines[number].body


def _underlined_heading(lines: Sequence[TextLine], number: int, levels: dict[tuple[str, bool], int]) -> Heading:
    is_overlined = _is_overlined(lines, number)
    style = (lines[number].body[0], is_overlined)
    level = levels.setdefault(style, len(levels) + 1)
    return Heading(number - 1 - is_overlined, number + 1, level, lines[number - 1].body)


def _is_comment(lines: Sequence[TextLine], heading: Heading) -> bool:
    """Return whether a heading could as well be a comment of Python or of a shell."""
    return lines[heading.first].body.startswith("# ")


def _is_code(text: str, lines: Sequence[TextLine], fenced: Sequence[Block]) -> bool:
    """Return whether a text has a line outside its code blocks that only a program has."""
    spans = [(lines[block.first].start, lines[block.end - 1].end) for block in fenced]
    outside = zip([0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)], strict=True)
    return any(_code.search(text, start, end) for start, end in outside)
