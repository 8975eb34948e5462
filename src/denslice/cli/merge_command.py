"""`denslice merge` merges segments that are small or have many deleted documents."""

from __future__ import annotations

from denslice.cli.arguments import IndexFolder, Wait, open_folder


def merge(folder: IndexFolder, wait: Wait = 10.0) -> None:
    """Merge segments that are small or have many deleted documents. Search results stay the same."""
    from denslice.cli.output import counted, size, write_line

    index = open_folder(folder)
    rewritten = index.merge(wait=wait)
    told = index.info()
    write_line(f"rewrote {counted(rewritten, 'segment')}; {folder} now has {told.segments:,}, {size(told.bytes)}")
