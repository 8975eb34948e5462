"""The sheets of .xls and .xlsb files, which are binary, by calamine."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING

from denslice.corpus.formats.file_damage import damage
from denslice.corpus.formats.number_formats import shown_number
from denslice.corpus.formats.sheet_rows import Sheet, SheetCell, SheetRow
from denslice.corpus.formats.source_file import SourceFile
from denslice.errors import MissingExtraError, UnreadableError

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

MOST_SPANNED = 32 << 20  # cells of a sheet from its first to its last, empty ones included: calamine stores them all
DAY = timedelta(days=1)


def old_sheets(file: SourceFile) -> Iterator[Sheet]:
    """Yield the sheets in their order; one that spans too many cells is reported."""
    try:
        from python_calamine import CalamineWorkbook, SheetTypeEnum
    except ImportError:
        raise MissingExtraError("reading .xls and .xlsb", "files") from None
    # From its path, calamine trusts the extension and says that a file is encrypted; else it tries all formats.
    is_named = file.path.suffix.lower() == ".xls"
    with CalamineWorkbook.from_object(file.path if is_named else io.BytesIO(file.data())) as workbook:
        for listed in workbook.sheets_metadata:
            if listed.typ == SheetTypeEnum.WorkSheet:
                yield Sheet(listed.name, _rows(file, workbook.get_sheet_by_name(listed.name)))


@contextmanager
def calamine_errors() -> Iterator[None]:
    """Turn what calamine raises into UnreadableError; a panic of Rust is not an Exception of Python."""
    try:
        yield
    except BaseException as error:
        kind = type(error).__name__
        if kind == "PasswordError":
            raise UnreadableError("encrypted file", "encrypted with a password") from None
        if kind == "PanicException":
            raise damage(error) from None
        raise


def _rows(file: SourceFile, sheet: CalamineSheet) -> Iterator[tuple[int, SheetRow]]:
    rows, columns = sheet.end or (0, 0)
    spanned = (rows + 1) * (columns + 1)
    if spanned > MOST_SPANNED:
        file.skip("large sheet", f"sheet {sheet.name!r} reaches over {spanned:,} cells")
        return
    for number, row in enumerate(sheet.iter_rows(), 1):
        shown = ((column, _shown(cell)) for column, cell in enumerate(row, 1) if cell != "")
        yield number, {column: cell for column, cell in shown if cell.text}


def _shown(cell: object) -> SheetCell:
    """Return what a cell shows, by the type that calamine gives it."""
    if isinstance(cell, bool):
        return SheetCell(str(cell).upper(), False)
    if isinstance(cell, int | float):
        return SheetCell(shown_number(cell), False)
    if isinstance(cell, datetime):
        return SheetCell(cell.date().isoformat() if cell.time() == time() else cell.isoformat(" ", "seconds"), False)
    return SheetCell(" ".join(str(cell).split()), isinstance(cell, str))
