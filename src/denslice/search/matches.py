"""Where a text holds the tokens an index knows it by, so that they can be marked, and which part of it to show.

A text may be as long as a library. Only its beginning is looked at, so that showing a hit takes a bounded time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from denslice.encoders.analysis import Analyzer

LOOKED_AT = 20_000  # characters of a text in which tokens are looked for
NEAR = 300  # characters within which an excerpt has its most different tokens

Words = Callable[[str], list[str]]  # a text to the tokens an index makes of it
_runs = re.compile(r"\w+")


class Span(NamedTuple):
    """Where a text holds a token."""

    start: int
    end: int
    token: str


def matches(text: str, tokens: set[str], words: Words) -> list[Span]:
    """Where the beginning of the text holds the tokens, in order.

    Matches are whole words, and pairs of characters in scripts without spaces.
    """
    known: dict[str, list[Span]] = {}  # a word's matches, counted from its own start
    spans: list[Span] = []
    for run in _runs.finditer(text, 0, LOOKED_AT):
        if run.end() == LOOKED_AT < len(text):
            break  # half of a word
        word, at = run.group(), run.start()
        if word not in known:
            known[word] = _matches_in_word(word, tokens, words)
        spans += [Span(at + start, at + end, token) for start, end, token in known[word]]
    return spans


def excerpt(text: str, tokens: set[str], words: Words, width: int, lead: int) -> tuple[int, int]:
    """Start and end of at most `width` characters around the most different tokens that lie close together.

    The excerpt begins about `lead` characters before them, and both ends are between words where a space is near.
    """
    if len(text) <= width:
        return 0, len(text)
    first = _best_start(matches(text, tokens, words), min(NEAR, width - 2 * lead))
    start = 0 if first <= 2 * lead else _after_space(text, first - 2 * lead, first - lead)
    if start + width >= len(text):
        return start, len(text)
    return start, max(_after_space(text, start + width // 2, start + width) - 1, start + width // 2)


def words_of(encoder_options: Mapping[str, Any]) -> Words:
    """Return how an index with this encoder makes tokens of a text."""
    language = encoder_options.get("language")
    return Analyzer(language).words if language else lambda text: [text]


def _matches_in_word(word: str, tokens: set[str], words: Words) -> list[Span]:
    parts = words(word)
    if len(parts) == 1:
        return [Span(0, len(word), parts[0])] if parts[0] in tokens else []
    lower = word.lower()
    places = ((max(0, lower.find(token)), token) for token in tokens.intersection(parts))
    return sorted(Span(at, at + len(token), token) for at, token in places)


def _best_start(spans: Sequence[Span], width: int) -> int:
    """Where to begin so that the most different tokens come within the width; the first such place."""
    best = most = last = 0
    near: Counter[str] = Counter()
    for span in spans:
        while last < len(spans) and spans[last].start <= span.start + width:
            near[spans[last].token] += 1
            last += 1
        if len(near) > most:
            best, most = span.start, len(near)
        near[span.token] -= 1
        if not near[span.token]:
            del near[span.token]
    return best


def _after_space(text: str, start: int, end: int) -> int:
    """The place after the last space between two places; the second one where there is no space."""
    space = max(text.rfind(char, start, end) for char in " \n")
    return end if space < 0 else space + 1
