"""Where a text contains the tokens of a query, so that they can be marked, and which excerpt of the text to show.

Only the beginning of a text is searched, so that the time to show a hit is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from denslice.analysis.analyzer import Analyzer
from denslice.analysis.languages import ENGLISH
from denslice.analysis.scripts import ngram_size

MATCHED_CHARACTERS = 20_000  # characters of a text in which tokens are searched
EXCERPT_WINDOW = 300  # characters in which an excerpt has the most different tokens


class Span(NamedTuple):
    """The place of a token in a text."""

    start: int
    end: int
    token: str


TextAnalyzer = Callable[[str], Sequence[Span]]  # finds all tokens that an index would store for a text


def matches(text: str, tokens: set[str], analyze: TextAnalyzer) -> list[Span]:
    """Return the places of the tokens at the beginning of the text, in order, each place once.

    Matches are whole words, and pairs of characters in scripts without spaces. A word within another that matches is
    left out, such as a part of an identifier.
    """
    found: list[Span] = []
    for span in analyze(text[:MATCHED_CHARACTERS]) if tokens else ():
        if span.end == MATCHED_CHARACTERS < len(text):
            break  # the word goes on
        if span.token in tokens and not (found and found[-1].start <= span.start and span.end <= found[-1].end):
            found.append(span)
    return found


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


def text_analyzer(encoder_options: Mapping[str, Any], languages: Iterable[str] = ()) -> TextAnalyzer:
    """Return what finds the tokens of texts of these languages, for an index whose encoder has these options.

    Encoders that have no words have no tokens that could be found in a text.
    """
    if "analysis" not in encoder_options:
        return lambda text: ()
    analyzer = Analyzer(encoder_options["language"])
    known = [analyzer.language] if analyzer.language else list(languages) or [ENGLISH]

    def analyze(text: str) -> list[Span]:
        found: list[Span] = []
        for form, start, end in analyzer.spans(text):
            found += [Span(start, end, token) for token in _tokens(analyzer, form, known)]
            if ngram_size(form) and len(form) == end - start == 2:
                found += [Span(start + at, start + at + 1, char) for at, char in enumerate(form)]
        return found

    return analyze


def _tokens(analyzer: Analyzer, form: str, languages: Iterable[str]) -> dict[str, None]:
    """Return the tokens of a word in all languages, without the characters of a pair."""
    tokens = (term.token for language in languages for term in analyzer.terms(form, language).terms)
    return dict.fromkeys([form] if ngram_size(form) else tokens)


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
