"""`denslice deepen` encodes the documents of the quick level fully."""

from __future__ import annotations

from denslice.cli.arguments import IndexFolder, Wait, open_folder


def deepen(folder: IndexFolder, wait: Wait = 10.0) -> None:
    """Encode documents fully that were added at the quick level. It can be stopped and run again at any time."""
    from denslice.cli.output import counted, progress_bar, write_line

    index = open_folder(folder)
    with progress_bar("deepening") as bar:
        bar.expect(index.info().quick)
        done = index.deepen(wait=wait, progress=bar.advance)
    write_line(f"{folder}: " + (f"deepened {counted(done, 'document')}" if done else "nothing to deepen"))
