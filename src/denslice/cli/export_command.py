"""`denslice export`: a trained model as a folder that runs without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A trained model that weighs words: folder or hub id.")],
    to: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder, for --encoder.")],
    texts: Annotated[
        str | None,
        typer.Option(metavar="FILE|FOLDER", help="Texts such as it will read: with them, weights in int8."),
    ] = None,
) -> None:
    """Write a model that runs without torch: an ONNX graph, its tokenizer and its settings."""
    from denslice.cli.output import size
    from denslice.encoders.onnx.export_model import export_model

    weighs = size(export_model(model, to, texts))
    typer.echo(f"wrote {to} ({weighs})")
