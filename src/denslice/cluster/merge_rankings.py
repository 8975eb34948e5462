"""Merges the rankings of shards into the ranking of the whole collection: best first, equal scores by id."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from denslice.search.query import NO_SCORES, Found

RankedRow = tuple[float, str, int, int, float, float]  # negated score, id, shard, row, lexical, dense


def merge(found: Mapping[int, Found], k: int, missing: tuple[str, ...] = ()) -> Found:
    """Return the k best of the shards' k best, in the order of one index; `segments` then holds shard numbers."""
    best = list(islice(heapq.merge(*(_rows(shard, one) for shard, one in found.items())), k))
    scores, ids, shards, rows, lexical, dense = zip(*best, strict=True) if best else ((),) * 6
    has_dense = any(len(one.dense) for one in found.values())
    return Found(
        np.array(shards, dtype=np.int64),
        np.array(rows, dtype=np.int64),
        list(ids),
        -np.array(scores, dtype=np.float32),
        np.array(lexical, dtype=np.float32),
        np.array(dense, dtype=np.float32) if has_dense else NO_SCORES,
        missing,
    )


def _rows(shard: int, found: Found) -> Iterator[RankedRow]:
    dense = found.dense.tolist() if len(found.dense) else [0.0] * len(found.ids)
    scores, rows, lexical = (-found.scores).tolist(), found.rows.tolist(), found.lexical.tolist()
    for score, id, row, *parts in zip(scores, found.ids, rows, lexical, dense, strict=True):
        yield score, id, shard, row, parts[0], parts[1]
