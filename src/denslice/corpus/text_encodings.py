"""The encodings of texts: UTF-8 if the bytes allow it, else what they most likely are."""

from __future__ import annotations

import codecs

from denslice.errors import UnreadableError

BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
SAMPLE = 1 << 16  # bytes from which an encoding is recognised


def encoding_of(raw: bytes) -> str:
    """Return the encoding of a text, given its beginning or all of it; raise UnreadableError if it is no text."""
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if raw.startswith(mark):
            return encoding
    if b"\0" not in raw[:SAMPLE] and _is_utf8(raw):
        return "utf-8"
    return _recognised(raw[:SAMPLE])


def decoded(raw: bytes) -> str:
    """Return the bytes of a whole file as text with LF line ends; raise UnreadableError if they are no text."""
    try:
        text = raw.decode(encoding_of(raw))
    except UnicodeDecodeError:
        text = raw.decode(_recognised(raw[:SAMPLE]), errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")


def _is_utf8(raw: bytes) -> bool:
    """Return whether the bytes are UTF-8, but for a character that the end may cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(raw)
    except UnicodeDecodeError:
        return False
    return True


def _recognised(sample: bytes) -> str:
    from charset_normalizer import from_bytes

    best = None if _is_binary(sample) else from_bytes(sample).best()
    if best is None:
        raise UnreadableError("binary", "not a text in any encoding that is known")
    return best.encoding


def _is_binary(sample: bytes) -> bool:
    """Return whether bytes cannot be text: zeros are, but for every second byte, as in UTF-16 of English."""
    zeros = sample.count(b"\0")
    even, odd = sample[::2].count(b"\0"), sample[1::2].count(b"\0")
    return zeros > 0 and not (max(even, odd) > 0.2 * len(sample) and min(even, odd) < 0.01 * len(sample))
