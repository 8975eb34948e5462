"""`denslice verify` compares every file of an index with its checksum."""

from __future__ import annotations

from denslice.cli.arguments import IndexFolder, open_folder


def verify(folder: IndexFolder) -> None:
    """Read every file of an index and compare it with its checksum."""
    from denslice.cli.output import counted, size, write_line

    index = open_folder(folder)
    index.verify()
    write_line(f"{folder} is intact: {counted(len(index), 'document')}, {size(index.info().bytes)}")
