"""TokenCounts: how many passages have each token of a query, remembered while a commit is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from denslice.vectors import Ints

CACHED_TOKENS = 100_000  # that are remembered before all are forgotten
WHOLE = 1 << 18  # tokens up to which all are counted together: this takes milliseconds, and 8 bytes a token
AS_LONG = 256  # to look up this many tokens that follow each other takes as long as a few anywhere


class TokenCounts:
    """Counts the passages of a few tokens at a time, from any number of threads.

    A query asks twice for the counts of its words: whether they are known, and for their idf. To look up one token
    takes as long as to look up ten, because numpy is called for it. Once lookups have taken as long as it takes to
    count all tokens, these are counted, if they are not too many.
    """

    def __init__(self, frequencies: Callable[[Ints], Ints], tokens: int) -> None:
        """Count the passages of so many tokens with `frequencies`, which returns the counts of some."""
        self._frequencies, self._tokens = frequencies, tokens
        self._known: dict[int, int] = {}
        self._all: memoryview | None = None  # one number of it is read faster than that of an array
        self._lookups = 0

    def of(self, ids: Sequence[int]) -> list[int]:
        """Return how many passages have each token."""
        if (counts := self._all) is not None:
            return [counts[id] for id in ids]
        known = self._known
        if new := [id for id in ids if id not in known]:
            known = self._looked_up(new, ids)
        return [known[id] for id in ids]

    def _looked_up(self, new: Sequence[int], ids: Sequence[int]) -> dict[int, int]:
        """Look up new tokens, and return the counts of all that are asked for."""
        known = self._known
        if len(known) + len(new) > CACHED_TOKENS:  # a new dict: another thread may read the old one
            known, new = {}, ids
            self._known = known
        known.update(zip(new, self._frequencies(np.array(new, np.int64)).tolist(), strict=True))
        self._lookups += 1
        if self._tokens <= min(WHOLE, self._lookups * AS_LONG):
            self._all = self._frequencies(np.arange(self._tokens)).astype(np.int64).data
        return known
