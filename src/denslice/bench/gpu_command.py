"""The command `denslice bench gpu`: options → library calls → printing. Registered by `bench.command()(gpu)`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

MS_MARCO = 8_841_823
PACKAGES = ("numpy", "cupy-cuda13x", "cupy-cuda12x", "torch")


def gpu(
    docs: Annotated[int, typer.Option(help="How many documents.")] = MS_MARCO,
    queries: Annotated[int, typer.Option(help="Different queries, timed in turn.")] = 50,
    repeats: Annotated[int, typer.Option(help="How often each query is timed.")] = 10,
    device: Annotated[str, typer.Option(help="cuda, or another card: cuda:1.")] = "cuda",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="JSON lines to append the figures to.")] = None,
    peers: Annotated[bool, typer.Option(help="PyTorch beside it.")] = True,
) -> None:
    """Time search on a GPU over made-up documents, each way checked against the definition first."""
    from denslice.bench.gpu_bench import Bench, K, table
    from denslice.cli.output import write_line
    from denslice.provenance import provenance

    bench = Bench(docs, queries, repeats, device)
    figures = list(bench.run(peers))
    for line in table(figures):
        write_line(line)
    if out is not None:
        configuration = {"docs": docs, "queries": queries, "repeats": repeats, "k": K, "gpu": bench.name}
        told = provenance(PACKAGES) | {"configuration": configuration, "figures": figures}
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(told, ensure_ascii=False, allow_nan=False) + "\n")
