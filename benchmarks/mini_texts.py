"""The texts that a model is fitted to: given ones, passages of several that follow each other, and all in pieces."""

from __future__ import annotations

import lzma
import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mini_bodies import TextBody

SHORTEST, LONGEST = 150, 1200  # characters of a passage
CHUNK = 50_000  # texts that are cut into pieces at one time
Ints32 = np.ndarray[Any, np.dtype[np.int32]]
Ints64 = np.ndarray[Any, np.dtype[np.int64]]


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


class Pieces:
    """Texts in the pieces of both bodies, flat on the device."""

    def __init__(self, bodies: Sequence[TextBody], texts: Sequence[str], device: torch.device) -> None:
        self._flat, self._starts, self._sizes, self._pads = [], [], [], [body.pad for body in bodies]
        lengths = []
        for body in bodies:
            parts = [flat_rows(body.pieces(texts[at : at + CHUNK])) for at in range(0, len(texts), CHUNK)]
            own = np.concatenate([sizes for _, sizes in parts])
            lengths.append(own)
            self._flat.append(torch.from_numpy(np.concatenate([flat for flat, _ in parts])).to(device))
            self._starts.append(torch.from_numpy(np.cumsum(own) - own).to(device))
            self._sizes.append(torch.from_numpy(own).to(device))
        self.lengths = np.maximum(*lengths)

    def rows(self, which: Ints64) -> list[Tensor]:
        """Return texts as padded rows, one tensor for each body."""
        found = []
        for flat, starts, sizes, pad in zip(self._flat, self._starts, self._sizes, self._pads, strict=True):
            at = torch.from_numpy(which).to(flat.device)
            place = torch.arange(int(sizes[at].max()), device=flat.device)
            ids = flat[(starts[at, None] + place).clamp(max=len(flat) - 1)].long()
            found.append(torch.where(place < sizes[at, None], ids, pad))
        return found


def flat_rows(rows: Sequence[Sequence[int]]) -> tuple[Ints32, Ints64]:
    """Return all pieces in one array, and how many each row has."""
    sizes = np.array([len(row) for row in rows])
    return np.fromiter(chain.from_iterable(rows), np.int32, int(sizes.sum())), sizes
