"""`denslice sync` makes an index hold what folders hold, once or as they change."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from denslice.cli.arguments import Wait, flags, parsed, taken
from denslice.cli.index_completion import index_folders
from denslice.options import IndexOptions, ReadOptions

if TYPE_CHECKING:
    from denslice.index.index import Index
    from denslice.index.sync import Synced

ReportFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write what was skipped to this file, as lines of JSON.")
]


@flags(IndexOptions, are_chosen=True)
@flags(ReadOptions)
def sync(
    to: Annotated[
        Path,
        typer.Option(
            metavar="INDEX", help="Folder of the index, which is created if needed.", autocompletion=index_folders
        ),
    ],
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER|FILE...", help="What to look at. Default: all that the index follows."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep following the folders until stopped.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
    report: ReportFile = None,
    quick: Annotated[bool, typer.Option("--quick", help="Leave documents at the quick level for now.")] = False,
    wait: Wait = 10.0,
    **options: Any,
) -> None:
    """Make an index hold what folders hold: new, changed, renamed and deleted files are found, in one commit."""
    from denslice.cli.output import file_progress, seconds, write_line
    from denslice.cli.skipped_output import tell_skipped, write_report
    from denslice.index.from_files import sync_files
    from denslice.store.manifest import FULL, QUICK

    reading = ReadOptions(**taken(ReadOptions, options))
    chosen = parsed({name: value for name, value in options.items() if value is not None})
    began, paths, level = time.perf_counter(), folders or [], QUICK if quick else FULL
    with file_progress("indexing") as bar:
        index, done = sync_files(paths, to, chosen, reading, bar, wait, dry_run, level)
    line = sync_line(done, seconds(time.perf_counter() - began))
    write_line(f"{'would change' if dry_run else 'synced'} {to}: {line}")
    tell_skipped(done)
    write_report(report, done)
    if watch and index is not None and not dry_run:
        _watch(index, paths, reading, wait, report, level)


def sync_line(done: Synced, took: str) -> str:
    """Return what a sync did, such as `2 added, 1 removed, 97 unchanged (5 passages encoded, 3 reused, 0.2 s)`."""
    from denslice.cli.output import counted

    counts = {"added": done.added, "changed": done.changed, "renamed": done.renamed, "removed": done.removed}
    files = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "nothing changed"
    passages = f"{counted(done.encoded, 'passage')} encoded, {done.reused:,} reused, " if done.documents else ""
    return f"{files}, {done.unchanged:,} unchanged ({passages}{took})"


def _watch(
    index: Index, paths: Sequence[Path], reading: ReadOptions, wait: float, report: Path | None, level: str
) -> None:
    """Sync whenever files change, until the process is told to stop."""
    from denslice.cli.output import console, seconds, write_line
    from denslice.cli.skipped_output import tell_skipped, write_report
    from denslice.index.folder_watch import changes
    from denslice.index.sync import FolderSync

    folders = [root.folder for root in FolderSync.of(index.reader.snapshot, paths, reading).roots]
    console(stderr=True).print(f"following {', '.join(map(str, folders))}; stop with Ctrl-C")
    for _ in changes(folders, index.path):
        began = time.perf_counter()
        done = index.sync(paths, level=level, text_field=reading.text_field, strict=reading.strict, wait=wait)
        if done.added or done.changed or done.renamed or done.removed:
            write_line(f"synced {index.path}: {sync_line(done, seconds(time.perf_counter() - began))}")
            tell_skipped(done)
            write_report(report, done)
