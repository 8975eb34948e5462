"""`denslice index` adds files and folders to an index, which is created if it does not exist."""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from denslice.cli.arguments import Wait, flags, parsed, taken
from denslice.cli.index_completion import index_folders
from denslice.cli.sync_command import ReportFile
from denslice.options import IndexOptions, ReadOptions

COLLECTED_AFTER = 100_000  # new objects: those of a batch of documents are in no cycles, and live as long as the batch


@flags(IndexOptions, are_chosen=True)
@flags(ReadOptions)
def index(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|FOLDER...",
            help="Folders, files of any format, BEIR folders, .npz; - reads stdin.",
        ),
    ],
    to: Annotated[
        Path,
        typer.Option(
            metavar="INDEX", help="Folder of the index: a new one, or one to add to.", autocompletion=index_folders
        ),
    ],
    report: ReportFile = None,
    quick: Annotated[bool, typer.Option("--quick", help="Leave documents at the quick level for now.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Encode documents fully at once.")] = False,
    wait: Wait = 10.0,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Build a cluster of shards on Ray: host:port, auto or local.")
    ] = None,
    shards: Annotated[int | None, typer.Option(help="With --ray: number of shards. Default: 16.")] = None,
    cpus: Annotated[float, typer.Option(help="With --ray: CPUs of each worker.")] = 1.0,
    gpus: Annotated[float, typer.Option(help="With --ray: GPUs of each worker that encodes.")] = 0.0,
    **options: Any,
) -> None:
    """Index files and folders, or add them to an index. A document replaces one with the same id.

    Folders are followed: `denslice sync` finds what has changed in them since.
    """
    from denslice.cli.deepen_command import deepen
    from denslice.cli.output import counted, file_progress, seconds, size, write_line
    from denslice.cli.skipped_output import tell_skipped, write_report
    from denslice.index.from_files import index_files
    from denslice.index.sync import Synced

    gc.set_threshold(COLLECTED_AFTER)
    reading = ReadOptions(**taken(ReadOptions, options))
    chosen = parsed({name: value for name, value in options.items() if value is not None})
    began = time.perf_counter()
    with file_progress("indexing") as bar:
        if ray is None and shards is None:
            done, made = index_files(inputs, to, chosen, reading, bar, wait, level(quick, full))
            stored, waiting = made.bytes, made.quick
        else:
            from denslice.cluster.cluster_build import Workers
            from denslice.cluster.index_on_ray import index_on_ray

            waiting = 0
            count, stored = index_on_ray(inputs, to, chosen, ray, shards, Workers(cpus, gpus), bar, wait)
            done = Synced(documents=count)
    took = seconds(time.perf_counter() - began)
    passages = f" ({counted(done.encoded + done.reused, 'passage')})" if done.encoded + done.reused else ""
    write_line(f"indexed {counted(done.documents, 'document')}{passages} into {to} ({took}, {size(stored)})")
    tell_skipped(done)
    write_report(report, done)
    if waiting and not (quick or full):
        deepen(to, wait)


def level(quick: bool, full: bool) -> str | None:
    """Return the level that was asked for."""
    from denslice.errors import InputError
    from denslice.store.manifest import FULL, QUICK

    if quick and full:
        raise InputError("--quick and --full exclude each other")
    return QUICK if quick else FULL if full else None
