"""CSV and TSV tables, streamed row by row; and TSV files of an id and a text in each line."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from denslice.corpus.formats.csv_dialects import SAMPLE_LINES, Cells, Row, dialect_of, has_header, is_header
from denslice.corpus.formats.record_docs import SAMPLE_RECORDS, parsed_lines, raise_if_empty, record_docs
from denslice.corpus.formats.source_file import LARGEST_LINE, SourceFile
from denslice.corpus.formats.text_fields import kept_if_empty
from denslice.corpus.lines import reading
from denslice.corpus.text_encodings import SAMPLE, encoding_of, is_wide
from denslice.errors import InputError, UnreadableError
from denslice.json_cells import distinct_names
from denslice.records import Doc, checked_id

MISSING = frozenset(("", "nan", "NaN", "null", "NULL"))
TRUTHS = {"true": True, "false": False}
_undecoded = re.compile("[\udc80-\udcff]").search  # bytes that are no text in the file's encoding
_whole = re.compile(r"-?(0|[1-9]\d{0,14})").fullmatch  # 01234 is no number, but a postcode
_fraction = re.compile(r"-?(0|[1-9]\d{0,14})\.\d{1,15}").fullmatch


def read_csv(file: SourceFile) -> Iterator[Doc]:
    """Yield the documents of a table. If its first row clearly is data, its columns are `column 1`, `column 2` …"""
    lines = _text_lines(file)
    sample = list(islice(lines, SAMPLE_LINES))
    if not any(map(str.strip, sample)):
        raise_if_empty(file)
        return
    rows = dialect_of(file.ending, sample).rows(chain(sample, lines))
    yield from _table_docs(file, rows)


def read_tsv(file: SourceFile) -> Iterator[Doc]:
    """Yield the documents of a table, if the first line clearly is its header; else each line is an id and a text."""
    first = next(iter(file.lines()), (1, ""))[1]
    if is_header([cell.strip('"') for cell in first.split("\t")]):
        yield from read_csv(file)
        return
    for line, (id, text) in parsed_lines(file, _id_and_text, "an id, a tab and a text"):
        file.line = line
        yield Doc(id, text)
    if file.line is None:
        raise_if_empty(file)


def _id_and_text(line: str) -> tuple[str, str]:
    id, tab, text = line.partition("\t")
    if not tab:
        raise InputError("no tab; expected an id, a tab and a text")
    return checked_id(id), text


def _text_lines(file: SourceFile) -> Iterator[str]:
    """Yield the lines of a file with their ends, which may be within a cell. Bytes that are no text are escaped."""
    with reading(file.path):
        with file.open() as stream:
            encoding = encoding_of(stream.read(SAMPLE))
        errors = "replace" if is_wide(encoding) else "surrogateescape"
        with io.TextIOWrapper(file.open(), encoding, errors, newline="") as text:
            while line := text.readline(LARGEST_LINE):
                if len(line) == LARGEST_LINE:
                    raise UnreadableError("large file", f"a line is larger than {LARGEST_LINE >> 20} MB")
                yield line.replace("\0", " ")


def _table_docs(file: SourceFile, rows: Iterator[Row]) -> Iterator[Doc]:
    line, first = next(rows, (1, []))
    if not first:
        raise UnreadableError("damaged file", "its first row has no cells")
    if has_header(first):
        names = distinct_names(first)
    else:
        names, rows = [f"column {number}" for number in range(1, len(first) + 1)], chain([(line, first)], rows)
    good = _good_rows(file, rows, len(names))
    sample = list(islice(good, SAMPLE_RECORDS))
    typed = _typed_columns(names, [cells for _, cells in sample])
    texts = kept_if_empty(file, names)
    records = ((line, _record(names, cells, texts)) for line, cells in chain(sample, good))
    for doc in record_docs(file, records):
        yield replace(doc, meta=_typed_meta(doc.meta, typed))


def _good_rows(file: SourceFile, rows: Iterator[Row], width: int) -> Iterator[Row]:
    """Yield the rows that have a cell for each column, and report the others."""
    for line, cells in rows:
        if problem := _problem(cells, width):
            file.skip("bad line", problem, line)
        else:
            yield line, cells[:width]


def _problem(cells: Cells, width: int) -> str | None:
    if not cells:
        return "a cell is too large; is a quote not closed?"
    if len(cells) < width or any(cells[width:]):
        advice = "; is a quote not closed?" if any("\n" in cell for cell in cells) else ""
        return f"{len(cells)} cells, expected {width}{advice}"
    joined = "".join(cells)
    if not joined.isascii() and (found := _undecoded(joined)):
        return f"byte 0x{ord(found[0]) - 0xDC00:02x} is not in the encoding of the file; convert it to UTF-8"
    return None


def _record(names: Sequence[str], cells: Cells, keep: Sequence[str]) -> dict[str, Any]:
    return {name: cell for name, cell in zip(names, cells, strict=True) if cell or name in keep}


# --- numbers


def _typed_columns(names: Sequence[str], rows: Sequence[Cells]) -> frozenset[str]:
    """Return the columns that hold nothing but numbers, or true and false."""
    columns = zip(names, zip(*rows, strict=True), strict=False) if rows else ()
    return frozenset(name for name, cells in columns if all(cell in MISSING or _is_typed(cell) for cell in cells))


def _typed_meta(meta: Any, typed: frozenset[str]) -> dict[str, Any]:
    return {name: _json_value(cell) if name in typed else cell for name, cell in meta.items() if cell not in MISSING}


def _is_typed(cell: str) -> bool:
    return not isinstance(_json_value(cell), str)


def _json_value(cell: str) -> Any:
    """Return the number or the truth that a cell holds, else the cell."""
    if _whole(cell):
        return int(cell)
    return float(cell) if _fraction(cell) else TRUTHS.get(cell.lower(), cell)
