"""`denslice deepen` encodes the documents of the quick level fully."""

from __future__ import annotations

import typer

from denslice.cli.arguments import IndexFolder, Wait, open_folder


def deepen(folder: IndexFolder, wait: Wait = 10.0) -> None:
    """Encode documents fully that were added at the quick level. It can be stopped and run again at any time."""
    import time

    from denslice.cli.output import counted, progress_bar, seconds, write_line

    began, index = time.perf_counter(), open_folder(folder)
    with progress_bar("deepening", index.info().quick) as bar:
        try:
            done = index.deepen(wait=wait, progress=bar.advance)
        except KeyboardInterrupt:
            left = counted(index.info().quick, "document")
            typer.echo(
                f"interrupted; {left} are still at the quick level, `denslice deepen {folder}` goes on", err=True
            )
            raise typer.Exit(130) from None
    took = seconds(time.perf_counter() - began)
    write_line(f"deepened {counted(done, 'document')} of {folder} ({took})" if done else f"{folder}: nothing to deepen")
