"""The sheets of an OpenDocument spreadsheet (.ods), whose cells hold the text that they show."""

from __future__ import annotations

from collections.abc import Iterator

from denslice.corpus.formats.odf_texts import table_rows, text_below
from denslice.corpus.formats.office_archive import OfficeArchive
from denslice.corpus.formats.own_metadata import iso_date
from denslice.corpus.formats.sheet_rows import Sheet, SheetCell, SheetRow
from denslice.corpus.formats.xml_elements import Element, attribute, child, local

MOST_REPEATED = 1_000  # times that a cell or a row with something in it is read, of those that are the same


def ods_sheets(archive: OfficeArchive) -> Iterator[Sheet]:
    """Yield the sheets in their order."""
    body = child(archive.xml("content.xml"), "body", "spreadsheet")
    for table in () if body is None else body:
        if local(table) == "table":
            yield Sheet(attribute(table, "name") or "", _numbered_rows(table))


def _numbered_rows(table: Element) -> Iterator[tuple[int, SheetRow]]:
    number = 1
    for row in table_rows(table):
        count = _repeated(row, "number-rows-repeated")
        cells = _cells(row)
        for at in range(min(count, MOST_REPEATED) if cells else 0):
            yield number + at, cells
        number += count


def _cells(row: Element) -> SheetRow:
    cells: dict[int, SheetCell] = {}
    column = 1
    for cell in row:
        count = _repeated(cell, "number-columns-repeated")
        shown = _shown(cell)
        if shown.text:
            cells |= dict.fromkeys(range(column, column + min(count, MOST_REPEATED)), shown)
        column += count
    return cells


def _repeated(element: Element, name: str) -> int:
    count = attribute(element, name) or ""
    return int(count) if count.isdecimal() else 1


def _shown(cell: Element) -> SheetCell:
    """Return what a cell shows; a date in ISO 8601, and not as a country writes it."""
    kind = attribute(cell, "value-type") or "string"
    date = iso_date(attribute(cell, "date-value") or "") if kind == "date" else ""
    text = date.removesuffix("T00:00:00").replace("T", " ") or text_below(cell)
    return SheetCell(" ".join(text.split()), kind == "string")
