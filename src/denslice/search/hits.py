"""Hits: a document is one if its lexical score is above 0, or if it and the query both have a dense vector.

A vector of zeros is none. A search by dense vectors scores every document, those without one by 0; here they go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from denslice.search.query import Found, Mask, QueryVectors
from denslice.store.segment import Segment
from denslice.vectors import Floats

AT_ONCE = 1 << 16  # rows whose dense vectors are looked at together
Search = Callable[[Sequence[QueryVectors], Sequence[Mask]], list[Found]]


def only_hits(
    search: Search,
    queries: Sequence[QueryVectors],
    masks: Sequence[Mask],
    k: int,
    segments: Sequence[Segment],
    with_dense: Callable[[], Sequence[Mask]],
) -> list[Found]:
    """What is found for each query, all of it hits, and k of them where there are so many.

    Where a search returns a document that is none, documents with and without a dense vector are searched apart, the
    latter by words alone. `with_dense` has per segment a 1 for each row with a dense vector; it is asked for only then.
    """
    found = search(queries, masks)
    again = [at for at, one in enumerate(found) if _has_others(one, segments)]
    if not again:
        return found
    having = with_dense()
    by_both = search([queries[at] for at in again], [_both(*pair) for pair in zip(masks, having, strict=True)])
    words = [replace(queries[at], dense=None) for at in again]
    by_words = search(words, [_both(mask, 1 - here) for mask, here in zip(masks, having, strict=True)])
    for at, *parts in zip(again, by_both, by_words, strict=True):
        found[at] = _joined(parts, k)
    return found


def rows_with_dense(segment: Segment) -> Mask:
    """A 1 for each row whose dense vector is not all zeros."""
    having = np.zeros(segment.rows, dtype=np.uint8)
    if segment.dense is not None:
        for start in range(0, segment.rows, AT_ONCE):
            having[start : start + AT_ONCE] = (segment.dense[start : start + AT_ONCE] != 0).any(axis=1)
    return having


def _has_others(found: Found, segments: Sequence[Segment]) -> bool:
    """Whether a document was found that is no hit: it scores 0 twice, and its dense vector is all zeros."""
    if not len(found.dense):
        return False
    idle = np.flatnonzero((found.lexical == 0) & (found.dense == 0))
    places = zip(found.segments[idle].tolist(), found.rows[idle].tolist(), strict=True)
    return any(not np.any(_dense(segments[at])[row]) for at, row in places)


def _dense(segment: Segment) -> Floats:
    assert segment.dense is not None  # it was searched
    return segment.dense


def _both(mask: Mask, other: Mask) -> Mask:
    return mask & other if len(mask) else other


def _joined(parts: Sequence[Found], k: int) -> Found:
    """The k best of both, best first, equal scores by id."""
    ids = [id for part in parts for id in part.ids]
    dense = [part.dense if len(part.dense) else np.zeros(len(part.ids), np.float32) for part in parts]
    columns = [(part.segments, part.rows, part.scores, part.lexical) for part in parts]
    segments, rows, scores, lexical = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = sorted(range(len(ids)), key=lambda at: (-scores[at], ids[at]))[:k]
    best = np.array(order, dtype=np.int64)
    return Found(
        segments[best], rows[best], [ids[at] for at in order], scores[best], lexical[best], np.concatenate(dense)[best]
    )
