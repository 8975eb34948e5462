"""Passages: where a text is cut, so that a model can read all of it and a search can point into it.

A text is cut at its own seams: headings, pages, paragraphs, items of lists, sentences, and between words where nothing
else is left. Of all ways to cut it, the one with the lowest total cost is taken: a passage should be about as long as
AIM, and a strong seam costs less than a weak one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from denslice.records import Place
from denslice.vectors import Ints

LARGEST = 2_500  # size of a passage: about 250 word pieces, or 190 words of English
AIM = 2_200  # a shorter passage costs something, but for the last one, for which LAST_AIM is enough
LAST_AIM = 600
OVERLAP = 500  # size of the sentence that a passage repeats from the one before it, at most
LETTER, SPACE, DIGIT, SIGN, IDEOGRAPH = 2, 1, 5, 13, 10  # tenths of a word piece, as models have them

START, HEADING, PAGE, PARAGRAPH, ITEM, SENTENCE, LINE, WORD = range(8)
COSTS = (0.0, 0.0, 0.0, 0.1, 0.25, 0.35, 0.6, 2.0)  # of cutting at a seam
INNER_HEADING = 0.5  # cost of a heading in the middle of a passage
SHORTNESS = 1.0  # cost of a passage without any text
_seams = re.compile(
    r"(?P<page>[ \t]*\f\s*)|(?P<paragraph>\n[ \t]*\n\s*)|(?P<item>\n(?=[ \t]*(?:[-*+•–]|\d{1,3}[.)])[ \t]))|(?P<line>\n)"
    r"|(?P<sentence>[.!?…‽؟।][\"'”’»)\]]*[ \t]+|[。！？｡]+[」』”’）]*)"
)
_heading = re.compile(r"^(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$|^(.{2,120})\n[ \t]*(=+|-+|~+)[ \t]*$", re.MULTILINE)
_fence = re.compile(r"^[ \t]*(```|~~~)[^\n]*\n.*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_word_ends = re.compile(r"\s+(?=\S)|(?<=[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])(?=\w)")
_sentence_end = re.compile(r"[.!?…‽؟।。！？｡][\"'”’»)\]」』）]*\s*$")


class Seam(NamedTuple):
    """A place where a text can be cut, and what begins there."""

    at: int
    kind: int


class Heading(NamedTuple):
    """A heading: where its line begins, how deep it is, and its text."""

    at: int
    level: int
    text: str


def cut(text: str) -> list[Place]:
    """Return the passages of a text, in order. Together they cover it, and no word is in two parts."""
    if len(text) * SIGN <= LARGEST:
        return [Place(0, len(text))]
    counted = _sizes(text)
    if counted[-1] <= LARGEST:
        return [Place(0, len(text))]
    headings = _headings(text)
    seams = _with_words(text, _seams_of(text, headings), counted)
    sizes = counted[[seam.at for seam in seams]].tolist()
    return _placed(text, seams, sizes, _cheapest(seams, sizes), headings)


def _headings(text: str) -> list[Heading]:
    """Return the headings of Markdown and reStructuredText, without those in code blocks."""
    blocks = [(block.start(), block.end()) for block in _fence.finditer(text)]
    levels: dict[str, int] = {"=": 1, "-": 2, "~": 3}
    found = []
    for match in _heading.finditer(text):
        if _within(blocks, match.start() + 1):
            continue
        if match[1]:
            found.append(Heading(match.start(), len(match[1]), match[2]))
        elif _is_underlined(match[3], match[4]):
            found.append(Heading(match.start(), levels[match[4][0]], match[3].strip()))
    return found


def _is_underlined(line: str, marks: str) -> bool:
    return len(marks) >= 3 and 2 <= len(line.strip()) <= len(marks) + 2


def _seams_of(text: str, headings: Sequence[Heading]) -> list[Seam]:
    """Return the seams of a text in order, from its start to its end."""
    found = {0: START}
    blocks = [(block.start(), block.end()) for block in _fence.finditer(text)]
    for match in _seams.finditer(text):
        kind = {"page": PAGE, "paragraph": PARAGRAPH, "item": ITEM, "line": LINE, "sentence": SENTENCE}[
            match.lastgroup or ""
        ]
        if kind == LINE and match.start() and text[match.start() - 1] in ".!?…:;":
            kind = SENTENCE
        if kind != PAGE and _within(blocks, match.end()):
            kind = LINE if kind in (PARAGRAPH, ITEM) else WORD if kind == SENTENCE else LINE
        found[match.end()] = kind
    for start, end in blocks:
        found[start] = min(found.get(start, PARAGRAPH), PARAGRAPH)
        found.setdefault(end, PARAGRAPH)
    for heading in headings:
        found[heading.at] = HEADING if heading.at else START
    found.pop(len(text), None)
    return [*(Seam(at, found[at]) for at in sorted(found)), Seam(len(text), START)]


def _within(blocks: Sequence[tuple[int, int]], at: int) -> bool:
    """Return whether a place is inside one of these blocks, and not at its start."""
    number = bisect_left(blocks, (at,)) - 1
    return number >= 0 and blocks[number][0] < at < blocks[number][1]


def _with_words(text: str, seams: list[Seam], sizes: Ints) -> list[Seam]:
    """Return the seams, with places between words where a stretch without a seam is long."""
    made: list[Seam] = []
    for here, after in pairwise(seams):
        made.append(here)
        last = here.at
        if sizes[after.at] - sizes[here.at] > LARGEST // 2:
            for match in _word_ends.finditer(text, here.at + 1, after.at):
                if sizes[match.end()] - sizes[last] >= LARGEST // 8 and match.end() < after.at:
                    last = match.end()
                    made.append(Seam(last, WORD))
    return [*made, seams[-1]]


@cache
def _table() -> npt.NDArray[np.uint8]:
    """Return the size of each character up to U+FFFF, which stands for all above it."""
    table = np.full(1 << 16, LETTER, np.uint8)
    table[:128] = [DIGIT if chr(c).isdigit() else LETTER if chr(c).isalpha() else SIGN for c in range(128)]
    table[[ord(char) for char in " \t\n\r\f\v"]] = SPACE
    table[0x2000:0x2070] = SIGN
    for start, end in ((0x3000, 0xA000), (0xAC00, 0xD7A4), (0xF900, 0xFB00), (0xFF00, 0x10000)):
        table[start:end] = IDEOGRAPH
    return table


def _sizes(text: str) -> Ints:
    """Return the size of the text before each place (characters + 1,)."""
    if text.isascii():
        codes: npt.NDArray[Any] = np.frombuffer(text.encode(), np.uint8)
    else:
        codes = np.minimum(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32), 0xFFFF)
    return np.concatenate([[0], np.cumsum(_table()[codes], dtype=np.int64)])


def _cheapest(seams: Sequence[Seam], sizes: Sequence[int]) -> list[int]:
    """Return the numbers of the seams at which the text is cut, the first and the last among them."""
    last = len(seams) - 1
    best, before = [0.0] + [float("inf")] * last, [0] * (last + 1)
    headings = [0]
    for seam in seams:
        headings.append(headings[-1] + (seam.kind == HEADING))
    for end in range(1, last + 1):
        first = min(bisect_left(sizes, sizes[end] - LARGEST), end - 1)
        aim = AIM if end < last else LAST_AIM
        seam_cost = COSTS[seams[end].kind] if end < last else 0.0
        for start in range(first, end):
            short = max(0.0, 1 - (sizes[end] - sizes[start]) / aim)
            cost = best[start] + seam_cost + SHORTNESS * short * short
            cost += INNER_HEADING * (headings[end] - headings[start + 1])
            if cost < best[end]:
                best[end], before[end] = cost, start
    cuts = [last]
    while cuts[-1]:
        cuts.append(before[cuts[-1]])
    return cuts[::-1]


def _placed(
    text: str, seams: Sequence[Seam], sizes: Sequence[int], cuts: Sequence[int], headings: Sequence[Heading]
) -> list[Place]:
    """Return the passages between the cuts, each with the sentence before it unless a heading or a page begins."""
    passages = []
    starts = [heading.at for heading in headings]
    has_pages = "\f" in text
    for first, last in pairwise(cuts):
        own, end = seams[first].at, seams[last].at
        start = seams[first - 1].at if _repeats(seams, sizes, first) else own
        path = _path(headings[: bisect_right(starts, own)])
        page = text.count("\f", 0, own) + 1 if has_pages else None
        passages.append(Place(start, end, path, page))
    return passages


def _repeats(seams: Sequence[Seam], sizes: Sequence[int], first: int) -> bool:
    """Return whether a passage that begins at this seam repeats the sentence before it."""
    if not first or seams[first].kind in (HEADING, PAGE) or seams[first - 1].kind == WORD:
        return False
    return sizes[first] - sizes[first - 1] <= OVERLAP


def _path(before: Sequence[Heading]) -> str:
    """Return the headings above a place, from the outermost to the innermost, given all that come before it."""
    path: list[Heading] = []
    for heading in reversed(before):
        if heading.text and (not path or heading.level < path[-1].level):
            path.append(heading)
    return " › ".join(heading.text for heading in reversed(path))
