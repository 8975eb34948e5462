"""What can go wrong, as a user should hear of it; every message says what was found, where, and what to do.

DensliceError
├── InputError           something the caller gave: a file, a line, an option, a document
│   └── GpuMemoryError   an index, or a search, that a GPU has too little free memory for
├── IndexFormatError     an index folder that is damaged, unfinished or of another version
├── UnavailableError     an index that the system does not give: no file handle, permission or memory
│   └── NotShownError    a commit that stands, and that cannot be shown for such a reason
├── LockedError          another process is writing to the index
├── MissingShardsError   a cluster whose answer would be incomplete, where completeness was asked for
└── MissingExtraError    a feature whose optional packages are not installed

DensliceWarning          something that is likely a mistake and no error: a filter on a field that no document has
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

_collected: ContextVar[list[str] | None] = ContextVar("_collected", default=None)


class DensliceError(Exception):
    """The root: catching it catches everything denslice raises on purpose."""


class DensliceWarning(UserWarning):
    """The call did what it says, which is likely not what was meant."""


class InputError(DensliceError):
    """The caller's input cannot be used."""


class GpuMemoryError(InputError):
    """A GPU has too little free memory for what it was asked to hold."""


class IndexFormatError(DensliceError):
    """The folder is not an index this version can read."""


class UnavailableError(DensliceError):
    """The index cannot be read, or a commit cannot be shown, for a reason that lies outside of it."""


class NotShownError(UnavailableError):
    """A commit stands on disk, and this index goes on showing the one before: it lacks memory, or file handles.

    Nothing is lost, and the documents must not be added again: `refresh()` tries to show the commit once more.
    """

    def __init__(self, path: str, generation: int, shown: int, reason: str) -> None:
        super().__init__(
            f"{path}: commit {generation} stands, but cannot be shown ({reason}). Searches go on with commit {shown};"
            " do not write it again, refresh() tries to show it"
        )
        self.path, self.generation, self.shown, self.reason = path, generation, shown, reason

    def __reduce__(self) -> tuple[type[NotShownError], tuple[str, int, int, str]]:
        return type(self), (self.path, self.generation, self.shown, self.reason)


class LockedError(DensliceError):
    """The index already has a writer."""


class MissingShardsError(DensliceError):
    """Shards of a cluster that did not answer."""

    def __init__(self, shards: Sequence[str]) -> None:
        super().__init__(f"no answer from {', '.join(shards)}")
        self.shards = tuple(shards)

    def __reduce__(self) -> tuple[type[MissingShardsError], tuple[tuple[str, ...]]]:
        return type(self), (self.shards,)


class MissingExtraError(DensliceError):
    """A feature needs packages of an extra that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional part: pip install 'denslice[{extra}]'")


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """A list that takes what is warned of in the block, instead of Python's warnings.

    A server answers strangers, whose mistakes belong in its answers and not in its log.
    """
    collected: list[str] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


def warn(message: str) -> None:
    """Warns, at the line outside of denslice that made the call."""
    if (collected := _collected.get()) is not None:
        collected.append(message)
        return
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "denslice":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, DensliceWarning, stacklevel=level)
