"""The command `denslice train`: it reads options and config, runs the loop and shows progress on stderr."""

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

OptionalText = str | None
OptionalInt = int | None


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file, such as configs/acl/splade.toml.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint, if there is one.")
    ] = False,
    data: Annotated[OptionalText, typer.Option(metavar="FOLDER", help="BEIR folder, for data.folder.")] = None,
    backbone: Annotated[
        OptionalText, typer.Option(metavar="FOLDER|HUB-ID", help="The model that training starts from.")
    ] = None,
    out: Annotated[OptionalText, typer.Option(metavar="FOLDER", help="Output folder, for output.folder.")] = None,
    negatives: Annotated[
        OptionalText,
        typer.Option(metavar="FILE", help="bm25, model, or a file of an earlier run, for data.negatives_from."),
    ] = None,
    steps: Annotated[OptionalInt, typer.Option(help="Training steps, for optimizer.steps.")] = None,
    warmup_steps: Annotated[
        OptionalInt, typer.Option(help="Steps of the masked-language warm-up, for warmup.steps.")
    ] = None,
    batch: Annotated[OptionalInt, typer.Option(help="Queries of a batch, for optimizer.batch.")] = None,
    limit: Annotated[OptionalInt, typer.Option(help="Queries to measure, for evaluation.limit.")] = None,
    docs: Annotated[OptionalInt, typer.Option(help="Documents beside the relevant ones, for evaluation.docs.")] = None,
    seed: Annotated[OptionalInt, typer.Option(help="Random seed.")] = None,
    device: Annotated[OptionalText, typer.Option(help="auto (a GPU if there is one) or cpu.")] = None,
) -> None:
    """Train an encoder: SPLADE, uniCOIL, dense, or a lexical and a dense one jointly."""
    from denslice.train.config import read_config

    given = {"data": data, "backbone": backbone, "out": out, "negatives": negatives, "steps": steps, "batch": batch}
    given |= {"warmup_steps": warmup_steps, "limit": limit, "docs": docs, "seed": seed, "device": device}
    settings = read_config(config, **given)  # first, so that a wrong key is reported before torch is loaded
    try:
        from denslice.train import loop
    except ModuleNotFoundError as error:
        raise MissingExtraError("training", "train") from error
    with _bar(settings.optimizer.steps) as watch:
        folder = loop.train(settings, resume, watch)
    typer.echo(folder)


@contextmanager
def _bar(steps: int) -> Iterator[Watch]:
    """Show a progress bar on stderr if it is a terminal, otherwise a line for each entry of the log."""
    from rich import progress as rich
    from rich.console import Console

    screen = Console(stderr=True, markup=False, highlight=False)
    times = (rich.TimeElapsedColumn(), rich.TimeRemainingColumn())
    columns = (rich.TextColumn("{task.description}"), rich.BarColumn(), rich.MofNCompleteColumn(), *times)
    shown = rich.Progress(*columns, console=screen, disable=not screen.is_terminal)
    with shown:
        task = shown.add_task("training", total=steps)

        def watch(entry: dict[str, Any]) -> None:
            text = log_text(entry)
            if not screen.is_terminal or "measures" in entry:
                screen.print(text, soft_wrap=True)
            if screen.is_terminal:
                shown.update(task, description=text[:60], completed=entry.get("step"))

        yield watch


def log_text(entry: dict[str, Any]) -> str:
    """Return an entry of the log as a line for people."""
    if "measures" in entry:
        scores = ", ".join(f"{scoring} {found['nDCG@10']:.3f}" for scoring, found in entry["measures"].items())
        return f"{entry['split']} nDCG@10: {scores}"
    if "warmup_step" in entry:
        return f"warm-up {entry['warmup_step']}: loss {entry['warmup_loss']:.3f}"
    return f"step {entry['step']}: loss {entry['loss']:.4f}, {entry['passages_per_s']:,.0f} passages/s"


def main() -> None:
    """Run `denslice train` as `python -m denslice.train`, for `accelerate launch -m`."""
    from denslice.errors import DensliceError

    try:
        typer.run(train)
    except DensliceError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
