"""`denslice delete` deletes documents by their ids."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from denslice.cli.arguments import IndexFolder, Wait, named_id, open_folder
from denslice.errors import InputError


def delete(
    folder: IndexFolder,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID|FILE...", show_default=False)] = None,
    ids_from: Annotated[Path | None, typer.Option("--from", metavar="FILE", help="File with one id per line.")] = None,
    wait: Wait = 10.0,
) -> None:
    """Delete documents by their ids."""
    from denslice.cli.output import counted, write_line
    from denslice.corpus.lines import read_lines

    wanted = [*(ids or []), *(line for _, line in read_lines(ids_from))] if ids_from else ids or []
    if not wanted:
        raise InputError("no ids given; name some, or a file of ids with --from FILE")
    index = open_folder(folder)
    deleted = index.delete([named_id(index, id) for id in wanted], wait=wait)
    write_line(f"deleted {counted(deleted, 'document')} from {folder}")
