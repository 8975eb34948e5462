"""Whether a text is a program or a file of settings, whose lines with a number sign are comments and no headings."""

from __future__ import annotations

import re
from collections.abc import Sequence

from denslice.corpus.text_lines import Block, TextLine, spans_outside

FEWEST_SETTINGS = 5  # lines; fewer may be those of prose
SAMPLE_LINES = 200  # from which settings are recognised
_PROGRAM = (
    r"(?:#!|#(?:include|define|ifdef|ifndef|endif|pragma)\b|import [\w.]+(?: as \w+)?$|from [\w.]+ import "
    r"|(?:async )?def \w+\(|class \w+[(:]|<\?php|use (?:strict|warnings)|package [\w.:]+;|sub \w+ ?\{|proc \S+ \{"
    r"|\w+ ?\(\) ?\{$|[\w.]+ <- function\(|\.PHONY ?:|[\w.-]+ ?[:?+]= |(?:set|if|endif|include|macro)\(.*\)$)"
)
_begins_program = re.compile(_PROGRAM, re.MULTILINE).match
_is_of_program = re.compile(rf"\n{_PROGRAM}", re.MULTILINE).search  # far faster to find than with ^
_setting = re.compile(r"(?:- )?[\"']?[\w.@/$-]+[\"']?[ \t]*(?::(?=\s|$)|=)|\[[^\]]+\]+$|[\[\]{}]|[\"'].*[\"'],?$").match


def is_program(text: str, lines: Sequence[TextLine], fenced: Sequence[Block]) -> bool:
    """Return whether a text has a line outside its code blocks that only a program has, or consists of settings."""
    if _begins_program(text) or any(_is_of_program(text, *span) for span in spans_outside(lines, fenced)):
        return True
    return not fenced and _is_settings(lines)


def _is_settings(lines: Sequence[TextLine]) -> bool:
    """Return whether nearly all lines, but for comments and items of lists, set a name to a value."""
    bodies = [line.body for line in lines[:SAMPLE_LINES] if line.body[:1] not in ("#", "")]
    others = [body for body in bodies if not _setting(body)]
    prose = sum(not body.startswith("- ") for body in others)
    return len(bodies) - len(others) >= FEWEST_SETTINGS and 10 * prose <= len(bodies) - len(others)
