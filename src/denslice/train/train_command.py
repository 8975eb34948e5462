"""The command `denslice train`: options → config → loop, with a bar on stderr. Registered by `app.command()(train)`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from denslice.errors import MissingExtraError

if TYPE_CHECKING:
    from denslice.train.run_log import Watch

Text = str | None
Whole = int | None


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file, such as configs/acl/splade.toml.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint, if there is one.")
    ] = False,
    data: Annotated[Text, typer.Option(metavar="FOLDER", help="BEIR folder, for data.folder.")] = None,
    backbone: Annotated[Text, typer.Option(metavar="FOLDER|HUB-ID", help="What training starts from.")] = None,
    out: Annotated[Text, typer.Option(metavar="FOLDER", help="Where it all goes, for output.folder.")] = None,
    negatives: Annotated[Text, typer.Option(metavar="FILE", help="bm25, model or a file an earlier run mined.")] = None,
    steps: Annotated[Whole, typer.Option(help="For optimizer.steps.")] = None,
    warmup_steps: Annotated[Whole, typer.Option(help="For warmup.steps.")] = None,
    batch: Annotated[Whole, typer.Option(help="For optimizer.batch.")] = None,
    limit: Annotated[Whole, typer.Option(help="Queries to measure on, for evaluation.limit.")] = None,
    docs: Annotated[Whole, typer.Option(help="Documents to measure among, for evaluation.docs.")] = None,
    seed: Annotated[Whole, typer.Option(help="For seed.")] = None,
    device: Annotated[Text, typer.Option(help="auto or cpu.")] = None,
) -> None:
    """Train an encoder: SPLADE, uniCOIL, dense, or a lexical and a dense one jointly."""
    from denslice.train.config import read_config

    given = {"data": data, "backbone": backbone, "out": out, "negatives": negatives, "steps": steps}
    given |= {
        "warmup_steps": warmup_steps,
        "batch": batch,
        "limit": limit,
        "docs": docs,
        "seed": seed,
        "device": device,
    }
    settings = read_config(config, **given)  # first: a typing error is told before torch takes seconds to load
    try:
        from denslice.train import loop
    except ModuleNotFoundError as error:
        raise MissingExtraError("training", "train") from error
    with _bar(settings.optimizer.steps) as watch:
        folder = loop.train(settings, resume, watch)
    typer.echo(folder)


@contextmanager
def _bar(steps: int) -> Iterator[Watch]:
    """A bar with loss and passages/s on a terminal, else a plain line for each line of the log, on stderr."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    screen = Console(stderr=True, markup=False, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    shown = Progress(*columns, TimeRemainingColumn(), console=screen, disable=not screen.is_terminal)
    with shown:
        task = shown.add_task("training", total=steps)

        def watch(entry: dict[str, Any]) -> None:
            text = told(entry)
            if not screen.is_terminal or "measures" in entry:
                screen.print(text, soft_wrap=True)
            if screen.is_terminal:
                shown.update(task, description=text[:60], completed=entry.get("step"))

        yield watch


def told(entry: dict[str, Any]) -> str:
    """A line of the log for people."""
    if "measures" in entry:
        scores = ", ".join(f"{view} {found['nDCG@10']:.3f}" for view, found in entry["measures"].items())
        return f"{entry['split']} nDCG@10: {scores}"
    if "warmup_step" in entry:
        return f"warm-up {entry['warmup_step']}: loss {entry['warmup_loss']:.3f}"
    return f"step {entry['step']}: loss {entry['loss']:.4f}, {entry['passages_per_s']:,.0f} passages/s"


def main() -> None:
    """`python -m denslice.train`, which is what `accelerate launch -m` starts."""
    from denslice.errors import DensliceError

    try:
        typer.run(train)
    except DensliceError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
