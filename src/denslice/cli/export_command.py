"""`denslice export` writes a trained model to a folder that needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Model of word weights: a folder or Hugging Face id.")],
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder, which --encoder takes.")],
    texts: Annotated[
        str | None,
        typer.Option(metavar="FILE|FOLDER", help="Sample documents, to write int8 weights. Default: float32."),
    ] = None,
) -> None:
    """Write a model that runs without torch: an ONNX graph, its tokenizer and its settings."""
    from denslice.cli.output import size
    from denslice.encoders.onnx.export_model import export_model

    typer.echo(f"wrote {to} ({size(export_model(model, to, texts))})")
