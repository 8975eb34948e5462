"""Code blocks of Markdown, for formats whose text is turned into it."""

from __future__ import annotations

import re

_ticks = re.compile(r"^[ \t]*(`{3,})", re.MULTILINE)


def fenced_code(code: str, language: str = "") -> str:
    """Return code between fences that are longer than any within it, without blank lines around it."""
    fence = "`" * max([2, *(len(ticks) for ticks in _ticks.findall(code))]) + "`"
    inner = code.strip("\n")
    return f"{fence}{language}\n{inner}\n{fence}"
