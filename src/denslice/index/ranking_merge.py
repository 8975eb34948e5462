"""The ranking of a collection from those of its parts: shards of a cluster, or indexes that are searched together."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np

from denslice.search.query import NO_SCORES, Found

RankedRow = tuple[float, str, int, int, int, float, float]  # negated score, id, passage, part, row, lexical, dense


def merge(found: Mapping[int, Found], k: int, missing: tuple[str, ...] = ()) -> Found:
    """Return the k best of the parts' k best, in the order of one index; `segments` then holds the numbers of parts."""
    best = list(islice(heapq.merge(*(_ranked_rows(part, one) for part, one in found.items())), k))
    scores, ids, numbers, parts, rows, lexical, dense = zip(*best, strict=True) if best else ((),) * 7
    has_passages = any(len(one.passages) for one in found.values())
    has_dense = any(len(one.dense) for one in found.values())
    return Found(
        np.array(parts, dtype=np.int64),
        np.array(rows, dtype=np.int64),
        list(ids),
        -np.array(scores, dtype=np.float32),
        np.array(lexical, dtype=np.float32),
        np.array(dense, dtype=np.float32) if has_dense else NO_SCORES,
        missing,
        np.array(numbers if has_passages else (), dtype=np.int64),
    )


def _ranked_rows(part: int, found: Found) -> Iterator[RankedRow]:
    dense = found.dense.tolist() if len(found.dense) else [0.0] * len(found.ids)
    scores, rows, lexical = (-found.scores).tolist(), found.rows.tolist(), found.lexical.tolist()
    numbers = found.passages.tolist() or [0] * len(found.ids)
    for score, id, number, row, *parts in zip(scores, found.ids, numbers, rows, lexical, dense, strict=True):
        yield score, id, number, part, row, parts[0], parts[1]
