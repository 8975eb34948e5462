"""The encodings of texts: UTF-8 if the bytes allow it, else what they most likely are."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from denslice.corpus.legacy_encodings import legacy_encoding
from denslice.errors import UnreadableError

BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
SAMPLE = 1 << 16  # bytes from which an encoding is recognised
FEW = 0.05  # of the characters of a text may be control characters
REPLACEMENT = "\ufffd"
Ranges = tuple[tuple[int, int], ...]  # of characters, with their ends
_ASCII: Ranges = ((0x09, 0x0D), (0x20, 0x7E), (0x2010, 0x2027))  # and dashes and quotes
ALPHABETS: tuple[Ranges, ...] = (
    (*_ASCII, (0xA0, 0x06FF), (0x1E00, 0x22FF)),
    (*_ASCII, (0x0900, 0x0EFF)),  # Indian scripts and Thai
)
ASIAN_SCRIPTS: tuple[Ranges, ...] = (
    (*_ASCII, (0x3000, 0x31FF), (0x4E00, 0x9FFF), (0xFF00, 0xFFEF)),  # Chinese and Japanese
    (*_ASCII, (0x3000, 0x303F), (0xAC00, 0xD7A3)),  # Korean
)
_signature = re.compile(  # of files that may have few control characters; the last is that of pickle
    rb"\x89PNG|\x7fELF|%PDF-|PK\x03\x04|\x1f\x8b|\xff\xd8\xff|\xd0\xcf\x11\xe0|\x80[\x02-\x05]"
)
_control = re.compile(rb"[\x00-\x07\x0e-\x19\x1c-\x1f\x7f]")  # without those of logs and old texts
_high = re.compile(rb"[\x80-\xff]")


def encoding_of(raw: bytes) -> str:
    """Return the encoding of a text, given its beginning or all of it; raise UnreadableError if it is no text.

    A few bytes of the text may not be valid in it.
    """
    marked = (encoding for mark, encoding in BYTE_ORDER_MARKS.items() if raw.startswith(mark))
    encoding = next(marked, None) or _wide_encoding(raw) or _narrow_encoding(raw)
    if encoding is None or _signature.match(raw) or (is_wide(encoding) and not _is_readable(raw, encoding)):
        raise UnreadableError("binary", "not a text in any encoding that is known")
    return encoding


def decoded(raw: bytes) -> str:
    """Return the bytes of a whole file as text with LF line ends; raise UnreadableError if they are no text."""
    text = raw.decode(encoding_of(raw), errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")


def is_wide(encoding: str) -> bool:
    """Return whether every character has several bytes, so that a line does not end with one."""
    return encoding.startswith(("utf-16", "utf-32"))


# --- UTF-16 and UTF-32


def _wide_encoding(raw: bytes) -> str | None:
    """Return UTF-16 or UTF-32 without a byte order mark, or None: only they and binaries have many control bytes."""
    sample = raw[:SAMPLE]
    controls = len(_control.findall(sample))
    is_utf8 = _is_utf8(sample.replace(b"\0", b""))
    if controls <= (max(1, FEW * len(sample)) if is_utf8 else 0.01 * len(sample)) or len(sample) % 2:
        return None
    if len(sample) % 4 == 0 and not any(sample[::4]) and max(sample[1::4]) < 17:
        return "utf-32-be"
    if len(sample) % 4 == 0 and not any(sample[3::4]) and max(sample[2::4]) < 17:
        return "utf-32-le"
    families = ALPHABETS if is_utf8 else (*ALPHABETS, *ASIAN_SCRIPTS)  # the latter would have bytes beyond ASCII
    likeness, encoding = max((_likeness_to_utf16(sample, one, families), one) for one in ("utf-16-be", "utf-16-le"))
    return encoding if likeness >= 0.9 else None


def _likeness_to_utf16(sample: bytes, encoding: str, families: Sequence[Ranges]) -> float:
    """Return the share of the characters that are of one family of scripts, the first if two are as likely.

    In the wrong byte order, English looks like rare Chinese.
    """
    characters = np.frombuffer(sample, ">u2" if encoding == "utf-16-be" else "<u2")
    inside = [np.logical_or.reduce([_between(characters, *one) for one in family]) for family in families]
    return max(float(one.mean()) - 0.01 * number for number, one in enumerate(inside))


def _between(characters: NDArray[np.uint16], low: int, high: int) -> NDArray[np.bool_]:
    return (characters >= low) & (characters <= high)


def _is_readable(raw: bytes, encoding: str) -> bool:
    """Return whether nearly all characters at the beginning of a text can be printed."""
    text = raw[:SAMPLE].decode(encoding, errors="replace")
    unreadable = sum(not (one.isprintable() or one.isspace()) or one == REPLACEMENT for one in text)
    return unreadable <= max(1, FEW * len(text))


# --- encodings in which ASCII is ASCII


def _narrow_encoding(raw: bytes) -> str | None:
    """Return UTF-8 or a legacy encoding, or None if a file is no text."""
    sample, is_utf8 = raw[:SAMPLE], _is_utf8(raw)
    if (not is_utf8 or b"\0" in sample) and _is_binary(sample):
        return None
    if b"\x1b$B" in sample or b"\x1b$@" in sample:
        return "iso2022_jp"
    if is_utf8 or _is_damaged_utf8(raw):
        return "utf-8"
    start = max(0, first.start() - SAMPLE // 2) if (first := _high.search(raw)) else 0
    near = raw[start : start + SAMPLE]
    is_mostly_ascii = len(_high.findall(near)) < 0.3 * len(near)
    return legacy_encoding(near) or ("utf-8" if is_mostly_ascii else None)


def _is_binary(sample: bytes) -> bool:
    """Return whether bytes have more control characters than a text, or several zeros in a row."""
    text = sample.rstrip(b"\0")  # which fill up some files, such as logs after a crash
    is_filled = len(text) < len(sample) / 2
    return is_filled or b"\0\0\0" in text or len(_control.findall(text)) > max(1, FEW * len(text))


def _is_utf8(raw: bytes) -> bool:
    """Return whether the bytes are UTF-8, but for a character that the end of a sample may cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(raw, final=len(raw) != SAMPLE)
    except UnicodeDecodeError:
        return False
    return True


def _is_damaged_utf8(raw: bytes) -> bool:
    """Return whether far more characters beyond ASCII are valid UTF-8 than not."""
    text = raw.decode("utf-8", errors="replace")
    invalid = text.count(REPLACEMENT)
    return len(text) - len(text.encode("ascii", errors="ignore")) >= 10 * invalid
