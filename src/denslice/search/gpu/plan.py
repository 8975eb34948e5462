"""A query as the kernels take it: keys, weights, and the numbers stage one counts in, as `retrieve` has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.search.gpu.layout import (
    BOUNDS,
    DENSE_OF_CANDIDATES,
    EVERY_CANDIDATE,
    EXTRA,
    HIGHEST,
    LARGEST_SCORE,
    QUERY,
)
from denslice.search.retrieve import QueryVectors, Settings, are_strong, strong_enough
from denslice.store.segment_writer import LEVELS
from denslice.vectors import Floats

PLACES = {name: at for at, name in enumerate(QUERY.names or ())}


@dataclass(slots=True)
class Plan:
    """A query's record, its keys that are in the index, the strong ones first, their weights, and its dense vector."""

    record: tuple[Any, ...]  # of QUERY
    keys: npt.NDArray[np.uint32]
    weights: Floats
    dense: Floats | None

    def __getitem__(self, name: str) -> Any:
        return self.record[PLACES[name]]


def plan(query: QueryVectors, settings: Settings, maxima: Floats, docs: int) -> Plan | None:
    """How to search for a query; None where nothing can be found. `maxima` has the largest weight of each key."""
    if not settings.rerank:
        query = strong_enough(query, settings.theta)
    paper = (
        settings.rerank and settings.candidates_from == "lexical" and query.dense is not None and len(query.keys) > 0
    )
    everywhere = query.dense is not None and not paper
    k = min(settings.k, docs)
    hold = min(max(settings.k, settings.candidates), docs) if paper else k
    above = None if settings.theta == 0 else are_strong(query, settings.theta)  # no weight is below 0
    strong = query if above is None else QueryVectors(query.keys[above], query.weights[above])
    largest = _largest(strong, maxima)
    reach = float(strong.weights.astype(np.float64) @ largest)
    if not docs or (reach == 0 and not everywhere):
        return None
    spare = LEVELS * (len(strong.keys) + 2)
    unit = (LARGEST_SCORE - spare) / (reach or 1.0)
    margin = int(np.ceil(reach * unit / LEVELS)) + spare if settings.rerank else 0
    keys, weights = _known(strong, largest)
    most, unseen, strongest = hold if paper else 0, 0.0, len(keys)
    if above is not None and len(strong.keys) < len(query.keys):
        left_out = QueryVectors(query.keys[~above], query.weights[~above])
        largest = _largest(left_out, maxima)
        unseen = float(left_out.weights.astype(np.float64) @ largest)
        margin = min(LARGEST_SCORE, margin + int(unseen * unit) + 1)
        most = max(settings.candidates, hold)
        more_keys, more_weights = _known(left_out, largest)
        keys, weights = np.append(keys, more_keys), np.append(weights, more_weights)
    flags = EXTRA if everywhere else EVERY_CANDIDATE | DENSE_OF_CANDIDATES if paper else 0
    flags |= 0 if settings.rerank else BOUNDS
    record: tuple[Any, ...] = (unit, reach, unseen, 0.0, 0, len(keys), strongest, k, most, margin, spare, flags)
    record += (0, 0, 0, 0, HIGHEST, HIGHEST, 0, 0, hold, 0)
    return Plan(record, keys, weights, query.dense)


def _known(query: QueryVectors, largest: Floats) -> tuple[npt.NDArray[np.uint32], Floats]:
    """The keys some document has, and their weights."""
    keys = query.keys.astype(np.uint32)
    if largest.all():
        return keys, query.weights
    known = largest > 0
    return keys[known], query.weights[known]


def _largest(query: QueryVectors, maxima: Floats) -> Floats:
    if len(query.keys) and query.keys[-1] < len(maxima):  # keys rise
        return maxima[query.keys]
    known = np.minimum(query.keys, max(0, len(maxima) - 1))
    found = maxima[known] if len(maxima) else np.zeros(len(query.keys), np.float32)
    return np.where(query.keys < len(maxima), found, np.float32(0))
