"""The merge policy: small segments are merged often and large ones rarely, so writing and searching both stay cheap.

Segments fall into tiers by their number of documents, each tier FANOUT times as large as the one below. FANOUT segments
of one tier and level are merged, so a document is rewritten about once per tier, and a tier has fewer than FANOUT
segments of a level.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from denslice.store.manifest import FULL, QUICK, SegmentEntry

FANOUT = 8
SEGMENT_DOCS = 1 << 18  # documents at which a writer begins the next segment
SEGMENT_WEIGHTS = 1 << 26  # or weights
MUCH_DELETED = 0.2  # share of deleted rows from which `merge()` rewrites a segment
MOSTLY_DELETED = 0.5  # and from which a commit does: such a segment costs searches more than rewriting it


def is_full(entry: SegmentEntry) -> bool:
    """Return whether a segment is so large that it is not merged any further."""
    return entry.docs >= SEGMENT_DOCS // 2 or entry.weights >= SEGMENT_WEIGHTS // 2


def worn(entries: Sequence[SegmentEntry]) -> list[SegmentEntry]:
    """Return the segments that `merge()` rewrites, level by level: those not full or with many deleted rows."""
    worn = [one for one in entries if not is_full(one) or one.deleted > MUCH_DELETED * one.rows]
    levels = ([one for one in worn if one.level == level] for level in (QUICK, FULL))
    return [one for found in levels if len(found) != 1 or found[0].deleted for one in found]


def due(entries: Sequence[SegmentEntry]) -> list[SegmentEntry]:
    """Return the segments to merge after a commit: the lowest tier with FANOUT segments, or none."""
    tiers: dict[tuple[int, str], list[SegmentEntry]] = defaultdict(list)
    for entry in entries:
        if entry.deleted > MOSTLY_DELETED * entry.rows and entry.rows >= FANOUT:
            return [entry]
        if not is_full(entry):
            tiers[tier(entry), entry.level].append(entry)
    return next((tiers[one] for one in sorted(tiers) if len(tiers[one]) >= FANOUT), [])


def tier(entry: SegmentEntry) -> int:
    """Return the tier of a segment, counted from 0."""
    count, tier = entry.docs // FANOUT, 0
    while count:
        count, tier = count // FANOUT, tier + 1
    return tier
