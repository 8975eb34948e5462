"""Text in the character set that a page or a message declares, or else in the one that it most likely is."""

from __future__ import annotations

import codecs
import re

from denslice.corpus.text_encodings import BYTE_ORDER_MARKS, SAMPLE, decoded

# What browsers read in place of what is declared: the larger sets that programs in fact write.
LARGER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
NO_TEXT = frozenset({"idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "utf-7"})
MOST_DAMAGE = 0.01  # of the characters, or of the bytes that are zero; with more, the declaration is wrong
_declared = re.compile(
    rb"""<(?:meta|\?xml)\b[^<>]{0,999}?\b(?:charset|encoding)\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE
)


def decoded_as(raw: bytes, declared: str | None) -> str:
    """Return the bytes as text with LF line ends; raise UnreadableError if they are no text in any encoding.

    The declared encoding is used if Python knows it and nearly all bytes are valid in it.
    """
    encoding = text_codec(declared or "")
    zeros = raw.count(b"\0", 0, SAMPLE)
    if encoding is None or zeros > MOST_DAMAGE * len(raw[:SAMPLE]) or raw.startswith(tuple(BYTE_ORDER_MARKS)):
        return decoded(raw)
    try:
        text = raw.decode(encoding, "replace")
    except LookupError:  # a codec that does not make text
        return decoded(raw)
    if text.count("\ufffd") > MOST_DAMAGE * len(text):
        return decoded(raw)
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")


def page_charset(raw: bytes) -> str | None:
    """Return the encoding that an HTML or XHTML page declares near its beginning."""
    found = _declared.search(raw[:4096])
    return found[1].decode("ascii", "replace") if found else None


def text_codec(declared: str) -> str | None:
    """Return the codec of a declared encoding, or None if there is none for text."""
    try:
        name = codecs.lookup(declared.strip("\"' ")).name
    except (LookupError, ValueError, UnicodeError):
        return None
    if name in NO_TEXT or name.startswith(("utf-16", "utf-32")):  # which a page in them could not declare
        return None
    return LARGER.get(name, name)
