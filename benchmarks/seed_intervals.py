"""The difference of two models over queries and seeds, with its confidence interval.

Both models are measured on the same queries and trained with the same seeds. A difference is taken for each seed and
query, and the interval counts both as samples: other queries and other seeds would have given other differences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import t

CONFIDENCE = 0.95
Differences = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A mean difference and half the width of its confidence interval."""

    mean: float
    half: float
    seeds: int

    @property
    def verdict(self) -> str:
        """Which of the two is ahead, if the interval says so."""
        return "level" if abs(self.mean) <= self.half else "ahead" if self.mean > 0 else "behind"


def interval(differences: Differences) -> Interval:
    """Return the interval of differences (seeds, queries): an analysis of variance with both as random effects.

    The variance of the mean is (MS seeds + MS queries - MS rest) / (seeds · queries), with Satterthwaite's degrees of
    freedom; it is never taken to be less than that of the queries alone. With one seed it is that of the queries.
    """
    seeds, queries = differences.shape
    mean = float(differences.mean())
    of_queries = seeds * float(differences.mean(axis=0).var(ddof=1))  # a mean square
    if seeds == 1:
        return Interval(mean, _half(of_queries / queries, queries - 1), seeds)
    of_seeds = queries * float(differences.mean(axis=1).var(ddof=1))
    rest = differences - differences.mean(axis=0) - differences.mean(axis=1)[:, None] + mean
    of_rest = float((rest**2).sum()) / ((seeds - 1) * (queries - 1))
    if of_seeds <= of_rest:  # the seeds differ no more than chance would have it
        return Interval(mean, _half(of_queries / (seeds * queries), queries - 1), seeds)
    total = of_seeds + of_queries - of_rest
    squares = of_seeds**2 / (seeds - 1) + of_queries**2 / (queries - 1) + of_rest**2 / ((seeds - 1) * (queries - 1))
    freedom = total**2 / squares if squares else queries - 1.0
    return Interval(mean, _half(total / (seeds * queries), freedom), seeds)


def _half(variance: float, freedom: float) -> float:
    return float(t.ppf((1 + CONFIDENCE) / 2, freedom)) * math.sqrt(variance)
