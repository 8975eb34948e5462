"""Mailboxes in mbox: messages one after the other, each after a line that begins with `From `.

A mailbox may be larger than memory: it is read line by line, and only one message is held at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from denslice.corpus.formats.mail_messages import message_doc, parsed_message
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.lines import reading
from denslice.errors import UnreadableError
from denslice.records import Doc

LARGEST_MESSAGE = 64 << 20  # bytes, with its attachments
LONGEST_READ = 1 << 20  # bytes of a line that are read at once
_dated = re.compile(rb"From .*\d:\d\d.*\b\d{4}\b")  # so that a sentence that begins with From starts no message
_undated = re.compile(rb"From ")  # of a mailbox that does not give dates
_escaped = re.compile(rb">+From ")


def read_mbox(file: SourceFile) -> Iterator[Doc]:
    """Yield the messages of a mailbox. One that is too large or malformed is left out and reported."""
    with reading(file.path), file.open() as stream:
        for line, raw in _messages(stream):
            try:
                if raw is None:
                    raise UnreadableError("large message", f"a message larger than {LARGEST_MESSAGE >> 20} MB")
                yield message_doc(file, parsed_message(raw), line)
            except UnreadableError as error:
                kind = "damaged message" if error.kind == "damaged file" else error.kind
                file.skip(kind, str(error), line)


def _messages(stream: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Yield the number of each message's first line and its bytes, or None if it is too large."""
    lines = _lines(stream)
    number, first = next(((at, line) for at, line in lines if line.strip()), (1, b"From "))
    if not first.startswith(b"From "):
        raise UnreadableError("damaged file", "not a mailbox: it does not begin with a line 'From …'")
    separator = _dated if _dated.match(first) else _undated
    held, size, is_after_blank = bytearray(), 0, False
    for at, line in lines:
        if is_after_blank and separator.match(line):
            yield number, bytes(held) if size <= LARGEST_MESSAGE else None
            held, size, number = bytearray(), 0, at
        else:
            size += len(line)
            if size <= LARGEST_MESSAGE:
                held += line[1:] if _escaped.match(line) else line
        is_after_blank = line in (b"\n", b"\r\n")
    if size:
        yield number, bytes(held) if size <= LARGEST_MESSAGE else None


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each line, from 1, and its bytes; a very long line comes in several pieces."""
    number = 1
    while line := stream.readline(LONGEST_READ):
        yield number, line
        number += line.endswith(b"\n")
