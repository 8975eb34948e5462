"""Which segments to merge: small ones with small ones, large ones rarely: writing and searching both stay cheap.

Segments fall into tiers by how many documents they have, each tier FANOUT times the one below. As many as FANOUT in
one tier are merged, so a document is rewritten about once a tier, and there are fewer than FANOUT segments in each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from denslice.store.manifest import SegmentEntry

FANOUT = 8
SEGMENT_DOCS = 1 << 18  # a segment is closed at so many documents
SEGMENT_WEIGHTS = 1 << 26  # or weights
MUCH_DELETED = 0.2  # share of deleted rows from which a segment is rewritten when a merge is asked for
MOSTLY_DELETED = 0.5  # or by itself: this much costs searches more than the rewriting does


def is_full(entry: SegmentEntry) -> bool:
    """Return whether a segment has grown so large that it is merged no further."""
    return entry.docs >= SEGMENT_DOCS // 2 or entry.weights >= SEGMENT_WEIGHTS // 2


def worn(entries: Sequence[SegmentEntry]) -> list[SegmentEntry]:
    """Return the segments that a merge rewrites: those that are not full, or much deleted."""
    found = [one for one in entries if not is_full(one) or one.deleted > MUCH_DELETED * one.rows]
    return [] if len(found) == 1 and not found[0].deleted else found


def due(entries: Sequence[SegmentEntry]) -> list[SegmentEntry]:
    """Return the segments to merge now, of the lowest tier that is full; none where all is well."""
    tiers: dict[int, list[SegmentEntry]] = defaultdict(list)
    for entry in entries:
        if entry.deleted > MOSTLY_DELETED * entry.rows and entry.rows >= FANOUT:
            return [entry]
        if not is_full(entry):
            tiers[tier(entry)].append(entry)
    return next((tiers[one] for one in sorted(tiers) if len(tiers[one]) >= FANOUT), [])


def tier(entry: SegmentEntry) -> int:
    """Return the tier of a segment, counted from 0."""
    count, tier = entry.docs // FANOUT, 0
    while count:
        count, tier = count // FANOUT, tier + 1
    return tier
