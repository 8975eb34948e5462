"""`denslice`, also as `python -m denslice`: the commands of the product, and those of the laboratory beside them.

The product never imports the laboratory (train, reproduce, bench); this file is the one place that knows both.
"""

from __future__ import annotations

import typer

from denslice.bench.bench_command import cpu, gpu
from denslice.cli.app import app, main
from denslice.reproduce.reproduce_command import reproduce
from denslice.train.train_command import train

app.command()(train)
app.command()(reproduce)
bench = typer.Typer(help="Time search beside its peers.", no_args_is_help=True)
bench.command()(cpu)
bench.command()(gpu)
app.add_typer(bench, name="bench")

if __name__ == "__main__":
    main()
