"""Hits: documents with a lexical score above 0, and documents with a dense vector if the query has one too.

A vector of zeros counts as none. A dense search gives a score to every document: those that are no hits are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from denslice.search.query import Found, Mask, QueryVectors
from denslice.store.segment import Segment

CHECKED_ROWS = 1 << 16  # rows whose dense vectors are compared with 0 at a time
SearchCall = Callable[[Sequence[QueryVectors], Sequence[Mask]], list[Found]]


def only_hits(
    search: SearchCall,
    queries: Sequence[QueryVectors],
    masks: Sequence[Mask],
    k: int,
    segments: Sequence[Segment],
    with_dense: Callable[[], Sequence[Mask]],
) -> list[Found]:
    """Return the k best hits of each query.

    If a search returns a document that is no hit, documents with and without a dense vector are searched separately,
    the latter by lexical score alone. Only then `with_dense` is called; it returns the masks of `rows_with_dense`.
    """
    found = search(queries, masks)
    again = [at for at, one in enumerate(found) if _has_others(one, segments)]
    if not again:
        return found
    having = with_dense()
    by_both = search([queries[at] for at in again], [_both(*pair) for pair in zip(masks, having, strict=True)])
    lexical = [replace(queries[at], dense=None) for at in again]
    by_lexical = search(lexical, [_both(mask, 1 - here) for mask, here in zip(masks, having, strict=True)])
    for at, *parts in zip(again, by_both, by_lexical, strict=True):
        found[at] = _joined(parts, k)
    return found


def rows_with_dense(segment: Segment) -> Mask:
    """Return a mask with a 1 for each row with a passage whose dense vector is not all zeros."""
    if segment.dense is None:
        return np.zeros(segment.rows, dtype=np.uint8)
    having = np.zeros(len(segment.dense), dtype=np.uint8)
    if len(having):
        for start in range(0, len(having), CHECKED_ROWS):
            having[start : start + CHECKED_ROWS] = (segment.dense[start : start + CHECKED_ROWS] != 0).any(axis=1)
    if segment.passage_starts is None:
        return having
    return np.maximum.reduceat(having, segment.passage_starts[:-1].astype(np.int64))


def _has_others(found: Found, segments: Sequence[Segment]) -> bool:
    """Return whether a document was found that is no hit: both scores are 0, and its dense vector is all zeros."""
    if not len(found.dense):
        return False
    idle = np.flatnonzero((found.lexical == 0) & (found.dense == 0))
    places = zip(found.segments[idle].tolist(), found.rows[idle].tolist(), strict=True)
    return any(_has_no_vector(segments[at], row) for at, row in places)


def _has_no_vector(segment: Segment, row: int) -> bool:
    return segment.dense is not None and not segment.dense[segment.passage_numbers(np.array([row]))].any()


def _both(mask: Mask, other: Mask) -> Mask:
    return mask & other if len(mask) else other


def _joined(parts: Sequence[Found], k: int) -> Found:
    """Return the k best of both, best first, equal scores by id."""
    ids = [id for part in parts for id in part.ids]
    dense = [part.dense if len(part.dense) else np.zeros(len(part.ids), np.float32) for part in parts]
    columns = [(part.segments, part.rows, part.scores, part.lexical) for part in parts]
    segments, rows, scores, lexical = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = sorted(range(len(ids)), key=lambda at: (-scores[at], ids[at]))[:k]
    best = np.array(order, dtype=np.int64)
    return Found(
        segments[best], rows[best], [ids[at] for at in order], scores[best], lexical[best], np.concatenate(dense)[best]
    )
