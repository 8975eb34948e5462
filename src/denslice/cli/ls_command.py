"""`denslice ls` lists the documents of an index, one on a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING

import typer

from denslice.cli.arguments import AsJson, IndexFolder, Where, open_folder, parsed

if TYPE_CHECKING:
    from rich.align import AlignMethod
    from rich.console import Console
    from rich.text import Text

    from denslice.index.listing import ListedDoc

ALIGNED = 256  # lines that are aligned together; columns only become wider after them
HEADINGS = ("id", "title", "passages", "characters")
SIDES: tuple[AlignMethod, ...] = ("left", "left", "right", "right")
GAP = 2  # spaces between columns
Cells = tuple[str, str, str, str]


def ls(folder: IndexFolder, where: Where = None, as_json: AsJson = False) -> None:
    """List the documents with their titles and the numbers of their passages and characters, as they are stored."""
    from denslice.cli.output import console, on_one_line, write_json, write_line

    docs = open_folder(folder).list_docs(**parsed({"where": where}))
    first = next(docs, None)
    if first is None:
        return typer.echo("no document matches" if where else f"{folder} has no documents", err=True)
    docs, out = chain([first], docs), console()
    if as_json:
        for doc in docs:
            write_json(doc._asdict())
    elif out.is_terminal:
        _print_table(out, docs)
    else:
        for doc in docs:
            write_line("\t".join([doc.id, on_one_line(doc.title), str(doc.passages), str(doc.characters)]))


def _print_table(out: Console, docs: Iterator[ListedDoc]) -> None:
    """Print aligned columns, with a line of headings above them."""
    from denslice.cli.output import DIM_STYLE

    widths = [len(heading) if heading != "title" else 0 for heading in HEADINGS]  # no column if there are no titles
    is_first = True
    while some := list(islice(docs, ALIGNED)):
        rows = [_cells(doc) for doc in some]
        widths = _grown(widths, rows)
        shown = _fitted(widths, out.width)
        if is_first:
            out.print(_line(HEADINGS, shown), style=DIM_STYLE, no_wrap=True)
        for row in rows:
            out.print(_line(row, shown), no_wrap=True)
        is_first = False


def _cells(doc: ListedDoc) -> Cells:
    from denslice.cli.output import on_one_line

    return doc.id, on_one_line(doc.title), f"{doc.passages:,}", f"{doc.characters:,}"


def _grown(widths: Sequence[int], rows: Sequence[Cells]) -> list[int]:
    """Return the widths of columns that also hold these rows."""
    from rich.cells import cell_len

    columns = zip(*rows, strict=True)
    return [max(width, *map(cell_len, column)) for width, column in zip(widths, columns, strict=True)]


def _fitted(widths: Sequence[int], room: int) -> list[int]:
    """Return widths that fit the terminal: the numbers have theirs, then the id, and the title has what is left."""
    id, title, *numbers = widths
    left = max(room - sum(numbers) - GAP * len(numbers) - GAP, 2)
    id = min(id, max(left - title, left // 2))
    return [id, min(title, left - id), *numbers]


def _line(cells: Cells, widths: Sequence[int]) -> Text:
    from rich.text import Text

    columns = []
    for cell, width, side in zip(cells, widths, SIDES, strict=True):
        if width:
            text = Text(cell, overflow="ellipsis")
            text.align(side, width)
            columns.append(text)
    return Text(" " * GAP).join(columns)
