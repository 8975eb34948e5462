"""The search for documents that meet conditions.

Documents that have to be read are read in the order of the ranking, until k of them meet the conditions: so a phrase
that is frequent takes few reads, however large the collection is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from heapq import merge, nsmallest
from itertools import islice

import numpy as np

from denslice.analysis.analyzer import Analyzer
from denslice.options import SearchOptions
from denslice.search.condition_rows import READ, Rows, SegmentConditions
from denslice.search.query import NO_SCORES, Found, Mask, QueryVectors
from denslice.store.segment import Segment
from denslice.vectors import Ints

FIRST = 64  # hits of the first search at least, if documents have to be read
MORE = 4  # times as many hits of the next one, if too few of them meet the conditions
LOOKED_AT = 4_096  # ids of documents without a score that are looked at in their order, before all are read
Unscored = tuple[str, int, int]  # a document by its id, segment and row
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
    query = replace(query, products={})  # it may be searched several times
    asked = max(options.k, FIRST)
    while True:
        unknown = [one.unknown(mask) for one, mask in zip(known, masks, strict=True)]
        if sum(map(len, unknown)) <= MORE * asked:
            return _among_read(search, query, options, masks, known, unknown)
        allowed = [one.masked(mask) for one, mask in zip(known, masks, strict=True)]
        found = search(query, replace(options, k=asked), allowed)
        meeting = np.flatnonzero(_are_meeting(found, known))
        if len(meeting) >= options.k or len(found.ids) < asked:
            return _taken(found, meeting[: options.k])
        asked *= MORE


def _among_read(
    search: OneSearch,
    query: QueryVectors,
    options: SearchOptions,
    masks: Sequence[Mask],
    known: Sequence[SegmentConditions],
    unknown: Sequence[Ints],
) -> Found:
    """Return the k best hits that meet the conditions, after reading every document that is not settled."""
    for one, rows in zip(known, unknown, strict=True):
        one.read(rows)
    return search(query, options, [one.masked(mask) for one, mask in zip(known, masks, strict=True)])


def _are_meeting(found: Found, known: Sequence[SegmentConditions]) -> Rows:
    """Return which of the hits meet the conditions; documents that are not settled are read."""
    meeting = np.zeros(len(found.ids), np.bool_)
    for number in np.unique(found.segments).tolist():
        here = found.segments == number
        known[number].read(np.unique(found.rows[here]))  # a document may have several passages
        meeting[here] = known[number].do[found.rows[here]]
    return meeting


def _with_unscored(
    found: Found, k: int, masks: Sequence[Mask], segments: Sequence[Segment], known: Sequence[SegmentConditions]
) -> Found:
    """Return the k best of the hits and, with score 0, of all other documents that meet the conditions."""
    if len(found.ids) >= k:
        return found
    left = [one.masked(mask).astype(np.bool_) for one, mask in zip(known, masks, strict=True)]
    for number, rows in enumerate(left):
        rows[found.rows[found.segments == number]] = False
    count = k - len(found.ids)
    return _joined(found, _first_of_many(count, segments, left, known) or _first(count, segments, left, known), k)


def _first_of_many(
    count: int, segments: Sequence[Segment], left: Sequence[Rows], known: Sequence[SegmentConditions]
) -> list[Unscored]:
    """Return the first documents by id that meet the conditions, if so many are among the first ids, or else none."""
    if sum(int(np.count_nonzero(rows)) for rows in left) <= LOOKED_AT:
        return []
    every = merge(*(_by_id(number, segment, left[number]) for number, segment in enumerate(segments)))
    meeting: list[Unscored] = []
    for _ in range(LOOKED_AT // READ):
        some = list(islice(every, READ))
        for number, one in enumerate(known):
            one.read(np.array([row for _, at, row in some if at == number], np.int64))
        meeting += [(id, number, row) for id, number, row in some if known[number].do[row]]
        if len(meeting) >= count:
            return meeting[:count]
    return []


def _by_id(number: int, segment: Segment, left: Rows) -> Iterator[Unscored]:
    """Yield the documents of a segment that are left, in the order of their ids."""
    some = segment.documents.ids_after("", READ)
    while some:
        yield from ((id, number, row) for id, row in some if left[row])
        some = segment.documents.ids_after(some[-1][0], READ)


def _first(
    count: int, segments: Sequence[Segment], left: Sequence[Rows], known: Sequence[SegmentConditions]
) -> list[Unscored]:
    """Return the first documents by id that meet the conditions. All that are left are read, in the order of rows."""
    meeting: list[Unscored] = []
    for number, (segment, here, one) in enumerate(zip(segments, left, known, strict=True)):
        one.read(np.flatnonzero(here))
        rows = np.flatnonzero(here & one.do)
        meeting += zip(segment.ids(rows), [number] * len(rows), rows.tolist(), strict=True)
    return nsmallest(count, meeting)


def _joined(found: Found, added: Sequence[Unscored], k: int) -> Found:
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
