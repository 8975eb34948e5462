"""JSON and JSON lines: records are documents, and any other JSON is a text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from denslice.corpus.formats.record_docs import parsed_lines, raise_if_empty, record_docs
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.text_fields import LONE_NAMES, NO_TEXT, Record, named, text_fields
from denslice.corpus.lines import parse_json_object
from denslice.corpus.text_encodings import SAMPLE, encoding_of
from denslice.errors import InputError, UnreadableError
from denslice.records import ID_FIELDS, Doc

_space = re.compile(r"[ \t\n\r]*")
_half_pair = re.compile("[\ud800-\udfff]")
_JSON = json.JSONDecoder()
_THE_REST = "the rest of the array is left out"

Element = tuple[int, str, object]  # of an array: the line it begins at, its JSON and its value


def read_json_lines(file: SourceFile) -> Iterator[Doc]:
    """Yield the record of each line."""
    return record_docs(file, parsed_lines(file, parse_json_object, "a JSON object"))


def read_json(file: SourceFile) -> Iterator[Doc]:
    """Yield the records of an array or of JSON lines, the one record of an object, or the file as a text.

    A document that is the whole file has the file's name as its id.
    """
    match _opening(file):
        case "":
            raise_if_empty(file)
        case "[":
            yield from _array_docs(file)
        case "{" if _is_json_lines(file):
            yield from read_json_lines(file)
        case "{":
            yield _object_doc(file)
        case _:
            yield _whole(file)


def _opening(file: SourceFile) -> str:
    """Return the first character that is not a space."""
    with file.open() as stream:
        raw = stream.read(SAMPLE)
    return raw.decode(encoding_of(raw), errors="ignore").lstrip()[:1]


def _whole(file: SourceFile) -> Doc:
    return Doc(file.name, file.text())


# --- objects


def _is_json_lines(file: SourceFile) -> bool:
    """Return whether there are several lines, and one of the first two is an object of its own."""
    first = [_parsed(line) for _, line in islice(file.lines(), 2)]
    return len(first) == 2 and any(record is not None for record in first)


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        return parse_json_object(line)
    except InputError:
        return None


def _is_record(file: SourceFile, found: Record) -> bool:
    """Return whether an object is a document, and not a configuration or other data."""
    wanted = LONE_NAMES if file.text_field is None else (file.text_field, file.text_field.strip().casefold())
    name = named(found, wanted)
    has_text = name is not None and isinstance(found[name], str | list)
    return has_text or "vector" in found or ("title" in found and any(id in found for id in ID_FIELDS))


def _object_doc(file: SourceFile) -> Doc:
    """Return the document of a file that holds one object, or that only begins like one."""
    text = file.text()
    try:
        found = parse_json_object(text)
        doc = text_fields(file, [found]).doc(found) if _is_record(file, found) else Doc("", text)
    except InputError as error:
        place = f"{file.name}:{_broken_line(text)}"
        if file.strict:
            raise InputError(f"{place}: {error}") from None
        file.remark(f"read as plain text ({place}: {error})")
        doc = Doc("", text)
    return doc if doc.id else replace(doc, id=file.name)


def _broken_line(text: str) -> int:
    """Return the line, from 1, at which a text stops to be JSON; 1 if it is JSON, or too deep."""
    try:
        _JSON.decode(text)
    except json.JSONDecodeError as error:
        return error.lineno
    except (ValueError, RecursionError):
        pass
    return 1


# --- arrays


def _array_docs(file: SourceFile) -> Iterator[Doc]:
    """Yield a document for each object or each string of an array; the file as a text if it has others, or no text."""
    text = file.text()
    match _first_element(text):
        case dict():
            yield from _record_docs(file, text)
        case str():
            yield from (Doc("", string) for string in _strings(file, text))
        case _:
            yield Doc(file.name, text)


def _record_docs(file: SourceFile, text: str) -> Iterator[Doc]:
    try:
        yield from record_docs(file, _objects(file, text))
    except UnreadableError as error:  # comes before the first document
        if error.kind != NO_TEXT or file.text_field is not None:
            raise
        yield Doc(file.name, text)


def _objects(file: SourceFile, text: str) -> Iterator[tuple[int, Record]]:
    for line, source, _ in _elements(file, text):
        try:
            yield line, parse_json_object(source)
        except InputError as error:
            file.skip("bad record", str(error), line)


def _strings(file: SourceFile, text: str) -> Iterator[str]:
    for line, _, value in _elements(file, text):
        if not isinstance(value, str):
            file.skip("bad record", f"the JSON is {type(value).__name__}, expected a string", line)
        elif _half_pair.search(value):
            file.skip("bad record", "half a surrogate pair, which no text can hold; remove it", line)
        else:
            yield value


def _first_element(text: str) -> object:
    try:
        return _JSON.raw_decode(text, _after_space(text, text.index("[") + 1))[0]
    except (ValueError, RecursionError):
        return None


def _elements(file: SourceFile, text: str) -> Iterator[Element]:
    """Yield the elements of an array one by one; report where it breaks off."""
    counted, line = 0, 1
    at = _after_space(text, text.index("[") + 1)
    try:
        while text[at : at + 1] != "]":
            value, end = _JSON.raw_decode(text, at)
            line += text.count("\n", counted, at)
            counted = at
            yield line, text[at:end], value
            at = _after_comma(text, end)
    except json.JSONDecodeError as error:
        file.skip("bad record", f"broken JSON at column {error.colno}: {error.msg}; {_THE_REST}", error.lineno)
    except (ValueError, RecursionError) as error:
        file.skip("bad record", f"broken JSON: {error}; {_THE_REST}", line)


def _after_comma(text: str, end: int) -> int:
    """Return where the next element begins, or the array ends."""
    at = _after_space(text, end)
    if text[at : at + 1] == "]":
        return at
    if text[at : at + 1] != ",":
        raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
    return _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _space.match(text, at)
    return found.end() if found else at
