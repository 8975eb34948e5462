"""The command `denslice`, also `python -m denslice`: the commands of the product and of the laboratory.

The product never imports the laboratory (train, reproduce, bench). Only this file imports both.
"""

from __future__ import annotations

import typer

from denslice.bench.bench_command import cpu, gpu, products
from denslice.cli.app import app, main
from denslice.reproduce.reproduce_command import reproduce
from denslice.train.train_command import train

__all__ = ["app", "main"]

app.command()(train)
app.command()(reproduce)
bench = typer.Typer(help="Compare search with other libraries and products.", no_args_is_help=True)
bench.command()(cpu)
bench.command()(gpu)
bench.command()(products)
app.add_typer(bench, name="bench")

if __name__ == "__main__":
    main()
