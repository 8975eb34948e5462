"""The texts that a model is taught with: given ones, and passages of several that follow each other."""

from __future__ import annotations

import lzma
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

SHORTEST, LONGEST = 150, 1200  # characters of a passage


def read_lines(path: Path) -> list[str]:
    """Return the texts of a file, one on each line; it may be compressed (.xz)."""
    raw = path.read_bytes()
    text = (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode()
    return [" ".join(line.split()) for line in text.split("\n") if line.strip()]


def passages(texts: Sequence[str], seed: int) -> list[str]:
    """Return texts joined to passages, with lengths that are even in the logarithm; the last one may be shorter."""
    rng = np.random.default_rng(seed)
    found: list[str] = []
    waiting: list[str] = []
    size, wanted = 0, 0.0
    for text in texts:
        wanted = wanted or math.exp(rng.uniform(math.log(SHORTEST), math.log(LONGEST)))
        waiting.append(text)
        size += len(text) + 1
        if size > wanted:
            found.append(" ".join(waiting))
            waiting, size, wanted = [], 0, 0.0
    return [*found, " ".join(waiting)] if waiting else found
