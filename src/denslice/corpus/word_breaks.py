"""Word breaks: between which characters a text may be cut, where it has no better place.

Words of most scripts have spaces between them. Chinese and Japanese may be cut between any two characters; Thai, Lao,
Khmer and Myanmar before a base letter. What combines with the character before it is never separated from that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import category

_IDEOGRAPHS = (
    "\u3005-\u3007\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f"  # Thai, Lao, Myanmar, Khmer
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"  # they follow the character whose variant they select
_is_ideograph = re.compile(f"[{_IDEOGRAPHS}{_SELECTORS}]").match
_is_unspaced = re.compile(f"[{_UNSPACED}]").match
# ZWNJ and ZWJ, viramas that stack the next letter, and vowels that are written before their consonant
_JOINS_NEXT = frozenset("\u200c\u200d\u1039\u17d2\u0e40\u0e41\u0e42\u0e43\u0e44\u0ec0\u0ec1\u0ec2\u0ec3\u0ec4")
# ZWNJ and ZWJ, vowels that are letters to Unicode but follow a consonant, and half-width voicing marks
_JOINS_LAST = frozenset("\u200c\u200d\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3\uff9e\uff9f")
_is_emoji_part = re.compile("[\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\udc00-\udfff]").match  # skin tone, tag, half
_is_flag_letter = re.compile("[\U0001f1e6-\U0001f1ff]").match
# After a space, also one without width. Where there are none, as in minified JSON and HTML, after what ends a value.
_candidates = re.compile(
    r"(?<=\s)(?=\S)|(?<=\u200b)(?=[^\s\u200b])"
    rf"|(?<=[\u3000-\u303f\uff01-\uff65{_IDEOGRAPHS}{_SELECTORS}{_UNSPACED}])(?=\w)"
    r"|(?<=[,;|}>])(?=[\"'<{\[$A-Za-z_])"
)


def word_breaks(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the places after `start` and before `end` at which a text may be cut between words.

    Within a run of letters, a passage repeats at least the character before it; so this one must be able to start it.
    """
    is_plain = text.isascii()
    for match in _candidates.finditer(text, start + 1, end):
        at = match.start()
        if at < end and (is_plain or (may_cut(text, at) and _may_repeat(text, at))):
            yield at


def _may_repeat(text: str, at: int) -> bool:
    repeated = last_character(text, at)
    return not is_within_word(text, at) or repeated == 0 or may_cut(text, repeated)


def may_cut(text: str, at: int) -> bool:
    """Return whether a cut here leaves every word whole, and every character with the marks that combine with it."""
    last, after = text[at - 1], text[at]
    if last in "\n " and after < "\u0300":  # the first mark that combines with a character; most cuts are these
        return True
    if _joins(last, after):
        return False
    return not is_within_word(text, at) or _is_between_letters(last, after)


def is_within_word(text: str, at: int) -> bool:
    """Return whether the characters before and after a place belong to one run of letters, digits and marks."""
    return _is_of_word(text[at - 1]) and _is_of_word(text[at])


def last_character(text: str, at: int) -> int:
    """Return where the character before a place starts, together with the marks that combine with it."""
    at -= 1
    while at > 0 and _joins(text[at - 1], text[at]):
        at -= 1
    return at


def _joins(last: str, after: str) -> bool:
    """Return whether two neighbours are one character to a reader."""
    if category(after).startswith("M"):
        return True
    if last.isspace():
        return False
    if last in _JOINS_NEXT or after in _JOINS_LAST or _is_emoji_part(after):
        return True
    return bool(_is_flag_letter(last) and _is_flag_letter(after))


def _is_of_word(char: str) -> bool:
    return char.isalnum() or char == "_" or category(char).startswith("M")


def _is_between_letters(last: str, after: str) -> bool:
    """Return whether two characters of a run are of a script whose words have no spaces between them."""
    if _is_ideograph(last) and _is_ideograph(after):
        return True
    return bool(_is_unspaced(last) and _is_unspaced(after)) and after.isalpha()
