"""`denslice index`: files and folders into a new index, or into one that exists."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from denslice.cli.arguments import Wait, open_folder


def index(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|FOLDER...",
            help="JSONL, TSV, .txt, .md (each also .gz), BEIR folders, .npz; - for JSONL of stdin.",
        ),
    ],
    to: Annotated[Path, typer.Option(metavar="INDEX", help="The index's folder: a new one, or one to add to.")],
    encoder: Annotated[
        str | None,
        typer.Option(help="mini (the default: words and meaning), bm25, vectors, or a model: folder or hub id."),
    ] = None,
    slices: Annotated[int | None, typer.Option(help="How many slices a document keeps. Default: 768.")] = None,
    slicing: Annotated[str | None, typer.Option(help="learned (the default), stride, contiguous or random.")] = None,
    query: Annotated[str | None, typer.Option(help="full (the default) or sliced, as in the paper.")] = None,
    language: Annotated[str | None, typer.Option(help="Whose stems mini and bm25 take. Default: english.")] = None,
    phrases: Annotated[
        float | None,
        typer.Option(help="What two words side by side weigh, beside a word. Default: 0.3 for mini, 0 for bm25."),
    ] = None,
    vocab: Annotated[int | None, typer.Option(help="Columns of ready vectors.")] = None,
    skip: Annotated[int | None, typer.Option(help="Leading token ids to leave out. Default: 0.")] = None,
    seed: Annotated[int | None, typer.Option(help="For --slicing random. Default: 0.")] = None,
    filterable: Annotated[str | None, typer.Option(help="Metadata fields to filter by often: year,lang")] = None,
    wait: Wait = 10.0,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Make a cluster of shards on Ray: host:port, auto or local.")
    ] = None,
    shards: Annotated[int | None, typer.Option(help="With --ray: over how many indexes. Default: 16.")] = None,
    cpus: Annotated[float, typer.Option(help="With --ray: CPUs of each worker.")] = 1.0,
    gpus: Annotated[float, typer.Option(help="With --ray: GPUs of each worker that encodes.")] = 0.0,
) -> None:
    """Make an index of files and folders, or add them to one; a document takes the place of one with its id."""
    from denslice.cli.output import counted, progress_bar, seconds, size, write_line
    from denslice.index.from_files import index_files

    options: dict[str, Any] = {
        "encoder": encoder,
        "slices": slices,
        "slicing": slicing,
        "query": query,
        "language": language,
        "phrases": phrases,
    }
    options |= {"vocab": vocab, "skip": skip, "seed": seed}
    options |= {"filterable": None if filterable is None else filterable.split(",")}
    began = time.perf_counter()
    with progress_bar("indexing") as bar:
        chosen = {name: value for name, value in options.items() if value is not None}
        if ray is None and shards is None:
            count = index_files(inputs, to, chosen, bar, wait)
            weighs = size(open_folder(to).info()["bytes"])
        else:
            from denslice.cluster.cluster_build import Workers
            from denslice.cluster.index_on_ray import index_on_ray

            count, stored = index_on_ray(inputs, to, chosen, ray, shards, Workers(cpus, gpus), bar, wait)
            weighs = size(stored)
    took = seconds(time.perf_counter() - began)
    write_line(f"indexed {counted(count, 'document')} into {to} ({took}, {weighs})")
