"""The rows of a sheet as text: on each line what a row holds, with the names of the columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from denslice.corpus.formats.text_blocks import TextBlock, row

LONGEST_NAME = 60  # characters of a column's name


class SheetCell(NamedTuple):
    """What a cell shows, and whether that is text, and not a number or a date."""

    text: str
    is_text: bool = True


SheetRow = Mapping[int, SheetCell]  # by the numbers of their columns; cells without anything are not there


class Sheet(NamedTuple):
    """A sheet: its name, and its rows, each with its number from 1."""

    name: str
    rows: Iterable[tuple[int, SheetRow]]


def with_column_names(rows: Iterable[SheetRow]) -> Iterator[TextBlock]:
    """Yield a line for each row: with the names of the columns, if the first row of several cells has them.

    Rows of one cell above it are titles and notes.
    """
    names: Mapping[int, str] | None = None
    for cells in rows:
        if names:
            yield row([_named(names, cells)])
            continue
        if names is None and len(cells) > 1:
            names = {at: cell.text.rstrip(": ") for at, cell in cells.items()} if _are_names(cells) else {}
        yield row([cells[at].text for at in sorted(cells)])


def _are_names(cells: SheetRow) -> bool:
    """Return whether a row looks like the names of columns: short texts, each different."""
    texts = {cell.text.casefold() for cell in cells.values() if cell.is_text and len(cell.text) <= LONGEST_NAME}
    return len(texts) == len(cells)


def _named(names: Mapping[int, str], cells: SheetRow) -> str:
    named = ((names.get(at, ""), cells[at].text) for at in sorted(cells))
    return "; ".join(f"{name}: {text}" if name else text for name, text in named)
