"""A trained model to a folder that runs without torch."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from denslice.corpus.documents import read_docs
from denslice.errors import MissingExtraError

CALIBRATION_TEXTS = 256  # texts that show how large a model's activations get


def export_model(model: str, to: Path, texts: str | None) -> int:
    """Writes the model's folder, in int8 if there are texts to measure it on; how many bytes it has."""
    try:
        from denslice.encoders.onnx.export import export_onnx
    except ModuleNotFoundError as error:
        raise MissingExtraError("exporting a model", "export") from error
    sample = None if texts is None else [doc.contents for doc in islice(read_docs([texts]), CALIBRATION_TEXTS)]
    export_onnx(model, to, sample)
    return sum(path.stat().st_size for path in to.iterdir())
