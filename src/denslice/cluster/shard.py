"""Writes to the head and the shards, which are ordinary indexes with the slicing and the vocabulary of the head.

The functions below the class run on workers. Ray may run each of them again after a failure.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from denslice.errors import IndexFormatError
from denslice.index.doc_batches import DocBatch
from denslice.index.index import Index
from denslice.index.writer import Writer
from denslice.store import lock
from denslice.store.backup import back_up
from denslice.store.files import sync_folder
from denslice.store.snapshot import Snapshot

if TYPE_CHECKING:
    import scipy.sparse as sp

SHARD_LOCK_WAIT = 600.0  # seconds for another write to the shard, such as one whose caller was killed


class Head:
    """The index without documents that holds the vocabulary and the slicing of the collection."""

    def __init__(self, folder: Path) -> None:
        self._index = Index.open(folder)

    @property
    def is_settled(self) -> bool:
        """Whether the words are numbered and the slicing, if there is one, is determined: in the first commit."""
        return self._index.generation > 0

    @property
    def is_sliced(self) -> bool:
        """Whether documents keep a number of slices, and not every token."""
        return self._index.reader.snapshot.manifest.slicing.slices is not None

    @property
    def grows(self) -> bool:
        """Whether documents bring new words. The vocabulary of ready vectors is fixed."""
        return not self._index.reader.snapshot.manifest.encoder_options.get("vocab")

    def settle(self, words: Sequence[str], sample: sp.csr_array | None, dimensions: int | None) -> None:
        """Add the first words of the collection, and determine the slicing from a sample of its documents, if given."""

        def work(writer: Writer) -> int:
            writer.take_words(words)
            writer.settle(sample, dimensions)
            return 0

        self._index.write(work, lock.WAIT_SECONDS, alone=True)

    def take_words(self, words: Sequence[str]) -> None:
        """Add new words, which get the next ids."""
        self._index.write(lambda writer: writer.take_words(words), lock.WAIT_SECONDS, alone=True)


def new_shard(head: Path, to: Path, batches: Iterable[DocBatch]) -> int:
    """Write a shard to a hidden folder and rename it, unless it exists; return how many documents it has."""
    if to.exists():
        return Snapshot(to).docs
    hidden = to.with_name(f".{to.name}.{uuid4().hex}")
    try:
        back_up(head, hidden)
        count = _take(Snapshot(hidden), hidden, batches)
        hidden.rename(to)
    except OSError:
        if not to.exists():
            raise
        count = Snapshot(to).docs
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    sync_folder(to.parent)
    return count


def add(head: Path, shard: Path, batch: DocBatch) -> int:
    """Add encoded documents to a shard and return how many."""
    return _take(Snapshot(head), shard, [batch])


def update(shard: Path, id: str, meta: Mapping[str, Any]) -> int:
    """Replace the metadata of a document of a shard, and return 1 if it exists, otherwise 0."""
    return _write(shard, lambda writer: writer.update({id: meta}))


def delete(shard: Path, ids: Sequence[str]) -> int:
    """Delete documents of a shard and return how many there were."""
    return _write(shard, lambda writer: writer.delete(ids))


def merge(shard: Path) -> int:
    """Merge segments of a shard and return how many were rewritten."""
    return Index.open(shard).merge(wait=SHARD_LOCK_WAIT)


def verify(shard: Path) -> int:
    """Read every file of a shard and return 0. Raise IndexFormatError for the first that is damaged."""
    Snapshot(shard).verify()
    return 0


def _take(head: Snapshot, shard: Path, batches: Iterable[DocBatch]) -> int:
    """Add the new words of the head and then documents encoded over them; return how many were added."""

    def work(writer: Writer) -> int:
        missing = (head.words.word(id) for id in range(len(writer.words), len(head.words)))
        if writer.take_words(missing) != len(head.words):
            raise IndexFormatError(f"{shard}: the words differ from {head.folder}; the cluster is damaged")
        return writer.add_encoded(batches)

    return _write(shard, work)


def _write(shard: Path, work: Callable[[Writer], int]) -> int:
    """Commit a change of a shard. Its merges run here, because the process of a worker goes on with other tasks."""
    return Index.open(shard).write(work, SHARD_LOCK_WAIT, alone=True, in_thread=False)
