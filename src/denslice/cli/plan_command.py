"""`denslice plan` computes the machines that a collection needs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from denslice.cli.arguments import AsJson


def plan(
    docs: Annotated[float, typer.Option(help="Number of passages, such as 10e9.")],
    weights: Annotated[float, typer.Option(help="Weights of a passage, before any slicing.")] = 120.0,
    slices: Annotated[
        int | None, typer.Option(help="Number of slices of the index. Default: every token is kept.")
    ] = None,
    dense: Annotated[int, typer.Option(help="Dimensions of dense vectors; 0 for none.")] = 0,
    text: Annotated[float, typer.Option(help="Bytes of text and metadata of a passage.")] = 500.0,
    vocab: Annotated[int, typer.Option(help="Number of tokens of the vocabulary.")] = 30_522,
    query_weights: Annotated[float, typer.Option(help="Weights of a query.")] = 33.0,
    queries: Annotated[float, typer.Option(help="Queries per second.")] = 10.0,
    latency: Annotated[float, typer.Option(help="Milliseconds that a query may take.")] = 200.0,
    replicas: Annotated[int, typer.Option(help="Replicas of each shard.")] = 2,
    memory: Annotated[float, typer.Option(help="Memory of a machine in GB.")] = 256.0,
    cores: Annotated[int, typer.Option(help="Cores of a machine.")] = 64,
    gpu_memory: Annotated[float, typer.Option(help="Memory of a GPU in GB.")] = 141.0,
    scan_dense: Annotated[
        bool, typer.Option(help="Compute the dense scores of all passages, or only of lexical candidates.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Compute the disk, memory, machines or GPUs, latency and throughput of a collection."""
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
