"""Passages: where a text is cut, so that a model can read all of it and a search can point into it.

A text is cut at its own seams: headings, pages, paragraphs, items of lists, lines, sentences, and between words where
nothing else is left. Of all ways to cut it, the one with the lowest total cost is taken: a passage should be about as
long as AIM, and a strong seam costs less than a weak one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from denslice.corpus.markup import Markup, markup_of
from denslice.corpus.seams import CHARACTER, HEADING, PAGE, Seam, seams_of
from denslice.corpus.text_lines import Heading
from denslice.corpus.word_breaks import last_character
from denslice.records import Place
from denslice.vectors import Ints

LARGEST = 2_500  # size of a passage: about 250 word pieces, or 190 words of English
AIM = 2_200  # a shorter passage costs something, but for the last one, for which LAST_AIM is enough
LAST_AIM = 600
OVERLAP = 500  # size of the sentence that a passage repeats from the one before it, at most
LETTER, SPACE, DIGIT, SIGN, IDEOGRAPH = 2, 1, 5, 13, 10  # tenths of a word piece, as models have them

COSTS = (
    0.0,
    0.0,
    0.0,
    0.1,
    0.2,
    0.25,
    0.35,
    1.5,
    2.0,
    2.0,
)  # of cutting at each kind of seam, in the order of seams.py
INNER_HEADING = 0.5  # cost of a heading in the middle of a passage
SHORTNESS = 1.0  # cost of a passage without any text
_spaces = b" \t\n\r\f\v"


def cut(text: str) -> list[Place]:
    """Return the passages of a text, in order. Together they cover it, and no word is in two parts."""
    if len(text) * SIGN <= LARGEST:
        return [Place(0, len(text))]
    if text.isascii() and _ascii_size(text) <= LARGEST:
        return [Place(0, len(text))]
    sizes = _sizes(text)
    if sizes[-1] <= LARGEST:
        return [Place(0, len(text))]
    markup = markup_of(text)
    return _placed(text, markup, seams_of(text, markup, sizes, LARGEST))


def _ascii_size(text: str) -> int:
    """Return the size of an ASCII text: quicker than `_sizes`, and enough for most texts."""
    signless = text.encode().translate(None, _signs())
    words = signless.translate(None, _spaces)
    letters = words.translate(None, b"0123456789")
    spaces, digits = len(signless) - len(words), len(words) - len(letters)
    return SIGN * (len(text) - len(signless)) + SPACE * spaces + DIGIT * digits + LETTER * len(letters)


@cache
def _table() -> npt.NDArray[np.uint8]:
    """Return the size of each character up to U+FFFF, which stands for all above it."""
    table = np.full(1 << 16, LETTER, np.uint8)
    table[:128] = [DIGIT if chr(c).isdigit() else LETTER if chr(c).isalpha() else SIGN for c in range(128)]
    table[list(_spaces)] = SPACE
    table[0x2000:0x2070] = SIGN
    for start, end in ((0x3000, 0xA000), (0xAC00, 0xD7A4), (0xF900, 0xFB00), (0xFF00, 0x10000)):
        table[start:end] = IDEOGRAPH
    return table


@cache
def _signs() -> bytes:
    return bytes(np.flatnonzero(_table()[:128] == SIGN).tolist())


@cache
def _ascii_table() -> bytes:
    return _table()[:256].tobytes()


def _sizes(text: str) -> Ints:
    """Return the size of the text before each place (characters + 1,)."""
    if text.isascii():
        sizes = np.frombuffer(text.encode().translate(_ascii_table()), np.uint8)
    else:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
        sizes = _table()[np.minimum(codes, 0xFFFF)]
    before = np.zeros(len(text) + 1, np.int64)
    np.cumsum(sizes, out=before[1:])
    return before


def _placed(text: str, markup: Markup, seams: Sequence[Seam]) -> list[Place]:
    """Return the passages between the cuts with the lowest cost."""
    begins = [seams[0], *(_begin(text, last, seam) for last, seam in pairwise(seams))]
    spans = list(pairwise(_cheapest(seams, [begin.size for begin in begins])))
    starts = [_start(text, seams[first], begins[first], seams[end]) for first, end in spans]
    ends = [seams[end].at for _, end in spans]
    own = [len(text) - len(text.lstrip()), *ends[:-1]]
    pages: Sequence[int | None] = _pages(text, own) if "\f" in text else [None] * len(own)
    paths = _paths(markup, own) if markup.headings else [""] * len(own)
    return list(map(Place, starts, ends, paths, pages))


def _begin(text: str, last: Seam, seam: Seam) -> Seam:
    """Return where a passage that is cut at a seam begins, with what it repeats from the seam before on.

    What is large is not repeated, but for the last character if the cut is within a run of letters: so every pair of
    neighbours is in a passage.
    """
    if seam.kind in (HEADING, PAGE):
        return seam
    if seam.size - last.size <= OVERLAP:
        return last
    return _one_character_before(text, seam) if seam.kind == CHARACTER else seam


def _one_character_before(text: str, seam: Seam) -> Seam:
    at = last_character(text, seam.at)
    return Seam(at, CHARACTER, seam.size - int(_sizes(text[at : seam.at])[-1]))


def _start(text: str, own: Seam, begin: Seam, end: Seam) -> int:
    """Return where a passage starts: where it is cut if what it repeats makes it too large, as with a giant word."""
    if end.size - begin.size <= LARGEST:
        return begin.at
    return last_character(text, own.at) if own.kind == CHARACTER else own.at


def _cheapest(seams: Sequence[Seam], begins: Sequence[int]) -> list[int]:
    """Return the numbers of the seams at which the text is cut, the first and the last among them.

    `begins` are the sizes of the text before the passages that are cut there.
    """
    sizes = [seam.size for seam in seams]
    last, short = len(seams) - 1, _shortness(AIM)
    headings = 0.0  # the cost of all up to here; `costs` are without it, so that those between two seams are counted
    costs, before, first = [0.0], [0], 0
    for end in range(1, len(seams)):
        size = sizes[end]
        while first < end - 1 and size - begins[first] > LARGEST:
            first += 1
        if end == last:
            short = _shortness(LAST_AIM)
        best, lowest = first, costs[first] + short[min(size - sizes[first], LARGEST)]  # a giant word is larger
        for start in range(first + 1, end):  # is most of the time that cutting takes
            cost = costs[start] + short[size - sizes[start]]
            if cost < lowest:
                best, lowest = start, cost
        lowest += headings + COSTS[seams[end].kind]
        headings += INNER_HEADING * (seams[end].kind == HEADING)
        costs.append(lowest - headings)
        before.append(best)
    cuts = [last]
    while cuts[-1]:
        cuts.append(before[cuts[-1]])
    return cuts[::-1]


@cache
def _shortness(aim: int) -> Sequence[float]:
    """Return what a passage costs for being shorter than its aim, by its size up to LARGEST."""
    short = [max(0.0, 1 - size / aim) for size in range(LARGEST + 1)]
    return [SHORTNESS * one * one for one in short]


def _pages(text: str, places: Sequence[int]) -> list[int]:
    """Return the page of each place, sizes from 1; the places are in order."""
    new = (text.count("\f", last, place) for last, place in pairwise([0, *places]))
    return [1 + count for count in accumulate(new)]


def _paths(markup: Markup, places: Sequence[int]) -> Iterator[str]:
    """Yield the headings above each place, from the outermost to the innermost; the places are in order."""
    left = [(markup.lines[heading.first].start, heading) for heading in reversed(markup.headings)]
    path: list[Heading] = []
    for place in places:
        while left and left[-1][0] <= place:
            _, heading = left.pop()
            path = [*(above for above in path if above.level < heading.level), heading]
        yield " › ".join(heading.text for heading in path if heading.text)
