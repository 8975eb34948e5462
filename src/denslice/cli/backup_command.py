"""`denslice backup` makes a consistent copy of an index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from denslice.cli.arguments import IndexFolder, open_folder


def backup(
    folder: IndexFolder,
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder for the copy.")],
) -> None:
    """Copy an index while others may write to it. Files are hard links if the file system has them."""
    from denslice.cli.output import counted, write_line

    open_folder(folder).backup(to)
    write_line(f"copied {counted(len(open_folder(to)), 'document')} to {to}")
