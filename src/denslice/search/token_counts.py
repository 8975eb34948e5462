"""TokenCounts: how many passages have each token of a query, remembered while a commit is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from denslice.vectors import Ints

CACHED_TOKENS = 100_000  # that are remembered before all are forgotten


class TokenCounts:
    """Counts the passages of a few tokens at a time, from any number of threads.

    A query asks twice for the counts of its words: whether they are known, and for their idf. To look up one token
    takes as long as to look up ten, because numpy is called for it.
    """

    def __init__(self, frequencies: Callable[[Ints], Ints]) -> None:
        self._frequencies = frequencies
        self._known: dict[int, int] = {}

    def of(self, ids: Sequence[int]) -> list[int]:
        """Return how many passages have each token."""
        known = self._known
        if new := [id for id in ids if id not in known]:
            if len(known) + len(new) > CACHED_TOKENS:  # a new dict: another thread may read the old one
                known, new = {}, list(ids)
                self._known = known
            known.update(zip(new, self._frequencies(np.array(new, np.int64)).tolist(), strict=True))
        return [known[id] for id in ids]
