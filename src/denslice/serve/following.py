"""Follower: it shows the last commit of any process before a search begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from denslice.index.index import Index
from denslice.serve.searchable import Searchable
from denslice.store import manifest

Followed = TypeVar("Followed")


class Follower:
    """Keeps an index at its last commit, so that a search finds what any process has committed before.

    A cluster is not followed here: to look at every shard would take longer than some searches.
    """

    def __init__(self, searchable: Searchable, refresh: Callable[[], None]) -> None:
        self._folder: Path | None = searchable.path if isinstance(searchable, Index) else None
        self._refresh, self._mark = refresh, b""

    def follow(self) -> None:
        """Show the last commit. If that fails, go on with the one that is shown: a background task tells why."""
        if self._folder is None:
            return
        try:
            mark = manifest.mark(self._folder)
            if mark != self._mark:
                try:
                    self._refresh()
                finally:  # not before: another thread would search the commit that is still shown
                    self._mark = mark  # and after a failure the background task tries again
        except Exception:  # noqa: BLE001 (the background task tells it)
            return

    def followed(self, work: Callable[[], Followed]) -> Followed:
        """Return the result of the work, which is done in the last commit."""
        self.follow()
        return work()
