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
from denslice.vectors import Floats, Ints

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
    keys, weights, strong = _strong_first(query, settings.theta)
    largest = _largest(keys, maxima)
    wide = weights.astype(np.float64)
    reach = float(wide[:strong] @ largest[:strong])
    if not docs or (reach == 0 and not everywhere):
        return None
    spare = LEVELS * (strong + 2)
    unit = (LARGEST_SCORE - spare) / (reach or 1.0)
    margin = int(np.ceil(reach * unit / LEVELS)) + spare if settings.rerank else 0
    most, unseen = hold if paper else 0, 0.0
    if strong < len(keys):
        unseen = float(wide[strong:] @ largest[strong:])
        margin = min(LARGEST_SCORE, margin + int(unseen * unit) + 1)
        most = max(settings.candidates, hold)
    if not largest.all():  # some key that no document has
        known = largest > 0
        keys, weights, strong = keys[known], weights[known], int(np.count_nonzero(known[:strong]))
    flags = EXTRA if everywhere else EVERY_CANDIDATE | DENSE_OF_CANDIDATES if paper else 0
    flags |= 0 if settings.rerank else BOUNDS
    record: tuple[Any, ...] = (unit, reach, unseen, 0.0, 0, len(keys), strong, k, most, margin, spare, flags)
    record += (0, 0, 0, 0, HIGHEST, HIGHEST, 0, 0, hold, 0)
    return Plan(record, keys.astype(np.uint32), weights, query.dense)


def _strong_first(query: QueryVectors, theta: float) -> tuple[Ints, Floats, int]:
    """The query's keys and weights, those that stage one takes first, and how many these are."""
    if theta == 0:  # no weight is below 0
        return query.keys, query.weights, len(query.keys)
    above = are_strong(query, theta)
    order = np.concatenate([np.flatnonzero(above), np.flatnonzero(~above)])
    return query.keys[order], query.weights[order], int(np.count_nonzero(above))


def _largest(keys: Ints, maxima: Floats) -> Floats:
    """The largest weight of each key, 0 for one that no document has."""
    known = keys < len(maxima)
    if known.all():
        return maxima[keys]
    found = np.zeros(len(keys), np.float32)
    found[known] = maxima[keys[known]]
    return found
