"""Head and shards: ordinary indexes that share the slicing and the vocabulary of the head.

The functions below the classes run on workers. Ray may run each of them again after a failure.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from denslice.errors import IndexFormatError
from denslice.index.index import Index
from denslice.index.writer import DocBatch, Writer
from denslice.options import SearchOptions
from denslice.records import Explanation
from denslice.search.query import Found, QueryVectors
from denslice.store import lock
from denslice.store.backup import back_up
from denslice.store.files import sync_folder
from denslice.store.snapshot import Snapshot

if TYPE_CHECKING:
    import scipy.sparse as sp

SHARD_LOCK_WAIT = 600.0  # seconds for another write to the shard, such as one whose caller was killed


class Head(Index):
    """The index without documents that holds the vocabulary and the slicing of the collection."""

    @property
    def is_settled(self) -> bool:
        """Whether the slicing is determined."""
        return self._view.snapshot.slicing is not None

    def settle(self, words: Sequence[str], sample: sp.csr_array, dimensions: int | None) -> None:
        """Add the first words of the collection, and determine the slicing from a sample of its documents."""

        def work(build: Writer) -> int:
            build.take_words(words)
            build.settle(sample, dimensions)
            return 0

        self._commit(work, lock.WAIT_SECONDS, alone=True)

    def take_words(self, words: Sequence[str]) -> None:
        """Add new words, which get the next ids."""
        self._commit(lambda build: build.take_words(words), lock.WAIT_SECONDS, alone=True)


class Shard(Index):
    """The index of one shard."""

    _merges_in_thread = False  # the process of a worker goes on with other tasks

    def take(self, head: Snapshot, batches: Iterable[DocBatch]) -> int:
        """Add the new words of the head and then documents encoded over them; return how many were added."""

        def work(build: Writer) -> int:
            words = head.words
            missing = (words.word(id) for id in range(len(build.words), len(words)))
            if build.take_words(missing) != len(words):
                raise IndexFormatError(f"{self.path}: the words differ from {head.folder}; the cluster is damaged")
            return build.add_encoded(batches)

        return self._change(work, SHARD_LOCK_WAIT, alone=True)

    def follow(self, commit: str) -> None:
        """Refresh unless this commit is shown already."""
        if commit not in ("", self._view.commit):
            self.refresh()

    def warm_up(self) -> None:
        """Search once, so that the code for searches is compiled or loaded."""
        dimensions = self._view.snapshot.manifest.dimensions
        dense = np.zeros(dimensions, dtype=np.float32) if dimensions else None
        self.find([QueryVectors(np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.float32), dense)], SearchOptions(k=1))

    def find(self, queries: Sequence[QueryVectors], options: SearchOptions) -> list[Found]:
        """Return the best documents of this shard for each query, whose weights use the idf of the collection."""
        return self._view.find(queries, options)

    def why(self, query: QueryVectors, whole: QueryVectors, id: str) -> Explanation:
        """Explain the score of a document of this shard; `whole` is the query before slicing."""
        return self._view.explain_vectors(query, whole, id)


def new_shard(head: Path, to: Path, batches: Iterable[DocBatch]) -> int:
    """Write a shard to a hidden folder and rename it, unless it exists; return how many documents it has."""
    if to.exists():
        return len(Shard.open(to))
    hidden = to.with_name(f".{to.name}.{uuid4().hex}")
    try:
        back_up(head, hidden)
        count = Shard.open(hidden).take(Snapshot(hidden), batches)
        hidden.rename(to)
    except OSError:
        if not to.exists():
            raise
        count = len(Shard.open(to))
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
    sync_folder(to.parent)
    return count


def add(head: Path, shard: Path, batch: DocBatch) -> int:
    """Add encoded documents to a shard and return how many."""
    return Shard.open(shard).take(Snapshot(head), [batch])


def update(shard: Path, id: str, meta: Mapping[str, Any]) -> int:
    """Replace the metadata of a document of a shard, and return 1 if it exists, otherwise 0."""
    return int(Shard.open(shard).update(id, meta, wait=SHARD_LOCK_WAIT))


def delete(shard: Path, ids: Sequence[str]) -> int:
    """Delete documents of a shard and return how many there were."""
    return Shard.open(shard).delete(ids, wait=SHARD_LOCK_WAIT)


def merge(shard: Path) -> int:
    """Merge segments of a shard and return how many were rewritten."""
    return Shard.open(shard).merge(wait=SHARD_LOCK_WAIT)


def verify(shard: Path) -> int:
    """Read every file of a shard and return 0. Raise IndexFormatError for the first that is damaged."""
    Shard.open(shard).verify()
    return 0
