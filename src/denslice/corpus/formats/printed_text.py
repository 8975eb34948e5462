"""Text as it was printed, made into text that can be searched: no ligatures, and words whole that a line end cuts."""

from __future__ import annotations

import re

LIGATURES = {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"}
HYPHEN = "\ufffe"  # what PDFium returns for a hyphen at the end of a line, in place of the line end as well
CHAR_HYPHEN = "\x02"  # the same, if it is asked for a single character
LONGEST_WORD = 40  # characters that are looked at before a hyphen
CONJUNCTIONS = frozenset(("and", "or", "und", "oder"))  # after the hyphen of "pre- and postwar"
_controls = dict.fromkeys((*range(9), *range(14, 32), 127, 0xFFFF), "") | {11: "\n", 12: " ", ord(CHAR_HYPHEN): HYPHEN}
_characters = str.maketrans(LIGATURES) | _controls
_soft_hyphens = re.compile("\u00ad\n?")
_line_hyphens = re.compile(f"(?<=[^\\W\\d_])(?:{HYPHEN}\\n?|[-‐]\\n)(?=([^\\W_]+))")


def searchable_text(printed: str) -> str:
    """Return the text of a page with LF line ends, letters for ligatures, and without the hyphens of line ends.

    A hyphen stays if a capital or a digit follows it, or if its word has another one, as "state-of-the-art" does.
    """
    text = printed.replace("\r\n", "\n").replace("\r", "\n").translate(_characters)
    text = _line_hyphens.sub(_joint, _soft_hyphens.sub("", text))
    return text.replace(HYPHEN, "-").strip()


def _joint(match: re.Match[str]) -> str:
    """Return what is to stand between the two parts of a word in place of a hyphen and a line end."""
    start = match.start()
    before = match.string[max(0, start - LONGEST_WORD) : start].split()[-1]
    after = match[1]
    if after in CONJUNCTIONS:
        return "- "
    if not after[0].islower():
        return "-" if match[0][0] == HYPHEN else match[0]
    return "-" if "-" in before else ""
