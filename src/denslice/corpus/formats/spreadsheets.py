"""Spreadsheets (.xlsx .xlsb .xls .ods): each sheet under a heading, each row on a line with the names of columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from denslice.corpus.formats.file_damage import damage_reported
from denslice.corpus.formats.odf_texts import check_unencrypted, odf_properties
from denslice.corpus.formats.ods_sheets import ods_sheets
from denslice.corpus.formats.office_archive import OfficeArchive, Properties, check_ole, is_ole, office_archive
from denslice.corpus.formats.old_sheets import calamine_errors, old_sheets
from denslice.corpus.formats.sheet_rows import Sheet, SheetRow, with_column_names
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.text_blocks import TextBlock, heading, joined
from denslice.corpus.formats.xlsx_sheets import xlsx_sheets
from denslice.records import Doc

MOST_CELLS = 2_000_000  # with something in them, of a file
MOST_LETTERS = 64 << 20  # of a file
SHEET_LEVEL = 2  # of the heading that a sheet's name is


def read_spreadsheet(file: SourceFile) -> Iterator[Doc]:
    """Yield the file as one document. What is past the limits of cells and letters is reported.

    What the file holds decides how it is read, and not its name: many a file of an old program is called .xlsx.
    """
    with damage_reported(), calamine_errors():
        doc = _old_doc(file) if is_ole(file) else _zip_doc(file)
    yield doc


def _old_doc(file: SourceFile) -> Doc:
    check_ole(file)
    return Doc("", _text(file, old_sheets(file)))


def _zip_doc(file: SourceFile) -> Doc:
    with office_archive(file) as archive:
        sheets, (title, meta) = _sheets(file, archive)
        return Doc("", _text(file, sheets), title, meta)


def _sheets(file: SourceFile, archive: OfficeArchive) -> tuple[Iterable[Sheet], Properties]:
    """Return the sheets and the properties of a zip; that of OpenDocument names no main part."""
    main = archive.related("officeDocument")
    if main is None:
        check_unencrypted(archive)
        return ods_sheets(archive), odf_properties(archive)
    return old_sheets(file) if main.endswith(".bin") else xlsx_sheets(archive, main), archive.properties()


def _text(file: SourceFile, sheets: Iterable[Sheet]) -> str:
    limits = _SheetLimits(file, MOST_CELLS, MOST_LETTERS)
    return joined(block for sheet in sheets for block in _blocks(sheet, limits))


def _blocks(sheet: Sheet, limits: _SheetLimits) -> Iterator[TextBlock]:
    yield heading(SHEET_LEVEL, sheet.name)
    yield from with_column_names(limits.rows(sheet))


@dataclass
class _SheetLimits:
    """What may still be read of a file."""

    file: SourceFile
    cells: int
    letters: int

    def rows(self, sheet: Sheet) -> Iterator[SheetRow]:
        """Yield the rows of a sheet that hold something, until a limit is reached; then report the rest."""
        for number, row in sheet.rows:
            self.cells -= len(row)
            self.letters -= sum(len(cell.text) for cell in row.values())
            if self.cells < 0 or self.letters < 0:
                self.file.skip("long spreadsheet", f"sheet {sheet.name!r} is not read from row {number:,} on")
                return
            if row:
                yield row
