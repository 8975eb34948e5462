"""CpuSearcher: searches the segments of a commit on the CPU, and spreads several queries over all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import chain

from denslice.cores import cores
from denslice.loops import LOOPS
from denslice.options import ON_CPU, SearchOptions
from denslice.profiling import Profile, added_to, count, open_profile
from denslice.search.cpu import two_stage
from denslice.search.cpu.addresses import Parts
from denslice.search.cpu.near_search import is_near
from denslice.search.query import Found, Mask, QueryVectors
from denslice.store.segment import Segment

QUERIES_PER_TASK = 16  # queries that a thread takes at a time, at most
MOST_WEIGHTS = 1 << 25  # of all rows, which numpy reads in a fraction of a second


class CpuSearcher:
    """Searches segments with compiled loops, or in numpy if the index is small."""

    options = ON_CPU

    def __init__(self, segments: Sequence[Segment] = ()) -> None:
        self.segments = tuple(segments)

    def moved(self, segments: Sequence[Segment], progress: Callable[[int], None] | None = None) -> CpuSearcher:
        """Return a searcher of other segments. If this one has searched, the other is ready at once."""
        searcher = CpuSearcher(segments)
        if "parts" in vars(self):
            searcher.parts = Parts.of(searcher.segments, self.parts)
            if two_stage.is_small(self.parts) and not two_stage.is_small(searcher.parts) and LOOPS.ready_or_begun():
                two_stage.load_loops(searcher.parts)  # while this searcher still answers
        return searcher

    @cached_property
    def parts(self) -> Parts:
        """Return the segments with the addresses of their arrays."""
        return Parts(self.segments)

    def finds_best(self, query: QueryVectors, options: SearchOptions) -> bool:
        """Return whether nothing is pruned, or no segment has so many vectors that some are left out."""
        has_vector = query.dense is not None
        return options.is_exact(has_vector) or (
            has_vector and options.is_whole and not is_near(self.parts, query, options)
        )

    def search(self, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]) -> list[Found]:
        """Return the k best documents of each query."""
        self._count(queries)
        if len(queries) == 1:
            if self._is_first(queries[0], options):
                return [two_stage.search_plainly(self.parts, queries[0], options, masks)]
            return [two_stage.search(self.parts, queries[0], options, masks)]
        threads = cores()
        size = max(1, min(QUERIES_PER_TASK, len(queries) // (2 * threads)))
        batches = [queries[at : at + size] for at in range(0, len(queries), size)]
        search = partial(two_stage.search_some, self.parts, options=options, masks=masks)
        if threads == 1:
            return list(chain.from_iterable(map(search, batches)))
        with ThreadPoolExecutor(threads) as pool:
            return list(chain.from_iterable(pool.map(partial(_in_profile, open_profile(), search), batches)))

    def _is_first(self, query: QueryVectors, options: SearchOptions) -> bool:
        """Return whether a search needs loops that are still to be compiled, and numpy finds the same in a moment."""
        if LOOPS.ready or two_stage.is_plain(self.parts, options) or self.parts.weights > MOST_WEIGHTS:
            return False
        return self.finds_best(query, options) and not LOOPS.ready_for_search()

    def _count(self, queries: Sequence[QueryVectors]) -> None:
        if open_profile() is None:
            return
        vectors = sum(len(segment.dense) for segment in self.segments if segment.dense is not None)
        count("segments", len(self.segments))
        count("documents", len(queries) * self.parts.docs)
        if wanted := sum(query.dense is not None for query in queries):
            count("vectors", wanted * vectors)


def _in_profile(
    profile: Profile | None, search: Callable[[Sequence[QueryVectors]], list[Found]], queries: Sequence[QueryVectors]
) -> list[Found]:
    """Search in a thread whose counts are added to the profile of the thread that started it."""
    with added_to(profile):
        return search(queries)
