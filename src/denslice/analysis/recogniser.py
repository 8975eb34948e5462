"""The language of a text."""

from __future__ import annotations

from collections.abc import Mapping

from denslice.analysis.languages import ENGLISH, SCRIPTS, script_of


def recognised(text: str) -> str:
    """Return the language of a text, English if it is not clear."""
    if text.isascii():
        return ENGLISH
    script = script_of(text)
    return SCRIPTS[script][0] if script else ENGLISH


def recognised_among(text: str, counts: Mapping[str, int]) -> list[str]:
    """Return the languages that a query may be in, given how many passages of a collection have each."""
    return list(counts) or [recognised(text)]
