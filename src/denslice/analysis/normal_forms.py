"""The normal form of a word, by which words are compared: NFKC, casefolded, with ASCII digits and without points.

Points are what writers may leave out: the vowel points of Arabic and Hebrew, soft hyphens, joiners. An accent is kept;
`without_accents` removes it.
"""

from __future__ import annotations

import unicodedata

import regex

_has_decimal = regex.compile(r"(?V1)[\p{Nd}--[0-9]]").search
# Vowel points and signs of Arabic and Hebrew, the dot that casefolding leaves of a Turkish İ, and what has no width.
_points = regex.compile(
    r"(?V1)[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc"
    r"\u06df-\u06e8\u06ea-\u06ed]|(?<=i)\u0307|\p{Cf}"
)
# A mark above or below a letter of an alphabet in which marks are accents. In others, such as Devanagari, marks are
# vowels; of the Cyrillic letters only ё is written as another, and a stress mark may be on any.
_accents = regex.compile(
    r"(?<=[\p{Latin}\p{Greek}][\u0300-\u036f]*)[\u0300-\u036f]|(?<=е)\u0308|(?<=\p{Cyrillic})\u0301"
)
_plain_letters = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "ŧ": "t", "æ": "ae", "œ": "oe", "þ": "th", "ŋ": "n"}
)


def normal_form(text: str) -> str:
    """Return the normal form of a text; the same one for texts that are canonically equivalent, such as NFC and NFD."""
    if text.isascii():
        return text.lower()
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    text = unicodedata.normalize("NFC", _points.sub("", text))
    return _with_ascii_digits(text) if _has_decimal(text) else text


def without_accents(word: str) -> str:
    """Return a word in normal form without the accents of Latin, Greek and Cyrillic letters."""
    if word.isascii():
        return word
    bare = _accents.sub("", unicodedata.normalize("NFD", word))
    return unicodedata.normalize("NFC", bare).translate(_plain_letters)


def well_formed(text: str) -> str:
    """Return the text with a question mark for each half of a surrogate pair, which tokenizers refuse."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def lower_case(text: str) -> str:
    """Return the text in lower case, of the same length: characters whose lower case is longer stay."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c if len(c.lower()) != 1 else c.lower() for c in text)


def _with_ascii_digits(text: str) -> str:
    return "".join(str(unicodedata.decimal(char)) if char.isdecimal() else char for char in text)
