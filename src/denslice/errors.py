"""The exceptions of denslice. Every message says what was found, where, and what to do.

DensliceError
├── InputError           a file, a line, an option or a document of the caller cannot be used
│   ├── UnreadableError  a file holds no text that can be read: binary, encrypted, scanned, damaged, too large
│   └── GpuMemoryError   the GPU has too little free memory for an index or a search
├── IndexFormatError     an index folder is damaged, incomplete or of another format
├── UnavailableError     the system refuses what the index needs (a file handle, memory), or a server does not answer
│   └── NotShownError    a commit was made, but it cannot be opened for such a reason
├── LockedError          another process is writing to the index
├── PartialWriteError    a Client sent documents in several requests, and only the first ones succeeded
├── MissingShardsError   shards of a cluster did not answer, and the caller asked for a complete ranking
└── MissingExtraError    the optional packages of a feature are not installed

DensliceWarning          the call is likely a mistake, such as a filter on a field that no document has
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
    """The base class of all exceptions that denslice raises."""


class DensliceWarning(UserWarning):
    """The call is valid, but likely a mistake."""


class InputError(DensliceError):
    """The caller's input cannot be used."""


class UnreadableError(InputError):
    """A file holds no text that can be read. `kind` is a noun that a summary counts, such as "scanned PDF"."""

    def __init__(self, kind: str, problem: str) -> None:
        super().__init__(problem)
        self.kind = kind

    def __reduce__(self) -> tuple[type[UnreadableError], tuple[str, str]]:
        return type(self), (self.kind, str(self))


class GpuMemoryError(InputError):
    """A GPU has too little free memory for an index or a search."""


class IndexFormatError(DensliceError):
    """The folder is not an index that this version can read."""


class UnavailableError(DensliceError):
    """The system refuses a file handle, a permission or memory that the index needs, or a server does not answer."""


class NotShownError(UnavailableError):
    """A commit was made, but it cannot be opened for lack of memory or file handles; searches use the one before.

    No document is lost, and none must be added again: `refresh()` tries to open the commit once more.
    """

    def __init__(self, path: str, generation: int, shown: int, reason: str) -> None:
        super().__init__(
            f"{path}: commit {generation} was made, but cannot be opened ({reason}). Searches still use commit {shown};"
            " do not repeat the change: refresh() tries to open the commit"
        )
        self.path, self.generation, self.shown, self.reason = path, generation, shown, reason

    def __reduce__(self) -> tuple[type[NotShownError], tuple[str, int, int, str]]:
        return type(self), (self.path, self.generation, self.shown, self.reason)


class LockedError(DensliceError):
    """The index already has a writer."""


class PartialWriteError(DensliceError):
    """A write of several requests failed after some had succeeded; `__cause__` is the error of the one that failed.

    `documents` were added or deleted for certain. If no answer came to the request that failed, those of that request
    may have been too. The whole write can be repeated: a document replaces the one with its id.
    """

    def __init__(self, documents: int, reason: str) -> None:
        super().__init__(f"after {documents:,} documents had been written: {reason}; repeat the write, or what is left")
        self.documents, self.reason = documents, reason

    def __reduce__(self) -> tuple[type[PartialWriteError], tuple[int, str]]:
        return type(self), (self.documents, self.reason)


class MissingShardsError(DensliceError):
    """Shards of a cluster did not answer."""

    def __init__(self, shards: Sequence[str]) -> None:
        super().__init__(f"no answer from {', '.join(shards)}")
        self.shards = tuple(shards)

    def __reduce__(self) -> tuple[type[MissingShardsError], tuple[tuple[str, ...]]]:
        return type(self), (self.shards,)


class MissingExtraError(DensliceError):
    """A feature needs the packages of an extra that is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs optional packages: pip install 'denslice[{extra}]'")


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Yield a list that collects the warnings of the block in place of Python's warnings.

    A server returns them to its client and does not log them.
    """
    collected: list[str] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


def warn(message: str) -> None:
    """Issue a DensliceWarning at the line outside of denslice that made the call."""
    if (collected := _collected.get()) is not None:
        collected.append(message)
        return
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "denslice":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, DensliceWarning, stacklevel=level)
