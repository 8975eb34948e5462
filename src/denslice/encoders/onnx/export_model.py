"""`export_model`: it reads the texts that an export measures the model on, and exports the model."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from denslice.corpus.documents import read_docs
from denslice.errors import MissingExtraError

CALIBRATION_TEXTS = 256  # on which the range of the activations is measured


def export_model(model: str, to: Path, texts: str | None) -> int:
    """Write the model's folder, in int8 if there are texts to measure it on, and return its size in bytes."""
    try:
        from denslice.encoders.onnx.export import export_onnx
    except ModuleNotFoundError as error:
        raise MissingExtraError("exporting a model", "export") from error
    sample = None if texts is None else [doc.contents for doc in islice(read_docs([texts]), CALIBRATION_TEXTS)]
    export_onnx(model, to, sample)
    return sum(path.stat().st_size for path in to.iterdir())
