"""Bounds of products from the high bytes of vectors, so that few vectors are read whole."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from denslice.errors import InputError
from denslice.store.byte_planes import BITS, HIGH, MIDDLE, BytePlanes
from denslice.vectors import Array, Floats, Ints

ROUNDING = 4e-6  # of float32 sums, relative


class WholeQuery(NamedTuple):
    """A query as whole numbers, and the factors of a bound: scale · (of_high · dot + of_scale) + of_error · error."""

    numbers: Array  # (dimensions,) int16
    of_high: np.float32
    of_scale: np.float32
    of_error: np.float32

    @classmethod
    def of(cls, query: Floats) -> WholeQuery:
        """Return a query whose products with high bytes fit 32 bits.

        A vector is c + e, where c is what its high bytes say and e is no longer than its error. A query is w + d, where
        w is made of whole numbers. So q · v = w · c + d · c + q · e, and no number of c is above scale · 2^BITS.
        """
        largest = min(2**15 - 1, (2**31 - 1) // (128 * max(1, len(query))))
        unit = float(max(query.max(initial=0), -query.min(initial=0))) / largest or 1.0
        numbers = np.rint(query / np.float32(unit))
        rest = query - np.float32(unit) * numbers
        length, lost = float(query @ query) ** 0.5, float(rest @ rest) ** 0.5
        longest = 2.0**BITS * len(query) ** 0.5  # of c, in scales
        most = MIDDLE * unit * float(numbers.sum(dtype=np.float64)) + (lost + ROUNDING * length) * longest
        return cls(
            numbers.astype(np.int16),
            np.float32(HIGH * unit),
            np.float32(most),
            np.float32(length * (1 + ROUNDING)),
        )


def places_reaching(
    vectors: BytePlanes, firsts: Ints, ends: Ints, query: WholeQuery, least: float
) -> tuple[Ints, Floats]:
    """Return the places, from each first to its end, whose products may reach `least`, and bounds of the products."""
    from denslice.search.cpu.vector_products import reaching

    if vectors.shape[1] != len(query.numbers):
        raise InputError(f"the query has {len(query.numbers)} dimensions, the index {vectors.shape[1]}")
    found: tuple[Ints, Floats] = reaching(
        vectors.high, vectors.scales, vectors.errors, firsts, ends, tuple(query), np.float32(least)
    )
    return found
