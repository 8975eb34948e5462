"""The commands `denslice bench cpu`, `gpu` and `products`, registered in denslice/__main__.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from denslice.errors import InputError

MS_MARCO = 8_841_823  # passages
CPU_PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "pyseismic-lsr", "bm25s", "faiss-cpu", "torch")
GPU_PACKAGES = ("numpy", "cupy-cuda13x", "cupy-cuda12x", "torch")


def cpu(
    vectors: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder with docs.npz and queries.npz, scipy CSR matrices.")
    ] = None,
    texts: Annotated[Path | None, typer.Option(metavar="FOLDER", help="A BEIR folder, for BM25 against bm25s.")] = None,
    work: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder that keeps built indexes for later runs.")
    ] = Path("bench-work"),
    only: Annotated[
        list[str] | None,
        typer.Option(help="Contender to measure, by the start of its name; can be repeated. Default: all."),
    ] = None,
    slices: Annotated[int, typer.Option(help="Number of slices of denslice's index.", min=1)] = 768,
    repeats: Annotated[int, typer.Option(help="How many times each query is timed.", min=1)] = 5,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="JSONL file to append the figures to.")] = None,
) -> None:
    """Time search on the CPU against other libraries, on the same vectors in one run."""
    from denslice.bench.bench_data import BenchTexts, BenchVectors
    from denslice.bench.bench_table import table
    from denslice.bench.cpu_bench import contenders, measure
    from denslice.cli.output import write_line
    from denslice.provenance import append_line, provenance

    if (vectors is None) == (texts is None):
        raise InputError("name the collection to search: --vectors FOLDER or --texts FOLDER")
    collection = BenchVectors(vectors) if vectors is not None else BenchTexts(texts or Path())
    chosen = contenders(collection, only or [], slices)
    figures = measure(collection, chosen, work, repeats, lambda line: typer.echo(line, err=True))
    settings = {"collection": collection.told, "slices": slices, "repeats": repeats}
    line = provenance(CPU_PACKAGES) | settings | {"figures": figures}
    if out is not None:
        append_line(out, line)
    write_line(table(line))


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
    from denslice.cli.output import write_line
    from denslice.provenance import append_line, provenance

    bench = Bench(docs, queries, repeats, device)
    figures = list(bench.run(peers))
    write_line(table(figures))
    if out is not None:
        configuration = {"docs": docs, "queries": queries, "repeats": repeats, "k": K, "gpu": bench.name}
        append_line(out, provenance(GPU_PACKAGES) | {"configuration": configuration, "figures": figures})


def products(
    data: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder that holds the collections, each in BEIR's layout.")
    ],
    work: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for environments, vectors, stores and figures.")
    ] = Path("products-work"),
    only: Annotated[
        list[str] | None,
        typer.Option(help="Product to measure, by the start of its name; can be repeated. Default: all."),
    ] = None,
    documents: Annotated[int, typer.Option(help="Number of texts in the folder.", min=50)] = 100_000,
    kills: Annotated[int, typer.Option(help="How many times each product is killed while it adds.", min=0)] = 20,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="JSONL file to append the figures to.")] = None,
) -> None:
    """Compare denslice with other products, from a folder of texts to answers; an interrupted run can be resumed."""
    from denslice.bench.product_bench import MEASURED, ProductBench, chosen_products
    from denslice.bench.product_process import ending_on_sigterm
    from denslice.bench.product_table import has_line, product_table, trust_table
    from denslice.cli.output import write_line
    from denslice.provenance import append_line, provenance

    bench = ProductBench(data, work, documents, kills, lambda line: typer.echo(line, err=True))
    lines = []
    for program in chosen_products(only or []):
        with ending_on_sigterm():
            figures = bench.measure(program)
        line = provenance((), MEASURED) | {"configuration": bench.configuration(), "product": program.name}
        minilm = bench.minilm() if figures["needs_minilm"] else None
        line["versions"] |= figures.pop("versions") | (bench.costs.versions if minilm else {})
        lines.append(line | {"minilm": minilm, "figures": figures})
        if out is not None and not has_line(out, lines[-1]):
            append_line(out, lines[-1])
    write_line(f"{product_table(lines)}\n\n{trust_table(lines)}")
