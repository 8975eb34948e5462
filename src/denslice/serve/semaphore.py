"""A number of places: who finds one free goes in, everyone else is told to come back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from denslice.serve.http_errors import busy


class Turns:
    """So many at a time, those that wait inside included. For one event loop."""

    def __init__(self, most: int) -> None:
        self._free = most

    @contextmanager
    def one(self) -> Iterator[None]:
        """A place while the block runs; a Refusal where none is free."""
        if not self._free:
            raise busy("too many requests of this kind are waiting already")
        self._free -= 1
        try:
            yield
        finally:
            self._free += 1
