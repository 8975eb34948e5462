"""Records of any table or list as documents: the fields are guessed from the first ones, and bad ones are reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import TypeVar

from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.text_fields import Record, named, text_fields
from denslice.errors import InputError, UnreadableError
from denslice.records import ID_FIELDS, TEXT_FIELDS, Doc

SAMPLE_RECORDS = 200  # from which the fields are guessed
MOST_BAD_LINES = 100  # at the beginning of a file, before it is given up

Parsed = TypeVar("Parsed")
Placed = tuple[int, Record]  # the line or row of a record, from 1, and the record


def record_docs(file: SourceFile, records: Iterable[Placed], kind: str = "bad line") -> Iterator[Doc]:
    """Yield the documents of records; raise UnreadableError if there are none, or none holds text.

    Records that are no documents are reported as of this kind.
    """
    records = _with_usable_vectors(file, records)
    sample = _sample(file, records)
    if not sample:
        raise_if_empty(file)
        return
    fields = text_fields(file, [record for _, record in sample])
    for line, record in chain(sample, records):
        try:
            doc = fields.doc(record)
            if file.strict and fields.id and not doc.id:
                raise InputError(f"no id (looked for {', '.join(ID_FIELDS)}), which other records have")
        except InputError as error:
            file.skip(kind, str(error), line)
        else:
            file.line = line
            yield doc


def parsed_lines(file: SourceFile, parse: Callable[[str], Parsed], expected: str) -> Iterator[tuple[int, Parsed]]:
    """Yield the number and the parsed value of each line, and report those that cannot be parsed.

    Raise UnreadableError if the file begins with many of these: it then is not what it is read as.
    """
    good = bad = 0
    for number, line in file.lines():
        try:
            parsed = parse(line)
        except InputError as error:
            bad += 1
            file.skip("bad line", str(error), number)
            if not good and bad == MOST_BAD_LINES:
                file.problems.clear()
                raise UnreadableError("damaged file", f"none of its first {bad} lines is {expected}") from None
        else:
            good += 1
            yield number, parsed


def raise_if_empty(file: SourceFile) -> None:
    """Raise UnreadableError for a file without records, unless it is reported already what is wrong with it."""
    if not file.problems:
        raise UnreadableError("empty file", "has no documents")


def _sample(file: SourceFile, records: Iterator[Placed]) -> list[Placed]:
    """Return the first records; only one if it names its text, so that documents come as they are read."""
    first = list(islice(records, 1))
    wanted = TEXT_FIELDS if file.text_field is None else (file.text_field,)
    if first and (name := named(first[0][1], wanted)) and isinstance(first[0][1][name], str):
        return first
    return [*first, *islice(records, SAMPLE_RECORDS - 1)]


def _with_usable_vectors(file: SourceFile, records: Iterable[Placed]) -> Iterator[Placed]:
    """Yield the records without vectors that are lists, such as those of a model; it is reported once."""
    is_told = False
    for line, record in records:
        vector = record.get("vector")
        if vector is None or isinstance(vector, dict):
            yield line, record
            continue
        if not is_told:
            file.skip("ready vector", f"vector is {type(vector).__name__}, expected an object of weights", line)
        is_told = True
        yield line, {name: value for name, value in record.items() if name != "vector"}
