"""The command `denslice plan`. Registered by `app.command()(plan)`."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def plan(
    docs: Annotated[float, typer.Option(help="How many passages, such as 10e9.")],
    weights: Annotated[float, typer.Option(help="Weights of a passage before slicing.")] = 120.0,
    slices: Annotated[int, typer.Option(help="Slices of the index.")] = 768,
    dense: Annotated[int, typer.Option(help="Dimensions of dense vectors; 0 for none.")] = 0,
    text: Annotated[float, typer.Option(help="Bytes of a passage's text and metadata.")] = 500.0,
    vocab: Annotated[int, typer.Option(help="Tokens of the vocabulary.")] = 30_522,
    query_weights: Annotated[float, typer.Option(help="Weights of a query.")] = 33.0,
    queries: Annotated[float, typer.Option(help="Queries a second.")] = 10.0,
    latency: Annotated[float, typer.Option(help="Milliseconds a query may take.")] = 200.0,
    replicas: Annotated[int, typer.Option(help="Replicas of each shard.")] = 2,
    memory: Annotated[float, typer.Option(help="GB of memory of a machine.")] = 256.0,
    cores: Annotated[int, typer.Option(help="Cores of a machine.")] = 64,
    gpu_memory: Annotated[float, typer.Option(help="GB of memory of a GPU.")] = 141.0,
    scan_dense: Annotated[
        bool, typer.Option(help="Dense scores of all passages, and not only of what words found.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Work out what a collection takes: disk, memory, machines or GPUs, latency, throughput."""
    from denslice.capacity import plan as planning

    need = planning.Need(
        docs, weights, slices, dense, text, vocab, query_weights, queries, latency, replicas, memory, cores, gpu_memory,
        scan_dense,
    )  # fmt: skip
    made = planning.plan(need)
    if as_json:
        return typer.echo(json.dumps(made.to_json(), ensure_ascii=False))
    for line in planning.lines(made):
        typer.echo(line)
