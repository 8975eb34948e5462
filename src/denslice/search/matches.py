"""Where a text contains the tokens of a query, so that they can be marked, and which excerpt of the text to show.

Only the beginning of a text is searched, so that the time to show a hit is bounded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from denslice.analysis.analyzer import Analyzer

MATCHED_CHARACTERS = 20_000  # characters of a text in which tokens are searched
EXCERPT_WINDOW = 300  # characters in which an excerpt has the most different tokens
TextAnalyzer = Callable[[str], list[str]]  # turns a text into the tokens that an index stores for it
_runs = re.compile(r"\w+")


class Span(NamedTuple):
    """The place of a token in a text."""

    start: int
    end: int
    token: str


def matches(text: str, tokens: set[str], analyze: TextAnalyzer) -> list[Span]:
    """Return the places of the tokens at the beginning of the text, in order.

    Matches are whole words, and pairs of characters in scripts without spaces.
    """
    known: dict[str, list[Span]] = {}  # the matches of a word, counted from its start
    spans: list[Span] = []
    for run in _runs.finditer(text, 0, MATCHED_CHARACTERS):
        if run.end() == MATCHED_CHARACTERS < len(text):
            break  # the word goes on
        word, at = run.group(), run.start()
        if word not in known:
            known[word] = _matches_in_word(word, tokens, analyze)
        spans += [Span(at + start, at + end, token) for start, end, token in known[word]]
    return spans


def excerpt(text: str, tokens: set[str], analyze: TextAnalyzer, width: int, lead: int) -> tuple[int, int]:
    """Return start and end of an excerpt of at most `width` characters with the most different tokens near each other.

    The excerpt begins about `lead` characters before them. Both ends are between words if a space is near.
    """
    if len(text) <= width:
        return 0, len(text)
    first = _best_start(matches(text, tokens, analyze), min(EXCERPT_WINDOW, width - 2 * lead))
    start = 0 if first <= 2 * lead else _after_space(text, first - 2 * lead, first - lead)
    if start + width >= len(text):
        return start, len(text)
    return start, max(_after_space(text, start + width // 2, start + width) - 1, start + width // 2)


def text_analyzer(encoder_options: Mapping[str, Any]) -> TextAnalyzer:
    """Return the analyzer of an index whose encoder has these options."""
    if "analysis" not in encoder_options:
        return lambda text: [text]
    return Analyzer(encoder_options["language"]).words


def _matches_in_word(word: str, tokens: set[str], analyze: TextAnalyzer) -> list[Span]:
    parts = analyze(word)
    if len(parts) == 1:
        return [Span(0, len(word), parts[0])] if parts[0] in tokens else []
    lower = word.lower()
    places = ((max(0, lower.find(token)), token) for token in tokens.intersection(parts))
    return sorted(Span(at, at + len(token), token) for at, token in places)


def _best_start(spans: Sequence[Span], width: int) -> int:
    """Return the first place from which the most different tokens lie within the width."""
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
    """Return the place after the last space between two places, or the second place if there is no space."""
    space = max(text.rfind(char, start, end) for char in " \n")
    return end if space < 0 else space + 1
