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

from denslice.corpus.markup import Heading, Markup, markup_of
from denslice.corpus.seams import CHARACTER, HEADING, PAGE, Seam, seams_of
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


def cut(text: str) -> list[Place]:
    """Return the passages of a text, in order. Together they cover it, and no word is in two parts."""
    if len(text) * SIGN <= LARGEST:
        return [Place(0, len(text))]
    sizes = _sizes(text)
    if sizes[-1] <= LARGEST:
        return [Place(0, len(text))]
    markup = markup_of(text)
    return _placed(text, markup, seams_of(text, markup, sizes, LARGEST))


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
    spans = list(pairwise(_cheapest(seams)))
    starts = [_start(text, seams, first, last) for first, last in spans]
    ends = [seams[last].at for _, last in spans]
    own = [len(text) - len(text.lstrip()), *ends[:-1]]
    pages: Sequence[int | None] = _pages(text, own) if "\f" in text else [None] * len(own)
    return list(map(Place, starts, ends, _paths(markup, own), pages))


def _cheapest(seams: Sequence[Seam]) -> list[int]:
    """Return the numbers of the seams at which the text is cut, the first and the last among them."""
    sizes = [seam.size for seam in seams]
    reads = [0, *(last.size if _is_repeated(last, seam) else seam.size for last, seam in pairwise(seams))]
    inner = [INNER_HEADING * count for count in accumulate(seam.kind == HEADING for seam in seams)]
    costs, before, first = [-inner[0]], [0], 0  # costs: the lowest up to each seam, less that of all headings up to it
    for end in range(1, len(seams)):
        while first < end - 1 and sizes[end] - reads[first] > LARGEST:
            first += 1
        start, cost = _best_start(costs, sizes, first, end, AIM if end < len(seams) - 1 else LAST_AIM)
        before.append(start)
        costs.append(cost + COSTS[seams[end].kind] + inner[end - 1] - inner[end])
    cuts = [len(seams) - 1]
    while cuts[-1]:
        cuts.append(before[cuts[-1]])
    return cuts[::-1]


def _best_start(costs: Sequence[float], sizes: Sequence[int], first: int, end: int, aim: int) -> tuple[int, float]:
    """Return the seam from `first` on at which a passage up to `end` best begins, and the cost up to its end."""
    best, lowest, size = first, float("inf"), sizes[end]
    for start in range(first, end):
        short = 1 - (size - sizes[start]) / aim
        cost = costs[start] + SHORTNESS * short * short if short > 0 else costs[start]
        if cost < lowest:
            best, lowest = start, cost
    return best, lowest


def _is_repeated(last: Seam, seam: Seam) -> bool:
    """Return whether a passage that begins at a seam can repeat what is between the seam before and this one."""
    return seam.size - last.size <= OVERLAP and seam.kind not in (HEADING, PAGE)


def _start(text: str, seams: Sequence[Seam], first: int, end: int) -> int:
    """Return where a passage between two seams starts, with what it repeats from the one before it.

    What does not fit is not repeated, but for the last character if the cut is within a run of letters: so every pair
    of neighbours is in a passage.
    """
    own, last = seams[first], seams[max(first - 1, 0)]
    if _is_repeated(last, own) and seams[end].size - last.size <= LARGEST:
        return last.at
    return last_character(text, own.at) if own.kind == CHARACTER else own.at


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
        yield " › ".join(heading.text for heading in path)
