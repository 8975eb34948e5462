"""A small table of words at random, for the quick side of a model."""

import shutil
from pathlib import Path

import numpy as np

from denslice.encoders.word_table import TABLE_FILE

MINI = Path(__file__).parent.parent / "src" / "denslice" / "mini"
WORDS = ["fox", "sleep", "night", "heat", "pump", "wing", "layer", "bread", "oven"]


def model_with_table(folder: Path) -> str:
    """Makes a folder with the embedded model and a table."""
    shutil.copytree(MINI, folder)
    write_table(folder)
    return str(folder)


def write_table(folder: Path, dimensions: int = 384) -> None:
    """Writes it to a model folder."""
    dice = np.random.default_rng(1)
    np.savez(
        folder / TABLE_FILE,
        words=np.frombuffer("\n".join(WORDS).encode(), np.uint8),
        rows=dice.integers(-127, 128, (len(WORDS) + 4, 16)).astype(np.int8),
        scale=dice.uniform(0.01, 0.02, len(WORDS) + 4).astype(np.float16),
        straight=dice.normal(size=(16, dimensions)).astype(np.float16),
        inner=dice.normal(size=(16, 8)).astype(np.float16),
        inner_bias=dice.normal(size=8).astype(np.float16),
        outer=dice.normal(size=(8, dimensions)).astype(np.float16),
        lam=np.float32(10),
        word_scale=np.float32(2),
        vector_scale=np.float32(0.5),
        outer_bias=dice.normal(size=dimensions).astype(np.float16),
    )
