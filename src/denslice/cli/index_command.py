"""`denslice index` adds files and folders to an index, which is created if it does not exist."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from denslice.cli.arguments import Wait, flags, parsed
from denslice.options import IndexOptions


@flags(IndexOptions, are_chosen=True)
def index(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|FOLDER...",
            help="JSONL, TSV, .txt, .md (each also .gz), BEIR folders, .npz; - reads JSONL from stdin.",
        ),
    ],
    to: Annotated[Path, typer.Option(metavar="INDEX", help="Folder of the index: a new one, or one to add to.")],
    wait: Wait = 10.0,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Build a cluster of shards on Ray: host:port, auto or local.")
    ] = None,
    shards: Annotated[int | None, typer.Option(help="With --ray: number of shards. Default: 16.")] = None,
    cpus: Annotated[float, typer.Option(help="With --ray: CPUs of each worker.")] = 1.0,
    gpus: Annotated[float, typer.Option(help="With --ray: GPUs of each worker that encodes.")] = 0.0,
    **options: Any,
) -> None:
    """Index files and folders, or add them to an index. A document replaces one with the same id."""
    from denslice.cli.output import counted, progress_bar, seconds, size, write_line
    from denslice.index.from_files import index_files

    chosen = parsed({name: value for name, value in options.items() if value is not None})
    began = time.perf_counter()
    with progress_bar("indexing") as bar:
        if ray is None and shards is None:
            count, made = index_files(inputs, to, chosen, bar, wait)
            stored = made.bytes
        else:
            from denslice.cluster.cluster_build import Workers
            from denslice.cluster.index_on_ray import index_on_ray

            count, stored = index_on_ray(inputs, to, chosen, ray, shards, Workers(cpus, gpus), bar, wait)
    took = seconds(time.perf_counter() - began)
    write_line(f"indexed {counted(count, 'document')} into {to} ({took}, {size(stored)})")
