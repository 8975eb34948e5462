"""CpuSearcher: a commit's segments, searched on the CPU; several queries are spread over all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import chain

from denslice.cores import cores
from denslice.options import ON_CPU, SearchOptions
from denslice.search.cpu import two_stage
from denslice.search.cpu.addresses import Parts
from denslice.search.query import Found, Mask, QueryVectors
from denslice.store.segment import Segment

TOGETHER = 16  # queries that a thread takes at a time, at most


class CpuSearcher:
    """Searches segments with compiled loops, or in numpy if the index is small."""

    options = ON_CPU

    def __init__(self, segments: Sequence[Segment] = ()) -> None:
        self.segments = tuple(segments)

    def moved(self, segments: Sequence[Segment], progress: Callable[[int], None] | None = None) -> CpuSearcher:
        """Return a searcher of other segments; if this one has searched, it is ready at once."""
        searcher = CpuSearcher(segments)
        if "parts" in vars(self):
            searcher.parts = Parts.of(searcher.segments, self.parts)
            if two_stage.is_small(self.parts) and not two_stage.is_small(searcher.parts):
                two_stage.load_loops(searcher.parts)  # while this one is still searched
        return searcher

    @cached_property
    def parts(self) -> Parts:
        """The segments with the addresses of their arrays."""
        return Parts(self.segments)

    def search(self, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]) -> list[Found]:
        """Return the k best documents of each query."""
        if len(queries) == 1:
            return [two_stage.search(self.parts, queries[0], options, masks)]
        threads = cores()
        few = max(1, min(TOGETHER, len(queries) // (2 * threads)))
        some = [queries[at : at + few] for at in range(0, len(queries), few)]
        search = partial(two_stage.search_some, self.parts, options=options, masks=masks)
        if threads == 1:
            return list(chain.from_iterable(map(search, some)))
        with ThreadPoolExecutor(threads) as pool:
            return list(chain.from_iterable(pool.map(search, some)))
