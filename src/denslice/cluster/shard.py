"""Head and shards: ordinary indexes that have one slicing and one vocabulary, the head's.

The functions below the classes run on workers. Each may be repeated after a failure: what it did is then done over.
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

WAIT = 600.0  # seconds for another change of the same shard to end, such as one whose caller is gone


class Head(Index):
    """The index without documents that knows every word of the collection, and how tokens are sliced."""

    @property
    def is_settled(self) -> bool:
        """Whether the slicing is made."""
        return self._view.snapshot.slicing is not None

    def settle(self, words: Sequence[str], sample: sp.csr_array, dimensions: int | None) -> None:
        """Takes the collection's first words, and makes the slicing from a sample of its documents."""

        def work(build: Writer) -> int:
            build.take_words(words)
            build.settle(sample, dimensions)
            return 0

        self._commit(work, lock.WAIT_SECONDS, alone=True)

    def take_words(self, words: Sequence[str]) -> None:
        """Takes new words, which get the next ids."""
        self._commit(lambda build: build.take_words(words), lock.WAIT_SECONDS, alone=True)


class Shard(Index):
    """The index of one shard."""

    _merges_in_thread = False  # a worker's process goes on to other things

    def take(self, head: Snapshot, batches: Iterable[DocBatch]) -> int:
        """Adds documents encoded over the head's vocabulary, whose words the shard takes first; how many."""

        def work(build: Writer) -> int:
            words = head.words
            missing = (words.word(id) for id in range(len(build.words), len(words)))
            if build.take_words(missing) != len(words):
                raise IndexFormatError(f"{self.path}: has other words than {head.folder}; the cluster is damaged")
            return build.add_encoded(batches)

        return self._change(work, WAIT, alone=True)

    def follow(self, commit: str) -> None:
        """Move on to the last commit unless this is the one."""
        if commit not in ("", self._view.commit):
            self.refresh()

    def warm_up(self) -> None:
        """Loads or compiles what searches need, so that the first one is as fast as the next."""
        dimensions = self._view.snapshot.manifest.dimensions
        dense = np.zeros(dimensions, dtype=np.float32) if dimensions else None
        self.find([QueryVectors(np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.float32), dense)], SearchOptions(k=1))

    def find(self, queries: Sequence[QueryVectors], options: SearchOptions) -> list[Found]:
        """This shard's best for each query, whose weights are the collection's."""
        return self._view.find(queries, options)

    def why(self, query: QueryVectors, whole: QueryVectors, id: str) -> Explanation:
        """Why a document of this shard scores what it does; `whole` is the query before any slicing."""
        return self._view.explain_vectors(query, whole, id)


def new_shard(head: Path, to: Path, batches: Iterable[DocBatch]) -> int:
    """Makes a shard and puts it in place in one step; how many documents it has. If it is there, it stays."""
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
    """Adds encoded documents to a shard; how many."""
    return Shard.open(shard).take(Snapshot(head), [batch])


def update(shard: Path, id: str, meta: Mapping[str, Any]) -> int:
    """Give a document of a shard other metadata, and return 1 if it is there."""
    return int(Shard.open(shard).update(id, meta, wait=WAIT))


def delete(shard: Path, ids: Sequence[str]) -> int:
    """Deletes documents of a shard; how many there were."""
    return Shard.open(shard).delete(ids, wait=WAIT)


def merge(shard: Path) -> int:
    """Merges a shard's segments; how many were rewritten."""
    return Shard.open(shard).merge(wait=WAIT)


def verify(shard: Path) -> int:
    """Reads every file of a shard; 0."""
    Shard.open(shard).verify()
    return 0
