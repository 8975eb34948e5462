"""The command `denslice bench cpu`: options → library calls → printing. Registered by `bench.command()(cpu)`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from denslice.errors import InputError

PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "pyseismic-lsr", "bm25s", "faiss-cpu", "torch")


def cpu(
    vectors: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="docs.npz and queries.npz, scipy CSR matrices.")
    ] = None,
    texts: Annotated[Path | None, typer.Option(metavar="FOLDER", help="A BEIR folder, for BM25 against bm25s.")] = None,
    work: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where built indexes are kept, so that a later run need not build.")
    ] = Path("bench-work"),
    only: Annotated[
        list[str] | None, typer.Option(help="A contender to take part; can be repeated. Default: all.")
    ] = None,
    slices: Annotated[int, typer.Option(help="How many slices denslice keeps of a document.", min=1)] = 768,
    repeats: Annotated[int, typer.Option(help="How often each query is timed.", min=1)] = 5,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A JSON-lines file to append the figures to.")
    ] = None,
) -> None:
    """Time search on the CPU beside the peers a user would reach for, on the same vectors, in one run."""
    from denslice.bench.bench_data import BenchTexts, BenchVectors
    from denslice.bench.bench_table import table
    from denslice.bench.cpu_bench import contenders, measure
    from denslice.cli.output import write_line
    from denslice.provenance import provenance

    if (vectors is None) == (texts is None):
        raise InputError("name what to search: --vectors FOLDER or --texts FOLDER")
    collection = BenchVectors(vectors) if vectors is not None else BenchTexts(texts or Path())
    chosen = contenders(collection, only or [], slices)
    figures = measure(collection, chosen, work, repeats, lambda line: typer.echo(line, err=True))
    line = provenance(PACKAGES) | {
        "collection": collection.told,
        "slices": slices,
        "repeats": repeats,
        "figures": figures,
    }
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
    write_line(table(line))
