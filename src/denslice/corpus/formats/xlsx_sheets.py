"""The sheets of an .xlsx file, row by row: empty cells take no memory, however many there are between two others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from denslice.corpus.formats.number_formats import BUILT_IN, NumberKind, kind_of_format, shown_number
from denslice.corpus.formats.office_archive import OfficeArchive, relation_id
from denslice.corpus.formats.sheet_rows import Sheet, SheetCell, SheetRow
from denslice.corpus.formats.xml_elements import Element, child, local, whole_text

DECIMALS = "0123456789"
TEXTS = ("s", "str", "inlineStr")  # types of cells that hold text
BOOLEANS = {"0": "FALSE", "1": "TRUE", "false": "FALSE", "true": "TRUE"}
_escaped = re.compile("_x([0-9A-Fa-f]{4})_")


def xlsx_sheets(archive: OfficeArchive, main: str) -> Iterator[Sheet]:
    """Yield the sheets in their order, hidden ones too; sheets that are charts are left out."""
    workbook = archive.xml(main)
    properties = child(workbook, "workbookPr")
    from_1904 = properties is not None and properties.get("date1904") in ("1", "true")
    reader = _CellReader(_shared_strings(archive, main), _kinds_of_styles(archive, main), from_1904)
    relations = archive.relations(main)
    for sheet in () if (listed := child(workbook, "sheets")) is None else listed:
        part = relations.get(relation_id(sheet))
        if part is not None and part.kind == "worksheet":
            yield Sheet(sheet.get("name", ""), reader.rows(archive.streamed(part.target, "row")))


@dataclass(frozen=True)
class _CellReader:
    """Reads cells, given the strings and the styles that they name by number."""

    strings: Sequence[str]
    kinds: Sequence[NumberKind]
    from_1904: bool

    def rows(self, rows: Iterator[Element]) -> Iterator[tuple[int, SheetRow]]:
        """Yield the rows with their numbers."""
        number = 0
        for row in rows:
            given = row.get("r", "")
            number = int(given) if given.isdecimal() else number + 1
            yield number, self._row(row)

    def _row(self, row: Element) -> SheetRow:
        cells: dict[int, SheetCell] = {}
        column = 0
        value = row.tag.removesuffix("row") + "v"  # in the namespace of the row
        for cell in row:
            column = _column(cell.get("r", "").rstrip(DECIMALS)) or column + 1
            kind = cell.get("t", "n")
            text = _string(cell) if kind == "inlineStr" else self._text(kind, cell.findtext(value, ""), cell)
            text = " ".join(text.split())
            if text:
                cells[column] = SheetCell(text, kind in TEXTS)
        return cells

    def _text(self, kind: str, value: str, cell: Element) -> str:
        """Return what a cell shows. Of a formula this is the result that was stored; an error shows nothing."""
        if kind == "s":
            at = int(value) if value.isdecimal() else len(self.strings)
            return self.strings[at] if at < len(self.strings) else ""
        if kind == "n":
            return self._number(value, cell.get("s", "0")) if value else ""
        return "" if kind == "e" else BOOLEANS.get(value, value) if kind == "b" else value

    def _number(self, given: str, style: str) -> str:
        try:
            number = float(given)
        except ValueError:
            return given
        at = int(style) if style.isdecimal() else 0
        return shown_number(number, self.kinds[at] if at < len(self.kinds) else NumberKind.PLAIN, self.from_1904)


@lru_cache
def _column(letters: str) -> int:
    """Return the number of a column from 1, or 0 if it has no letters that name one."""
    if not 0 < len(letters) <= len("XFD") or not letters.isascii() or not letters.isalpha():
        return 0
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - ord("A") + 1
    return number


def _shared_strings(archive: OfficeArchive, main: str) -> list[str]:
    name = archive.related("sharedStrings", main)
    return [] if name is None else [_string(item) for item in archive.streamed(name, "si")]


def _string(parent: Element) -> str:
    """Return the text of a string without its phonetic reading; control characters are escaped as in _x000D_."""
    inner = (one for one in parent if local(one) != "rPh")
    text = "".join(whole_text(one) if local(one) == "t" else _string(one) for one in inner)
    return _escaped.sub(lambda match: chr(int(match[1], 16)), text) if "_x" in text else text


def _kinds_of_styles(archive: OfficeArchive, main: str) -> list[NumberKind]:
    """Return what a number means in each style."""
    name = archive.related("styles", main)
    if name is None:
        return []
    styles = archive.xml(name)
    formats = child(styles, "numFmts")
    own = {one.get("numFmtId"): kind_of_format(one.get("formatCode", "")) for one in _children(formats)}
    return [_kind(one.get("numFmtId", "0"), own) for one in _children(child(styles, "cellXfs"))]


def _kind(id: str, own: Mapping[str, NumberKind]) -> NumberKind:
    return own.get(id) or BUILT_IN.get(int(id) if id.isdecimal() else 0, NumberKind.PLAIN)


def _children(element: Element | None) -> Iterator[Element]:
    yield from () if element is None else element
