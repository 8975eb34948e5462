"""The search for documents that meet conditions.

Documents that have to be read are read in the order of the ranking, until k of them meet the conditions: so a phrase
that is frequent takes few reads, however large the collection is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from denslice.analysis.analyzer import Analyzer
from denslice.options import SearchOptions
from denslice.search.condition_rows import READ, SegmentConditions
from denslice.search.query import NO_SCORES, Found, Mask, QueryVectors
from denslice.store.segment import Segment
from denslice.vectors import Ints

FIRST = 64  # hits of the first search at least, if documents have to be read
MORE = 4  # times as many hits of the next one, if too few of them meet the conditions
OneSearch = Callable[[QueryVectors, SearchOptions, Sequence[Mask]], Found]


def search_meeting(
    search: OneSearch,
    query: QueryVectors,
    options: SearchOptions,
    masks: Sequence[Mask],
    segments: Sequence[Segment],
    analyzer: Analyzer,
) -> Found:
    """Return the k best of the documents or passages that meet the conditions of a query.

    Documents that meet a condition of `must` are found without any score too, and so are all if nothing is scored.
    """
    known = [SegmentConditions(query.conditions, segment, analyzer) for segment in segments]
    found = _scored(search, query, options, masks, known)
    is_all = options.group and (query.conditions.must or not (len(query.keys) or query.dense is not None))
    return _with_unscored(found, options.k, masks, segments, known) if is_all else found


def _scored(
    search: OneSearch,
    query: QueryVectors,
    options: SearchOptions,
    masks: Sequence[Mask],
    known: Sequence[SegmentConditions],
) -> Found:
    """Return the k best hits that meet the conditions."""
    is_settled = all((one.may == one.do).all() for one in known)
    asked = options.k if is_settled else max(options.k, FIRST)
    query = replace(query, products={})  # it may be searched several times
    while True:
        allowed = [one.masked(mask) for one, mask in zip(known, masks, strict=True)]
        found = search(query, replace(options, k=asked), allowed)
        meeting = np.flatnonzero(_are_meeting(found, known))
        if len(meeting) >= options.k or len(found.ids) < asked:
            return _taken(found, meeting[: options.k])
        asked *= MORE


def _are_meeting(found: Found, known: Sequence[SegmentConditions]) -> npt.NDArray[np.bool_]:
    """Return which of the hits meet the conditions; documents that are not settled are read."""
    meeting = np.zeros(len(found.ids), np.bool_)
    for number in np.unique(found.segments).tolist():
        here = found.segments == number
        known[number].read(found.rows[here])
        meeting[here] = known[number].do[found.rows[here]]
    return meeting


def _with_unscored(
    found: Found, k: int, masks: Sequence[Mask], segments: Sequence[Segment], known: Sequence[SegmentConditions]
) -> Found:
    """Return the k best of the hits and, with score 0, of all other documents that meet the conditions."""
    if len(found.ids) >= k:
        return found
    left = []
    for number, (mask, segment, one) in enumerate(zip(masks, segments, known, strict=True)):
        rows = np.flatnonzero(one.masked(mask))
        rows = np.setdiff1d(rows, found.rows[found.segments == number])
        left += list(zip(segment.ids(rows), [number] * len(rows), rows.tolist(), strict=True))
    added = _first_meeting(sorted(left), k - len(found.ids), known)
    return _joined(found, added, k)


def _first_meeting(
    places: Sequence[tuple[str, int, int]], count: int, known: Sequence[SegmentConditions]
) -> list[tuple[str, int, int]]:
    """Return the first documents that meet the conditions, as id, segment and row."""
    meeting: list[tuple[str, int, int]] = []
    for start in range(0, len(places), READ):
        some = places[start : start + READ]
        for number in {number for _, number, _ in some}:
            known[number].read(np.array([row for _, at, row in some if at == number], np.int64))
        meeting += [(id, number, row) for id, number, row in some if known[number].do[row]]
        if len(meeting) >= count:
            break
    return meeting[:count]


def _joined(found: Found, added: Sequence[tuple[str, int, int]], k: int) -> Found:
    """Return the hits and the documents with score 0, best first, equal scores by id."""
    if not added:
        return found
    zeros = np.zeros(len(added), np.float32)
    ids, segments, rows = (list(column) for column in zip(*added, strict=True))
    joined = Found(
        np.concatenate([found.segments, np.array(segments, np.int64)]),
        np.concatenate([found.rows, np.array(rows, np.int64)]),
        [*found.ids, *ids],
        np.concatenate([found.scores, zeros]),
        np.concatenate([found.lexical, zeros]),
        np.concatenate([found.dense, zeros]) if len(found.dense) else NO_SCORES,
        found.missing,
    )
    order = sorted(range(len(joined.ids)), key=lambda at: (-joined.scores[at], joined.ids[at]))
    return _taken(joined, np.array(order[:k], np.int64))


def _taken(found: Found, at: Ints) -> Found:
    """Return these of the hits, in their order."""
    if len(at) == len(found.ids) and (at == np.arange(len(at))).all():
        return found
    return Found(
        found.segments[at],
        found.rows[at],
        [found.ids[one] for one in at.tolist()],
        found.scores[at],
        found.lexical[at],
        found.dense[at] if len(found.dense) else NO_SCORES,
        found.missing,
        found.passages[at] if len(found.passages) else found.passages,
    )
