"""What can go wrong, as a user should hear of it; every message says what was found, where, and what to do.

DensliceError
├── InputError           something the caller gave: a file, a line, an option, a document
│   └── GpuMemoryError   an index, or a search, that a GPU has too little free memory for
├── IndexFormatError     an index folder that is damaged, unfinished or of another version
├── LockedError          another process is writing to the index
├── NotShownError        a commit that stands, and that this index has no room on its GPU to show
├── MissingShardsError   a cluster whose answer would be incomplete, where completeness was asked for
└── MissingExtraError    a feature whose optional packages are not installed
"""

from __future__ import annotations

from collections.abc import Sequence


class DensliceError(Exception):
    """The root: catching it catches everything denslice raises on purpose."""


class InputError(DensliceError):
    """The caller's input cannot be used."""


class GpuMemoryError(InputError):
    """A GPU has too little free memory for what it was asked to hold."""


class IndexFormatError(DensliceError):
    """The folder is not an index this version can read."""


class LockedError(DensliceError):
    """The index already has a writer."""


class NotShownError(DensliceError):
    """A commit stands on disk, and an index on a GPU goes on showing the one before, for lack of memory.

    Nothing is lost, and the documents must not be added again: `refresh()` tries to show the commit once more.
    """

    def __init__(self, path: str, generation: int, shown: int, reason: str) -> None:
        super().__init__(
            f"{path}: commit {generation} stands, but the GPU has no room for it, and searches go on with commit"
            f" {shown}: {reason}. Free memory and call refresh(), or open the index with device='cpu'"
        )
        self.path, self.generation, self.shown, self.reason = path, generation, shown, reason

    def __reduce__(self) -> tuple[type[NotShownError], tuple[str, int, int, str]]:
        return type(self), (self.path, self.generation, self.shown, self.reason)


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
