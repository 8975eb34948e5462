"""BytePlanes: dense vectors of 16 bits a number, stored as two planes of bytes.

Each vector is a power of two times whole numbers of 16 bits. The plane of high bytes alone gives each product with a
query up to a known error, for half of the reading; both planes give the vector itself, a row of float16 numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from denslice.vectors import Array, Floats

BITS = 15  # of the largest whole number of a vector
HIGH = 256.0  # steps of one high byte
MIDDLE = 127.5  # steps that a low byte stands for if it is not read
AT_ONCE = 8_192  # vectors that are converted at a time
ROUNDING = np.float32(1 + 1e-6)


@dataclass(frozen=True)
class BytePlanes:
    """Vectors in the order of their file."""

    high: Array  # (n, dimensions) int8
    low: Array  # (n, dimensions) uint8
    scales: Array  # (n,) float32, powers of two
    errors: Array  # (n,) float32: how far a vector may be from what its high bytes say, as a Euclidean distance

    @classmethod
    def of(cls, vectors: Array) -> BytePlanes:
        """Return the planes of float16 vectors that are `on_grid`."""
        high, low = np.empty(vectors.shape, np.int8), np.empty(vectors.shape, np.uint8)
        scales, errors = np.empty(len(vectors), np.float32), np.empty(len(vectors), np.float32)
        for part in _parts(len(vectors)):
            numbers = vectors[part].astype(np.float32)
            scales[part], steps = _steps(numbers)
            high[part], low[part] = steps >> 8, steps & 255
            by_high = scales[part, None] * (high[part] * np.float32(HIGH) + np.float32(MIDDLE))
            errors[part] = np.linalg.norm(numbers - by_high, axis=1) * ROUNDING
        return cls(high, low, scales, errors)

    @classmethod
    def joined(cls, planes: Sequence[BytePlanes]) -> BytePlanes:
        """Return a copy of the vectors of all these planes, one after another."""
        return cls(*(np.concatenate([getattr(one, field.name) for one in planes]) for field in fields(cls)))

    def __len__(self) -> int:
        return len(self.high)

    def __getitem__(self, places: Any) -> Array:
        high, low, scales = self.high[places], self.low[places], self.scales[places]
        if high.ndim == 1:
            return _numbers(high, low, scales)
        vectors = np.empty(high.shape, np.float16)
        for part in _parts(len(high)):
            vectors[part] = _numbers(high[part], low[part], scales[part, None])
        return vectors

    @property
    def shape(self) -> tuple[int, int]:
        """The number of vectors and their width."""
        return len(self.high), int(self.high.shape[1])


def on_grid(vectors: Array) -> Array:
    """Return the nearest vectors (n, dimensions) float16 that byte planes can hold.

    They are the nearest float16 numbers, but numbers below 1/16 of the largest of their vector may be rounded to a
    multiple of its scale, which is at most 1/16,384 of the largest.
    """
    rounded = np.empty(vectors.shape, np.float16)
    for part in _parts(len(vectors)):
        scales, steps = _steps(vectors[part].astype(np.float16).astype(np.float32))
        rounded[part] = scales[:, None] * steps.astype(np.float32)
    return rounded


def _steps(numbers: Floats) -> tuple[Floats, Array]:
    """Return the scale of each vector, and its numbers as multiples of it (n, dimensions) int16."""
    exponents = np.frexp(np.abs(numbers).max(axis=1, initial=0))[1]  # the largest number is below 2^exponent
    scales = np.ldexp(np.float32(1), exponents - BITS).astype(np.float32)
    return scales, np.rint(numbers / scales[:, None]).clip(1 - 2**BITS, 2**BITS - 1).astype(np.int16)


def _numbers(high: Array, low: Array, scales: Any) -> Array:
    found: Array = (scales * (high * np.float32(HIGH) + low)).astype(np.float16)
    return found


def _parts(count: int) -> Iterator[slice]:
    return (slice(start, min(count, start + AT_ONCE)) for start in range(0, count, AT_ONCE))
