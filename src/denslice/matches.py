"""Where a text holds the tokens an index knows it by, so that they can be marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from denslice.encoders.text import Analyzer

Words = Callable[[str], list[str]]  # a text to the tokens an index makes of it


class Span(NamedTuple):
    """Where a text holds a token."""

    start: int
    end: int
    token: str


def matches(text: str, tokens: set[str], words: Words) -> list[Span]:
    """Where the text holds the tokens, in order: whole words, and pairs of characters in scripts without spaces."""
    spans = []
    for run in re.finditer(r"\w+", text):
        parts = words(run.group())
        for token in tokens.intersection(parts):
            at = run.start() + max(0, run.group().lower().find(token))
            spans.append(Span(run.start(), run.end(), token) if len(parts) == 1 else Span(at, at + len(token), token))
    return sorted(spans)


def words_of(info: Mapping[str, Any]) -> Words:
    """How the index that tells this of itself makes tokens of a text."""
    language = info["encoder_options"].get("language")
    return Analyzer(language).words if language else lambda text: [text]
