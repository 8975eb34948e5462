"""The language of a text."""

from __future__ import annotations

from denslice.analysis.languages import ENGLISH, SCRIPTS, script_of


def recognised(text: str) -> str:
    """Return the language of a text, English if it is not clear."""
    if text.isascii():
        return ENGLISH
    script = script_of(text)
    return SCRIPTS[script][0] if script else ENGLISH
