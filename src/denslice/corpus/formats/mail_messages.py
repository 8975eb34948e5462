"""E-mail: the text of messages, and what their headers say. The text of attachments is not read, only their names.

Messages are parsed with the older of the two policies of Python's `email`, which keeps headers as they are: the newer
one is slow on long headers and raises errors on malformed ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from typing import Any

from denslice.corpus.formats.declared_charsets import decoded_as, text_codec
from denslice.corpus.formats.html_text import parsed_html, text_without_tree, visible_text
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.text_encodings import BYTE_ORDER_MARKS, SAMPLE, decoded
from denslice.errors import UnreadableError
from denslice.records import Doc
from denslice.scalars import python_scalar

LONGEST_HEADER = 1 << 16  # characters; what follows is ignored
MOST_NAMES = 1000  # of recipients, and of attachments
MOST_STEPS = 1 << 30  # lines times boundaries, since the parser looks in each line for those of all parts around it
MALFORMED = (MessageError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def read_eml(file: SourceFile) -> Iterator[Doc]:
    """Yield a message as one document: its subject is the title."""
    raw = file.data()
    message = parsed_message(raw)
    if not message.keys() and (b"\0" in raw[:SAMPLE] or raw.startswith(tuple(BYTE_ORDER_MARKS))):
        message = parsed_message(decoded(raw).encode("utf-8", "replace"))  # in UTF-16, or binary, which is an error
    yield message_doc(file, message)


def parsed_message(raw: bytes) -> Message:
    """Return the message of these bytes; raise UnreadableError if it is malformed beyond reading."""
    if raw.count(b"\n") * raw.lower().count(b"boundary") > MOST_STEPS:
        raise UnreadableError("damaged file", "a message of too many nested parts")
    try:
        return message_from_bytes(raw)
    except RecursionError:
        raise UnreadableError("damaged file", "a message whose parts are nested too deeply") from None
    except MALFORMED as error:
        raise UnreadableError("damaged file", f"a malformed message ({error})") from None


def message_doc(file: SourceFile, message: Message, line: int | None = None) -> Doc:
    """Return the document of a message, without an id. Text that cannot be decoded is left out and reported."""
    lost: list[str] = []
    try:
        text = "\n\n".join(filter(None, (text.strip("\n") for text in _texts(message, lost))))
        doc = Doc("", text, header_text(message, "Subject"), _metadata(message))
    except RecursionError:
        raise UnreadableError("damaged file", "a message whose parts are nested too deeply") from None
    for problem in lost:
        file.skip("unreadable part", problem, line)
    return doc


def header_text(message: Message, name: str) -> str:
    """Return a header on one line, decoded; nothing if there is none."""
    return _decoded_words(_header(message, name))


def decoded_part(part: Message) -> str:
    """Return the text of a part in its character set; raise UnreadableError if it is no text in any."""
    try:
        raw = part.get_payload(decode=True)
    except MALFORMED as error:
        raise UnreadableError("damaged file", f"a part cannot be decoded ({error})") from None
    return decoded_as(raw, _parameter(part, "charset")) if isinstance(raw, bytes) else ""


def _texts(part: Message, lost: list[str]) -> Iterator[str]:
    """Yield the texts of a part that a reader would see, in their order; add the problems of the others to `lost`."""
    kind = part.get_content_type()
    if part.is_multipart():
        parts = [inner for inner in part.get_payload() if isinstance(inner, Message) and not _is_attachment(inner)]
        if kind == "multipart/alternative":
            yield from _best(parts, lost)
        else:
            for inner in parts:
                yield from _texts(inner, lost)
    elif kind in ("text/plain", "text/markdown", "text/html") or kind.startswith("multipart/"):  # without a boundary
        try:
            text = decoded_part(part)
            yield _html_text(text) if kind == "text/html" else text
        except UnreadableError as error:
            lost.append(str(error))


def _best(parts: list[Message], lost: list[str]) -> list[str]:
    """Return the texts of the first of several alternatives that has text, those with HTML last."""
    for part in sorted(parts, key=_holds_html):
        if texts := [text for text in _texts(part, lost) if text.strip()]:
            return texts
    return []


def _holds_html(part: Message) -> bool:
    return any(inner.get_content_type() == "text/html" for inner in part.walk())


def _html_text(page: str) -> str:
    tree = parsed_html(page)
    return text_without_tree(page) if tree is None else visible_text(tree)


def _is_attachment(part: Message) -> bool:
    """Return whether a part is a file of its own: it says so, or it has a name."""
    return _header(part, "Content-Disposition").lower().startswith("attachment") or bool(_file_name(part))


def _metadata(message: Message) -> dict[str, Any]:
    senders, recipients = (_people(message, name) for name in ("From", "To"))
    name, address = next(iter(senders), ("", header_text(message, "From")))
    attached = [_file_name(part) for part in message.walk()]
    fields = {
        "author": name or address,
        "from": address if name else "",
        "to": [address or name for name, address in recipients],
        "date": _iso_date(_header(message, "Date")),
        "attachments": list(filter(None, attached))[:MOST_NAMES],
    }
    return {name: value for name, value in fields.items() if value}


def _people(message: Message, header: str) -> list[tuple[str, str]]:
    """Return the names and addresses in a header."""
    try:
        found = getaddresses([_header(message, header)])
    except MALFORMED:
        return []
    people = ((_decoded_words(name), _decoded_words(address)) for name, address in found[:MOST_NAMES])
    return [person for person in people if any(person)]


def _iso_date(value: str) -> str:
    """Return the date of a header as ISO 8601 in UTC, or nothing if it is none."""
    try:
        return str(python_scalar(parsedate_to_datetime(value)))
    except MALFORMED:
        return ""


def _file_name(part: Message) -> str:
    try:
        return _decoded_words(str(part.get_filename() or "")[:LONGEST_HEADER])
    except MALFORMED:
        return ""


def _parameter(part: Message, name: str) -> str | None:
    try:
        value = part.get_param(name)
    except MALFORMED:
        return None
    return str(value[2] if isinstance(value, tuple) else value) if value else None


def _header(message: Message, name: str) -> str:
    """Return a header as it is in the message: the bytes of other characters than ASCII are lone surrogates."""
    values = (value for known, value in message.raw_items() if known.lower() == name.lower())
    return str(next(values, ""))[:LONGEST_HEADER]


def _decoded_words(value: str) -> str:
    """Return a header's text on one line, with its encoded words, or its bytes in UTF-8 or Latin, as characters."""
    try:
        parts = decode_header(_from_bytes(value.encode("utf-8", "surrogateescape")))
        text = "".join(one if isinstance(one, str) else _decoded_word(one, charset) for one, charset in parts)
    except MALFORMED:
        text = value
    return " ".join(text.encode("utf-8", "replace").decode("utf-8").split())


def _decoded_word(raw: bytes, charset: str | None) -> str:
    """Return an encoded word as characters; between encoded words, decode_header escapes those past Latin-1."""
    codec = "raw_unicode_escape" if charset is None else text_codec(charset)
    try:
        return raw.decode(codec, "replace" if charset else "strict") if codec else _from_bytes(raw)
    except (LookupError, UnicodeDecodeError):  # of a codec that does not make text, or a backslash that was no escape
        return _from_bytes(raw)


def _from_bytes(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp1252", "replace")
