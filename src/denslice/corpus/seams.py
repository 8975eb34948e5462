"""Seams: the places at which a text can be cut, and what begins at each of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

from denslice.corpus.markup import Markup
from denslice.corpus.text_lines import BLANK_LINE, NEW_LINE, NEW_PAGE, Block, TextLine
from denslice.corpus.word_breaks import is_within_word, may_cut, word_breaks
from denslice.vectors import Ints

# What begins at a seam, the strongest first. A lead is a heading, or a line that ends in a colon. A CHARACTER is inside
# a run of letters, in a script that has no spaces between words.
START, HEADING, PAGE, PARAGRAPH, ITEM, LINE, SENTENCE, AFTER_LEAD, WORD, CHARACTER = range(10)
NARROWEST, WIDEST = 40, 160  # characters of the longest line of a paragraph that is hard-wrapped
_STOPS, _WIDE_STOPS, _CLOSERS = ".!?…‽؟।", "。！？｡", "\"'”’»)\\]」』）"
_sentence_ends = re.compile(
    rf"[{_STOPS}{_WIDE_STOPS}](?<!\b(?:Dr|Mr|Ms|St|vs|cf|al|No|pp)\.)(?<!\b(?:e\.g|i\.e|Mrs|Fig)\.)[{_CLOSERS}]*"
    rf"(?:[ \t]+(?=\S)|(?<=[{_WIDE_STOPS}」』）])(?=[^\s{_WIDE_STOPS}{_CLOSERS}]))"
)
_ends_sentence = re.compile(rf"[{_STOPS}{_WIDE_STOPS};][{_CLOSERS}]*\Z").search
_item = re.compile(r"(?:[-*+•–]|[1a][.)]|(?P<later>(?:\d{1,3}|[a-z])[.)]))[ \t]")


class Seam(NamedTuple):
    """A place where a text can be cut, what begins there, and the size of the text before it."""

    at: int
    kind: int
    size: int


def seams_of(text: str, markup: Markup, sizes: Ints, largest: int) -> list[Seam]:
    """Return the seams of a text in order, from its start to its end.

    `sizes` are those of the text before each of its characters, (characters + 1,). What is between two seams is not
    larger than `largest`, unless it is a single word.
    """
    blocks = (*markup.fenced, *(_with_lead(markup.lines, block) for block in markup.indented))
    whole = [block for block in blocks if _size(markup.lines, block, sizes) <= largest]
    kinds = _line_kinds(markup, whole)
    found = dict.fromkeys(_sentences(text, markup.lines, _without_sentences(markup, whole)), SENTENCE)
    found |= {line.start: kind for line, kind in zip(markup.lines, kinds, strict=True) if kind is not None}
    seams = _thinned(_seams(text, found, sizes), largest)
    return list(_with_words(text, seams, {markup.lines[block.first].start for block in whole}, sizes, largest))


def _seams(text: str, kinds: Mapping[int, int], sizes: Ints) -> list[Seam]:
    """Return the seams at these places where the text may be cut, in order, and at its end."""
    places = sorted(kinds)
    if places[-1] == len(text):
        places.pop()
    if not text.isascii():
        places = [0, *(at for at in places[1:] if may_cut(text, at))]
    seams = map(Seam, places, map(kinds.__getitem__, places), sizes[places].tolist())
    return [*seams, Seam(len(text), START, int(sizes[-1]))]


def _with_lead(lines: Sequence[TextLine], block: Block) -> Block:
    """Return an indented block with the line that leads to it, such as the first line of a function."""
    first = block.first
    while first > 0 and lines[first].after == NEW_LINE and _is_lead(lines[first - 1]):
        first -= 1
    return Block(first, block.end)


def _size(lines: Sequence[TextLine], block: Block, sizes: Ints) -> int:
    """Return the size of a block, with the blank lines after it."""
    end = lines[block.end].start if block.end < len(lines) else len(sizes) - 1
    return int(sizes[end] - sizes[lines[block.first].start])


def _line_kinds(markup: Markup, whole: Sequence[Block]) -> list[int | None]:
    """Return what begins with each line, or None where the text is not to be cut before it."""
    lines = markup.lines
    kinds: list[int | None] = [START, *(_kind(last, line) for last, line in pairwise(lines))]
    _unwrap(lines, kinds)
    _set_fences(markup, kinds)
    for block in whole:
        kinds[block.first + 1 : block.end] = [None] * (block.end - block.first - 1)
    _set_headings(markup, kinds)
    return kinds


def _set_fences(markup: Markup, kinds: list[int | None]) -> None:
    """Set the kinds of the lines of fenced blocks, and of the lines with which they and what follows them begin."""
    for block in markup.fenced:
        for number in range(block.first + 1, block.end):
            kinds[number] = LINE if markup.lines[number].after == NEW_LINE else ITEM
        for number in (block.first, block.end):
            if number < len(kinds) and kinds[number] in (LINE, SENTENCE, None):
                kinds[number] = PARAGRAPH


def _kind(last: TextLine, line: TextLine) -> int:
    """Return what begins with a line, given the line before it."""
    after = line.after
    if after == NEW_PAGE:
        return PAGE
    if _is_lead(last):
        return AFTER_LEAD
    if after == BLANK_LINE:
        return PARAGRAPH if not line.indent or line.indent < last.indent else ITEM
    return ITEM if _is_item(last, line) else LINE


def _is_item(last: TextLine, line: TextLine) -> bool:
    """Return whether a line is an item of a list; a number other than 1 is one only after an item or a sentence."""
    item = _item.match(line.body)
    if item is None or not item["later"]:
        return item is not None
    return bool(_item.match(last.body) or _ends_sentence(last.body[-8:]))


def _is_lead(line: TextLine) -> bool:
    """Return whether a line leads to the next one, as an introduction to a list, or a decorator of Python."""
    return line.body.endswith((":", "：")) or line.body[:1] == "@"


def _set_headings(markup: Markup, kinds: list[int | None]) -> None:
    """Set the kinds of headings and of what follows them; several in a row are one lead."""
    last = -1
    for heading in markup.headings:
        kinds[heading.first : heading.end] = [None] * (heading.end - heading.first)
        kinds[heading.first] = START if not heading.first else AFTER_LEAD if heading.first == last else HEADING
        last = heading.end
        if last < len(kinds):
            kinds[last] = AFTER_LEAD


def _unwrap(lines: Sequence[TextLine], kinds: list[int | None]) -> None:
    """Set the kinds of lines in hard-wrapped paragraphs, where only a sentence that ends with its line is a seam."""
    widths = [line.indent + len(line.body) for line in lines]
    starts = [number for number, line in enumerate(lines) if line.after != NEW_LINE]
    for start, end in pairwise([*starts, len(lines)]):
        breaks = [number for number in range(start + 1, end) if kinds[number] == LINE]
        width = max(widths[start:end]) if breaks else 0
        if not NARROWEST <= width <= WIDEST:
            continue
        filled = [number for number in breaks if _is_filled(widths[number - 1], lines[number], width)]
        if 2 * sum(_is_prose(lines[number - 1], lines[number]) for number in filled) < len(breaks):
            continue
        for number in {*filled, *(number for number in breaks if lines[number].body[:1].islower())}:
            kinds[number] = SENTENCE if _ends_sentence(lines[number - 1].body[-8:]) else None


def _is_filled(last: int, line: TextLine, width: int) -> bool:
    """Return whether the first word of a line would not have fitted on the line before it, which is so wide."""
    return last + 1 + len(line.body) > width and last + 1 + len(_first_word(line)) > width


def _is_prose(last: TextLine, line: TextLine) -> bool:
    """Return whether a line starts as prose can; lines of a log often start the same."""
    return line.body[:1].isalpha() and _first_word(line) != _first_word(last)


def _first_word(line: TextLine) -> str:
    return line.body.partition(" ")[0]


def _without_sentences(markup: Markup, whole: Sequence[Block]) -> set[int]:
    """Return the numbers of the lines that are cut only at their ends: those of code, headings and tables."""
    spans = [*markup.fenced, *whole, *(Block(heading.first, heading.end) for heading in markup.headings)]
    rows = (number for number, line in enumerate(markup.lines) if line.body[:1] == "|")
    return {number for span in spans for number in range(span.first, span.end)}.union(rows)


def _sentences(text: str, lines: Sequence[TextLine], without: Set[int]) -> Iterator[int]:
    """Yield the places where sentences begin within a line."""
    number = 0
    for match in _sentence_ends.finditer(text):
        at = match.end()
        while number + 1 < len(lines) and lines[number + 1].start <= at:
            number += 1
        if number not in without:
            yield at


def _thinned(seams: Sequence[Seam], largest: int) -> list[Seam]:
    """Return the seams without those that are close behind another one and not stronger.

    This bounds the number of seams in a passage, and leaves out those after abbreviations and numbers of list items.
    """
    last = seams[0]
    kept = [last]
    for seam, after in pairwise(seams[1:]):
        is_close = seam.size - last.size < largest // 40 and after.size - last.size <= largest // 2
        if not is_close or seam.kind < last.kind:
            last = seam
            kept.append(seam)
    return [*kept, seams[-1]]


def _with_words(text: str, seams: Sequence[Seam], whole: Set[int], sizes: Ints, largest: int) -> Iterator[Seam]:
    """Yield the seams, with places between words where the text has no seam for long; not in blocks that fit."""
    for here, after in pairwise(seams):
        yield here
        if after.size - here.size > (largest if here.at in whole else largest // 2):
            yield from _word_seams(text, here.at, sizes[here.at : after.at + 1].tolist(), largest // 8)
    yield seams[-1]


def _word_seams(text: str, start: int, sizes: Sequence[int], step: int) -> Iterator[Seam]:
    """Yield places between words so that the text between them is of size `step` at most, or a single word.

    `sizes` are those before each place of this stretch, which begins at `start`.
    """
    end = start + len(sizes) - 1
    last = previous = start
    for at in (*word_breaks(text, start, end), end):
        if sizes[at - start] - sizes[last - start] > step and previous > last:
            kind = CHARACTER if is_within_word(text, previous) else WORD
            yield Seam(previous, kind, sizes[previous - start])
            last = previous
        previous = at
