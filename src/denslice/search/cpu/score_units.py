"""Scores of stage one as whole numbers of a unit, which is chosen for each query.

They are never below the exact score, and exceed it by less than the query's margin. Sums have 16 bits if that is
precise enough, because it is faster, and 32 bits otherwise. Each size has a Scale.

Import this module inside the function that needs it: numba is slow to load.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from denslice.compiling import compiled, helper, inlined
from denslice.search.cpu.intrinsics import half

LEVELS = 255  # steps of a posting's value


class Scale(NamedTuple):
    """The number type of stage one's scores, the largest score, and the bits of a posting's share below one unit."""

    dtype: Any
    largest: int
    fraction: int


NARROW = Scale(np.uint16, 2**16 - 1, 16)
WIDE = Scale(np.uint32, 2**31 - 1, 0)
NARROW_LARGEST, NARROW_FRACTION = NARROW.largest, NARROW.fraction


def unit_and_margin(reach: float, lexical_reach: float, terms: int, scale: Scale) -> tuple[float, int]:
    """Return how many units a score of 1 has, if no score exceeds `reach`, and how many units rounding may add."""
    unit, margin = in_units.py_func(reach, lexical_reach, terms, scale.largest, scale.fraction)
    return float(unit), int(margin)


@inlined
def in_units(reach, lexical_reach, terms, largest, fraction):
    spare = (2 if fraction else LEVELS) * (terms + 2)  # units that rounding up may add, term by term
    unit = (largest - spare) / (reach if reach > 0 else 1.0)
    return unit, np.int64(np.ceil(lexical_reach * unit / LEVELS)) + spare


@compiled
def reach_of(weights, largest):
    """Return the most that the weights can add to a score, summed in their order, as the GPU sums it."""
    return most_of(weights, largest)


@inlined
def most_of(weights, largest):
    reach = 0.0
    for j in range(len(weights)):
        reach += np.float64(weights[j]) * largest[j]
    return reach


@inlined
def scores_of(bounds, unit):
    scores = np.empty(len(bounds), np.float32)
    for i in range(len(bounds)):
        scores[i] = bounds[i] / unit * (1 + 1e-6)
    return scores


@helper
def step_of(weight, maximum, unit, fraction):
    """Return how much one step of a list's values adds to a score, in fractions of a unit, rounded up."""
    return np.uint32(np.ceil(np.float64(weight) * half(maximum) * unit / LEVELS * (1 << fraction)))


@helper
def share_of(step, value, fraction):
    """Return how many units a posting adds to a score, rounded up."""
    return (step * np.uint32(value) + np.uint32((1 << fraction) - 1)) >> np.uint32(fraction)


@helper
def bin_shift(fraction):
    """Return the shift that leaves the first twelve bits of a score, which are its bin in a histogram."""
    return np.uint32(4 if fraction else 20)
