"""A query as the kernels take it: keys, weights, and the units of stage one, which are those of `retrieve`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.options import SearchOptions
from denslice.search.gpu import layout
from denslice.search.query import QueryVectors, are_strong, strong_enough
from denslice.store.segment_writer import POSTING_STEPS
from denslice.vectors import Floats

ALL_STRONG = np.zeros(0, dtype=np.bool_)
QUERY_FIELDS = {name: at for at, name in enumerate(layout.QUERY.names or ())}


@dataclass(slots=True)
class QueryPlan:
    """The record of a query, its keys that are in the index, strong ones first, their weights, and its dense vector."""

    record: tuple[Any, ...]  # of QUERY
    keys: npt.NDArray[np.uint32]
    weights: Floats
    dense: Floats | None

    def __getitem__(self, name: str) -> Any:
        return self.record[QUERY_FIELDS[name]]


def plan_query(query: QueryVectors, options: SearchOptions, maxima: Floats, docs: int) -> QueryPlan | None:
    """Return the plan of a query, or None if nothing can be found. `maxima` has the largest weight of each key."""
    from denslice.search.gpu.query_keys import laid_out

    if not options.rerank:
        query = strong_enough(query, options.theta)
    paper = options.rerank and options.candidates_from == "lexical" and query.dense is not None and len(query.keys) > 0
    everywhere = query.dense is not None and not paper
    k = min(options.k, docs)
    hold = min(max(options.k, options.candidates), docs) if paper else k
    above = ALL_STRONG if options.theta == 0 else are_strong(query, options.theta)  # no weight is below 0
    asked = int(np.count_nonzero(above)) if len(above) else len(query.keys)
    keys, weights, strong, reach, unseen = laid_out(query.keys, query.weights, above, maxima)
    if not docs or (reach == 0 and not everywhere):
        return None
    spare = POSTING_STEPS * (asked + 2)
    unit = (layout.LARGEST_SCORE - spare) / (reach or 1.0)
    margin = math.ceil(reach * unit / POSTING_STEPS) + spare if options.rerank else 0
    most = hold if paper else 0
    if asked < len(query.keys):
        margin = min(layout.LARGEST_SCORE, margin + int(unseen * unit) + 1)
        most = max(options.candidates, hold)
    flags = layout.EXTRA if everywhere else layout.EVERY_CANDIDATE | layout.DENSE_OF_CANDIDATES if paper else 0
    flags |= 0 if options.rerank else layout.BOUNDS
    record: tuple[Any, ...] = (unit, reach, unseen, 0.0, 0, len(keys), strong, k, most, margin, spare, flags)
    record += (0, 0, 0, 0, layout.HIGHEST, layout.HIGHEST, 0, 0, hold, options.best)
    return QueryPlan(record, keys, weights, query.dense)
