"""Search of an index whose documents are at two levels: each level with its own query, and the best of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from denslice.options import SearchOptions
from denslice.search.found_rows import best_of_parts
from denslice.search.query import Found, Mask, QueryVectors, Searcher
from denslice.store.manifest import LEVEL_NAMES
from denslice.store.segment import Segment
from denslice.vectors import Ints


class LevelSearcher(NamedTuple):
    """The searcher of the segments of one level, and their numbers among all segments."""

    level: str
    numbers: Ints
    searcher: Searcher


def level_searchers(searcher: Searcher, segments: Sequence[Segment]) -> list[LevelSearcher]:
    """Return what searches each level; if all segments are at one, the searcher itself."""
    numbers = {
        level: [at for at, segment in enumerate(segments) if segment.entry.level == level] for level in LEVEL_NAMES
    }
    there = {level: some for level, some in numbers.items() if some}
    if len(there) == 1:
        return [LevelSearcher(level, np.array(some), searcher) for level, some in there.items()]
    return [
        LevelSearcher(level, np.array(some), searcher.moved([segments[at] for at in some]))
        for level, some in there.items()
    ]


def search_levels(
    levels: Sequence[LevelSearcher], queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]
) -> list[Found]:
    """Return the k best documents of each query, of all levels."""
    parts = [_of_level(one, queries, options, masks) for one in levels]
    return parts[0] if len(parts) == 1 else [best_of_parts(some, options.k) for some in zip(*parts, strict=True)]


def _of_level(
    level: LevelSearcher, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]
) -> list[Found]:
    scaled = [query.at(level.level) for query in queries]
    found = level.searcher.search(scaled, options, [masks[at] for at in level.numbers.tolist()])
    return [replace(one, segments=level.numbers[one.segments]) for one in found]
