"""The quick pass: a new index takes documents at the quick level, in parts that grow. The first makes it searchable.

The parts of folders are syncs that read only so many files; the next one finds what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from denslice.errors import InputError
from denslice.index.doc_batches import CutDoc
from denslice.index.index import Index
from denslice.index.kept_encoder import KeptEncoder
from denslice.index.sync import FileCounter, FolderSync, Synced
from denslice.index.writer import Writer
from denslice.options import ReadOptions
from denslice.records import Progress
from denslice.store.manifest import FULL, QUICK

FIRST_PART = 2_048  # documents, or files of folders; each part is twice as large as the one before


class Counter(Protocol):
    """Shows the progress of indexing."""

    def expect(self, total: int | None) -> None:
        """Set the number of documents, or None if it is unknown."""

    def advance(self, count: int) -> None:
        """Add to the number of documents that are done."""


class IndexingCounter(Counter, FileCounter, Protocol):
    """Shows the progress of indexing documents, or files."""


@dataclass
class Intake:
    """What is added to an index: documents that are read once, and folders and files that are followed."""

    docs: Iterator[CutDoc]
    followed: Sequence[Path]
    reading: ReadOptions
    counter: IndexingCounter
    wait: float
    done: Synced = field(default_factory=Synced)
    _part: int = FIRST_PART
    _has_looked: bool = False
    _encoder: KeptEncoder = field(default_factory=KeptEncoder)

    def take_all(self, index: Index, level: str = FULL) -> None:
        """Add everything in one commit, without deleting anything."""

        def work(writer: Writer) -> int:
            added = writer.add_read(self.docs, level)
            synced = self._sync(writer, level, None)[0] if self.followed else Synced()
            self.done = replace(synced, documents=synced.documents + added)
            return self.done.documents

        index.write(work, self.wait, self._progress)

    def take_part(self, index: Index) -> bool:
        """Add the next part at the quick level, and return whether there may be more."""
        size, self._part = self._part, 2 * self._part

        def add(writer: Writer) -> int:
            writer.take_encoder(self._encoder)
            return writer.add_read(islice(self.docs, size), QUICK)

        added = index.write(add, self.wait, self._progress)
        self.done = replace(self.done, documents=self.done.documents + added)
        if added == size:
            return True
        left = 0

        def work(writer: Writer) -> int:
            nonlocal left
            writer.take_encoder(self._encoder)
            synced, left = self._sync(writer, QUICK, size)
            self.done = _summed(self.done, synced)
            return synced.documents

        if self.followed:
            index.write(work, self.wait)
        return left > 0

    @property
    def _progress(self) -> Progress | None:
        """How documents are counted, unless files are."""
        return None if self.followed else self.counter.advance

    def _sync(self, writer: Writer, level: str, at_most: int | None) -> tuple[Synced, int]:
        """Read at most so many files that are followed; return what was found, and how many are left."""
        counter = _Counted(self.counter, self._has_looked)
        found = FolderSync.of(writer.base, self.followed, self.reading, deletes=False, counter=counter)
        self._has_looked = True
        counts, left = found.counts(), 0 if at_most is None else found.read_only(at_most)
        synced = found.synced(writer, found.work(writer, level))
        _check_anything(self.followed, counts, synced)
        return replace(synced, added=counts.added, changed=counts.changed, unchanged=counts.unchanged), left


@dataclass(frozen=True)
class _Counted:
    """Counts the files of several syncs as those of one."""

    counter: FileCounter
    has_begun: bool

    def expect_files(self, files: int, size: int) -> None:
        """Set what is to be read, once."""
        if not self.has_begun:
            self.counter.expect_files(files, size)

    def advance_files(self, files: int, size: int) -> None:
        """Add to what is done."""
        self.counter.advance_files(files, size)


def _summed(before: Synced, part: Synced) -> Synced:
    """Return what all parts have done; the first one has found all files."""
    first = part if not (before.added or before.changed or before.unchanged) else before
    return replace(
        first,
        documents=before.documents + part.documents,
        encoded=before.encoded + part.encoded,
        reused=before.reused + part.reused,
        problems=part.problems,
        remarks=(*before.remarks, *part.remarks),
    )


def _check_anything(followed: Sequence[Path], counts: Synced, synced: Synced) -> None:
    """Raise InputError if folders hold nothing at all, not even files that were skipped: a path may be wrong."""
    if not (counts.added or counts.changed or counts.unchanged or counts.gone or synced.problems):
        raise InputError(f"{followed[0]}: nothing to read in this folder; hidden and ignored files are left out")
