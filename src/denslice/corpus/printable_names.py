"""The names of files as printable text, since any bytes but / and NUL may be in a name and an id is printed.

Bytes that are not UTF-8, and those of characters that cannot be printed, are written as % and two hexadecimal digits in
upper case: a line feed is %0A. A % before two such digits is written as %25, and any other % stays. So two names never
have the same text.
"""

from __future__ import annotations

import os
import re

_ambiguous = re.compile("%(?=[0-9A-F]{2})")
_escaped = re.compile(rb"%([0-9A-F]{2})")


def printable_name(name: str) -> str:
    """Return the text of a file's name or path, as Python gives it: undecodable bytes are surrogates."""
    if "%" in name:
        name = _ambiguous.sub("%25", name)
    return name if name.isprintable() else "".join(map(_printable, name))


def original_name(text: str) -> str:
    """Return the name or path that has this text: one that opens the file."""
    return os.fsdecode(_escaped.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode()))


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode(errors="surrogateescape"))
