"""TokenCounts: how many passages have each token of a query, remembered while a commit is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from denslice.vectors import Ints

PAGE = 256  # token ids that are looked up together, which takes little longer than to look up one
CACHED_PAGES = 4_096  # that are remembered before all are forgotten: 8 MiB


class TokenCounts:
    """Counts the passages of a few tokens at a time, from any number of threads.

    A query asks twice for the counts of its words: whether they are known, and for their idf. The counts of a token
    and its neighbours are looked up once.
    """

    def __init__(self, frequencies: Callable[[Ints], Ints], tokens: int) -> None:
        """Count the passages of so many tokens with `frequencies`, which returns the counts of some."""
        self._frequencies, self._tokens = frequencies, tokens
        self._pages: dict[int, memoryview] = {}  # those of a numpy array are read faster

    def of(self, ids: Sequence[int]) -> list[int]:
        """Return how many passages have each token."""
        return [(self._pages.get(id // PAGE) or self._page(id // PAGE))[id % PAGE] for id in ids]

    def _page(self, number: int) -> memoryview:
        if len(self._pages) >= CACHED_PAGES:
            self._pages.clear()
        ids = np.arange(number * PAGE, min(number * PAGE + PAGE, self._tokens))
        page = self._pages[number] = self._frequencies(ids).astype(np.int64).data
        return page
