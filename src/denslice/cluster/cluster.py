"""Cluster: a collection in shards on Ray, with the methods of an Index."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from denslice import encoders
from denslice.cluster import ray_engine, shard
from denslice.cluster.cluster_folder import BUILD_FOLDER, Layout, read_layout
from denslice.cluster.cluster_reader import ClusterReader
from denslice.cluster.replicas import ReplicaOptions, Replicas
from denslice.cluster.shard import Head
from denslice.errors import DensliceError, InputError, MissingShardsError
from denslice.index.doc_batches import DocBatch, cut_docs, encode_batches, ready_batches
from denslice.index.search_verbs import SearchVerbs
from denslice.options import OpenOptions
from denslice.records import Doc, GivenDocs, Progress, checked_docs, checked_id, checked_ids
from denslice.store import lock
from denslice.store.backup import back_up
from denslice.store.manifest import FULL
from denslice.store.vocabulary import Growth
from denslice.vectors import Encoded, dense_rows, lexical_csr

if TYPE_CHECKING:
    import scipy.sparse as sp

ADD_BATCH = 16_384  # documents that are sent to the shards together


class Cluster(SearchVerbs):
    """A collection in shards. Searches return what one Index over all documents would return.

    Each shard commits its part of a change, so an interrupted change may be in some shards only. Repeat it: a document
    replaces the one with its id. `close` stops the replicas.
    """

    def __init__(self, layout: Layout, options: ReplicaOptions, complete: bool, joined: bool = False) -> None:
        self._layout = layout
        self._joined = joined
        self._reader = ClusterReader(layout, Replicas(layout, options), complete)

    @property
    def reader(self) -> ClusterReader:
        """The reader of the commits that are shown."""
        return self._reader

    def wait_until_ready(self) -> None:
        """Start the replicas and wait for them. Raise MissingShardsError if `complete` is set and a shard has none."""
        missing = self.reader.replicas.wait_until_ready()
        if missing and self.reader.complete:
            raise MissingShardsError([str(self._layout.shard(number)) for number in missing])

    def __repr__(self) -> str:
        encoder = self.reader.snapshot.manifest.encoder
        return f"<Cluster {str(self.path)!r}: {len(self):,} documents, {encoder}, generation {self.generation}>"

    @property
    def path(self) -> Path:
        """The folder of the cluster."""
        return self._layout.folder

    def verify(self) -> None:
        """Read every file in full. Raise IndexFormatError for the first that is damaged."""
        self.reader.snapshot.verify()
        self._on_shards(shard.verify, dict.fromkeys(range(self._layout.shards), ()))

    # --- writing

    def add(
        self,
        docs: GivenDocs,
        *,
        level: str = FULL,
        wait: float = lock.WAIT_SECONDS,
        progress: Progress | None = None,
    ) -> int:
        """Encode documents here, add each to the shard that owns its id, and return how many were added.

        The only level is "full": a cluster is not deepened.
        """
        if level != FULL:
            raise InputError(f"a cluster takes documents at the level {FULL!r}, not {level!r}")

        def batches(words: Growth) -> Iterator[DocBatch]:
            manifest = self.reader.snapshot.manifest
            encoder = encoders.load(manifest.encoder, manifest.encoder_options, words)
            return encode_batches(cut_docs(checked_docs(docs), manifest.passages), encoder)

        return self._add(batches, wait, progress)

    def add_vectors(
        self,
        ids: Sequence[str],
        weights: sp.csr_array,
        texts: Sequence[str] | None = None,
        dense: npt.ArrayLike | None = None,
        *,
        wait: float = lock.WAIT_SECONDS,
        progress: Progress | None = None,
    ) -> int:
        """Add ready vectors, each to the shard that owns its id, and return how many were added."""
        checked = lexical_csr(weights, self.reader.columns())
        vectors = None if dense is None else dense_rows(dense, checked.shape[0])
        return self._add(lambda words: ready_batches(ids, checked, texts, vectors), wait, progress)

    def update(self, id: str, meta: Mapping[str, Any], *, wait: float = lock.WAIT_SECONDS) -> bool:
        """Replace the metadata of a document without encoding it again, and return whether it exists."""
        given = {self._layout.owner(checked_id(id)): (checked_id(id), dict(meta))}
        return bool(self._locked(wait, lambda: self._on_shards(shard.update, given)))

    def backup(self, to: str | Path) -> None:
        """Copy the cluster to a new folder. Writers wait until the copy is complete."""
        copy = Layout(Path(to).absolute(), self._layout.shards)
        with lock.writing(self.path):
            back_up(self._layout.head, copy.head)
            for number in range(copy.shards):
                back_up(self._layout.shard(number), copy.shard(number))
        copy.write()

    def delete(self, ids: Iterable[str], *, wait: float = lock.WAIT_SECONDS) -> int:
        """Delete the documents with these ids and return how many there were."""
        owned = self._layout.by_owner(checked_ids(ids))
        return self._locked(wait, lambda: self._on_shards(shard.delete, {at: (some,) for at, some in owned.items()}))

    def merge(self, *, wait: float = lock.WAIT_SECONDS) -> int:
        """Merge segments of every shard that are small or have many deletions; return how many were rewritten."""
        return self._locked(wait, lambda: self._on_shards(shard.merge, dict.fromkeys(range(self._layout.shards), ())))

    def refresh(self) -> bool:
        """Move on to the last commits of all shards and return whether any is newer."""
        shown = self.reader
        reader = ClusterReader(self._layout, shown.replicas, shown.complete, shown)
        newer = reader.commit != shown.commit
        if newer:
            self._reader = reader
        return newer

    def close(self) -> None:
        """Stop the replicas, and disconnect from Ray if opening the cluster connected to it."""
        self.reader.replicas.close()
        if self._joined:
            ray_engine.leave()

    def __reduce__(self) -> tuple[Any, ...]:
        raise InputError(f"{self.path}: an open cluster cannot be pickled; open it there with open_cluster")

    def _add(self, batches: Callable[[Growth], Iterator[DocBatch]], wait: float, progress: Progress | None) -> int:
        """Encode documents in batches. Of each batch, commit the new words to the head, then add it to the shards."""

        def work() -> int:
            head = Head(self._layout.head)
            words = Growth(self.reader.snapshot.words)
            added = known = 0
            for docs, encoded in _large_batches(batches(words)):
                self._check_dimensions(encoded)
                head.take_words(words.new_words[known:])
                known = len(words.new_words)
                added += self._on_shards(shard.add, self._by_owner(docs, encoded))
                if progress:
                    progress(len(docs))
            return added

        return self._locked(wait, work)

    def _check_dimensions(self, encoded: Encoded) -> None:
        """Raise InputError if the dense vectors do not have the dimensions of the collection.

        A shard cannot check this while it has no documents.
        """
        found, width = 0 if encoded.dense is None else encoded.dense.shape[1], self.reader.snapshot.manifest.dimensions
        if found != (width or 0):
            raise InputError(f"the dense vectors have {found} dimensions, expected {width or 0} as in the cluster")

    def _by_owner(self, docs: list[Doc], encoded: Encoded) -> dict[int, tuple[DocBatch]]:
        owners = np.array([self._layout.owner(doc.id) for doc in docs])
        rows = {at: np.flatnonzero(owners == at) for at in np.unique(owners).tolist()}
        return {at: (([docs[row] for row in some], encoded.rows(some)),) for at, some in rows.items()}

    def _locked(self, wait: float, work: Callable[[], int]) -> int:
        """Do work that changes shards, with the write lock of the cluster, and show the change."""
        with lock.writing(self.path, wait):
            shutil.rmtree(self.path / BUILD_FOLDER, ignore_errors=True)  # of a build that was killed at its very end
            self.refresh()
            try:
                return work()
            finally:
                self.refresh()

    def _on_shards(self, function: Callable[..., int], given: Mapping[int, tuple[Any, ...]]) -> int:
        """Run the function for each of these shards on workers, and return the sum of its results."""
        ray = ray_engine.load()
        remote = ray.remote(num_cpus=self.reader.replicas.cpus, max_retries=-1)(_result_or_error)
        head = (self._layout.head,) if function is shard.add else ()
        calls = [remote.remote(function, *head, self._layout.shard(at), *rest) for at, rest in given.items()]
        total = 0
        for done, error in ray.get(calls):
            if error:
                raise error
            total += done
        return total


def _result_or_error(function: Callable[..., int], *given: Any) -> tuple[int, DensliceError | None]:
    """Return the result of a function, or the error to raise, which Ray would wrap if a worker raised it."""
    try:
        return function(*given), None
    except DensliceError as error:
        return 0, error


def _large_batches(batches: Iterator[DocBatch]) -> Iterator[DocBatch]:
    """Yield the same documents in larger batches. Raise InputError if an id occurs twice."""
    seen: set[str] = set()
    some: list[DocBatch] = []
    for docs, encoded in batches:
        for doc in docs:
            if doc.id in seen:
                raise InputError(f"document id {doc.id!r} is given twice")
            seen.add(doc.id)
        some.append((docs, encoded))
        if sum(len(one) for one, _ in some) >= ADD_BATCH:
            yield _joined(some)
            some = []
    if some:
        yield _joined(some)


def _joined(batches: list[DocBatch]) -> DocBatch:
    docs = [doc for some, _ in batches for doc in some]
    return docs, Encoded.joined([one for _, one in batches])


def open_cluster(
    folder: str | Path,
    address: str | None = None,
    *,
    replicas: int = 1,
    complete: bool = False,
    cpus: float | None = None,
    gpus: float = 0.0,
    device: str = "cpu",
    leave_out: Sequence[str] = (),
    queries: str = FULL,
    patience: float = 1.0,
    wait: float = 60.0,
) -> Cluster:
    """Open the cluster in a folder and start its replicas on Ray. A Cluster has the methods of an Index.

    `address` is that of Ray; without one, this process must be connected to Ray already. If a shard does not answer,
    the ranking names it in `missing`; with `complete`, MissingShardsError is raised. Ray reserves `cpus` and `gpus` for
    each replica, by default an even share of half of all CPUs. On device "cuda", each replica searches on the GPU that
    Ray assigns to it, and `gpus` is the fraction of a GPU that it needs, by default 1. If a replica has not answered
    after `patience` seconds, the request goes to the others too; a shard is missing after `wait` seconds.
    """
    layout = read_layout(Path(os.fspath(folder)).resolve())
    on = OpenOptions(device, leave_out, queries)
    options = ReplicaOptions(replicas, cpus, gpus or float(device != "cpu"), patience, wait, on)
    joined = ray_engine.connect(address)
    try:
        cluster = Cluster(layout, options, complete, joined)
        cluster.wait_until_ready()
        return cluster
    except BaseException:
        if joined:
            ray_engine.leave()
        raise
