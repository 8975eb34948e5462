"""Parts of what a search found: chosen hits, several results as one, and rows that are no hits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from denslice.search.facets import count_rows
from denslice.search.query import NO_SCORES, NONE_FOUND, Found, Mask
from denslice.store.segment import Segment
from denslice.vectors import Ints

FindWithin = Callable[[Sequence[Mask], int], Found]  # the k best hits among the rows of masks


def chosen(found: Found, places: Sequence[int] | Ints) -> Found:
    """Return the hits at these places, in their order."""
    at = np.asarray(places, dtype=np.int64)
    dense = found.dense[at] if len(found.dense) else found.dense
    passages = found.passages[at] if len(found.passages) else found.passages
    ids = [found.ids[place] for place in at.tolist()]
    columns = (found.segments[at], found.rows[at], ids, found.scores[at], found.lexical[at])
    return Found(*columns, dense, found.missing, passages)


def part_of(found: Found, start: int, end: int) -> Found:
    """Return the hits from the place `start` to the place before `end`."""
    if start == 0 and end >= len(found.ids):
        return found
    part = slice(start, end)
    columns = (found.segments[part], found.rows[part], found.ids[part], found.scores[part], found.lexical[part])
    return Found(*columns, found.dense[part], found.missing, found.passages[part])


def concatenated(parts: Sequence[Found]) -> Found:
    """Return the hits of all parts, one part after the other; a document has no passages here."""
    parts = [part for part in parts if part.ids]
    if not parts:
        return NONE_FOUND
    has_dense = any(len(part.dense) for part in parts)
    dense = [part.dense if len(part.dense) else np.zeros(len(part.ids), np.float32) for part in parts]
    columns = zip(*((part.segments, part.rows, part.scores, part.lexical) for part in parts), strict=True)
    segments, rows, scores, lexical = (np.concatenate(column) for column in columns)
    ids = [id for part in parts for id in part.ids]
    return Found(segments, rows, ids, scores, lexical, np.concatenate(dense) if has_dense else NO_SCORES)


def score_order(found: Found) -> list[int]:
    """Return the places of the hits, best first, equal scores by id."""
    scores, ids = found.scores.tolist(), found.ids
    return sorted(range(len(scores)), key=lambda at: (-scores[at], ids[at]))


def best_of_parts(parts: Sequence[Found], k: int) -> Found:
    """Return the k best hits of all parts, best first, equal scores by id."""
    found = concatenated(parts)
    return chosen(found, score_order(found)[:k])


def best_rows(find: FindWithin, segments: Sequence[Segment], masks: Sequence[Mask], k: int) -> Found:
    """Return the k best rows of the masks, best first, equal scores by id. Rows that are no hits have score 0."""
    total = count_rows(segments, masks)
    k = min(k, total)
    if k == 0:
        return NONE_FOUND
    found = find(masks, k)
    if len(found.ids) == k and (k == total or found.scores[-1] > 0):
        return found
    hits = found if len(found.ids) < k else find(masks, total)
    return best_of_parts([hits, _others(segments, masks, hits)], k)


def rows_from(
    find: FindWithin, segments: Sequence[Segment], masks: Sequence[Mask], least: float | None
) -> Sequence[Mask]:
    """Return the masks without the rows whose scores are below `least`; rows that are no hits have score 0."""
    if least is None:
        return masks
    hits = find(masks, max(1, count_rows(segments, masks)))
    left = []
    for at, (segment, mask) in enumerate(zip(segments, masks, strict=True)):
        here = hits.segments == at
        scores = np.zeros(segment.rows, dtype=np.float32)
        scores[hits.rows[here]] = hits.scores[here]
        is_left = (scores.astype(np.float64) >= least).astype(np.uint8)
        left.append(is_left & mask if len(mask) else is_left)
    return left


def _others(segments: Sequence[Segment], masks: Sequence[Mask], hits: Found) -> Found:
    """Return the rows of the masks that are not among the hits, with a score of 0."""
    parts = []
    for at, (segment, mask) in enumerate(zip(segments, masks, strict=True)):
        left = mask.copy() if len(mask) else np.ones(segment.rows, dtype=np.uint8)
        left[hits.rows[hits.segments == at]] = 0
        rows = np.flatnonzero(left)
        none = np.zeros(len(rows), dtype=np.float32)
        parts.append(Found(np.full(len(rows), at, dtype=np.int64), rows, segment.ids(rows), none, none, NO_SCORES))
    return concatenated(parts)
