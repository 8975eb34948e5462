"""The command `denslice bench gpu`, registered in denslice/__main__.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MS_MARCO = 8_841_823
PACKAGES = ("numpy", "cupy-cuda13x", "cupy-cuda12x", "torch")


def gpu(
    docs: Annotated[int, typer.Option(help="Number of documents.")] = MS_MARCO,
    queries: Annotated[int, typer.Option(help="Number of queries, timed in turn.")] = 50,
    repeats: Annotated[int, typer.Option(help="How many times each query is timed.")] = 10,
    device: Annotated[str, typer.Option(help="cuda, or another GPU: cuda:1.")] = "cuda",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="JSONL file to append the figures to.")] = None,
    peers: Annotated[bool, typer.Option(help="Time PyTorch too.")] = True,
) -> None:
    """Time search on a GPU over synthetic documents; every search is checked against the definition first."""
    from denslice.bench.gpu_bench import Bench, K, table
    from denslice.bench.result_lines import append_line
    from denslice.cli.output import write_line
    from denslice.provenance import provenance

    bench = Bench(docs, queries, repeats, device)
    figures = list(bench.run(peers))
    write_line(table(figures))
    if out is not None:
        configuration = {"docs": docs, "queries": queries, "repeats": repeats, "k": K, "gpu": bench.name}
        append_line(out, provenance(PACKAGES) | {"configuration": configuration, "figures": figures})
