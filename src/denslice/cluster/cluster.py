"""Cluster: shards on Ray behind the verbs of an Index."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from denslice import encoders
from denslice.cluster import ray_engine, shard
from denslice.cluster.cluster_folder import BUILDING, Layout, read_layout
from denslice.cluster.cluster_reader import ClusterReader
from denslice.cluster.replicas import Replicas, Serving
from denslice.cluster.shard import Head
from denslice.errors import DensliceError, InputError, MissingShardsError
from denslice.index.index import Index
from denslice.index.writer import DocBatch, Progress, encode_batches, ready_batches
from denslice.options import OpenOptions
from denslice.records import Doc, checked_docs, checked_id
from denslice.store import lock
from denslice.store.backup import back_up
from denslice.store.vocabulary import Growth
from denslice.vectors import Encoded, dense_rows, lexical_csr

if TYPE_CHECKING:
    import scipy.sparse as sp

AT_ONCE = 16_384  # documents sent to the shards at a time


class Cluster(Index):
    """A collection in shards. It searches as one Index over everything would; changes go to the shards that own them.

    Each shard commits by itself: of a change that is interrupted some shards may have their part. Doing it again is
    safe, since a document takes the place of the one with its id. `close` ends the replicas.
    """

    def __init__(self, layout: Layout, serving: Serving, complete: bool, joined: bool = False) -> None:
        self._layout = layout
        self._joined = joined
        self._replicas = Replicas(layout, serving)
        super().__init__(ClusterReader(layout, self._replicas, complete))

    def wait_until_ready(self) -> None:
        """Starts the replicas and waits for them; MissingShardsError if completeness was asked for and one is away."""
        away = self._replicas.wait_until_ready()
        if away and self._view.complete:
            raise MissingShardsError([str(self._layout.shard(number)) for number in away])

    @property
    def _view(self) -> ClusterReader:
        view = super()._view
        assert isinstance(view, ClusterReader)
        return view

    @property
    def path(self) -> Path:
        """The cluster's folder."""
        return self._layout.folder

    def add(
        self,
        docs: Iterable[Doc | Mapping[str, Any]],
        *,
        wait: float = lock.WAIT_SECONDS,
        progress: Progress | None = None,
    ) -> int:
        """Adds documents, each in the shard that owns its id; how many. Encoding is done here."""
        if isinstance(docs, str | Mapping | Doc) or not isinstance(docs, Iterable):
            raise InputError(f"documents come in a list, not as one {type(docs).__name__}")

        def batches(words: Growth) -> Iterator[DocBatch]:
            manifest = self._view.snapshot.manifest
            encoder = encoders.load(manifest.encoder, manifest.encoder_options, words)
            return encode_batches(checked_docs(docs), encoder)

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
        """Adds ready vectors, each in the shard that owns its id; how many."""
        checked = lexical_csr(weights, self._view.columns())
        vectors = None if dense is None else dense_rows(dense, checked.shape[0])
        return self._add(lambda words: ready_batches(ids, checked, texts, vectors), wait, progress)

    def update(self, id: str, meta: Mapping[str, Any], *, wait: float = lock.WAIT_SECONDS) -> bool:
        """Give a document other metadata, without encoding it again; return whether it is there."""
        given = {self._layout.owner(checked_id(id)): (checked_id(id), dict(meta))}
        return bool(self._on_all(wait, lambda: self._on_shards(shard.update, given)))

    def backup(self, to: str | Path) -> None:
        """Copy the cluster to a new folder; nothing changes it meanwhile."""
        copy = Layout(Path(to).absolute(), self._layout.shards)
        with lock.writing(self.path):
            back_up(self._layout.head, copy.head)
            for number in range(copy.shards):
                back_up(self._layout.shard(number), copy.shard(number))
        copy.write()

    def delete(self, ids: Iterable[str], *, wait: float = lock.WAIT_SECONDS) -> int:
        """Deletes the documents with these ids; how many there were."""
        if isinstance(ids, str):
            raise InputError(f"ids come in a list, not as one string: [{ids!r}]")
        owned = self._layout.by_owner(dict.fromkeys(map(checked_id, ids)))
        return self._on_all(wait, lambda: self._on_shards(shard.delete, {at: (some,) for at, some in owned.items()}))

    def merge(self, *, wait: float = lock.WAIT_SECONDS) -> int:
        """Rewrites small or much deleted segments of every shard; how many were rewritten."""
        return self._on_all(wait, lambda: self._on_shards(shard.merge, dict.fromkeys(range(self._layout.shards), ())))

    def refresh(self) -> bool:
        """Moves on to the shards' last commits, whoever made them; whether there were newer ones."""
        view = ClusterReader(self._layout, self._replicas, self._view.complete, self._view)
        newer = view.commit != self._view.commit
        if newer:
            self._shown = view
        return newer

    def verify(self) -> None:
        """Reads every file in full; raises IndexFormatError naming the first that is damaged."""
        self._view.snapshot.verify()
        self._on_shards(shard.verify, dict.fromkeys(range(self._layout.shards), ()))

    def close(self) -> None:
        """Ends the replicas, and leaves Ray if opening the cluster joined it."""
        self._replicas.close()
        if self._joined:
            ray_engine.leave()

    def __reduce__(self) -> tuple[Any, ...]:
        raise InputError(f"{self.path}: an open cluster cannot be sent elsewhere; open it there with open_cluster")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add(self, batches: Callable[[Growth], Iterator[DocBatch]], wait: float, progress: Progress | None) -> int:
        """Encodes and sends documents, some at a time: first their new words to the head, then they to the shards."""

        def work() -> int:
            head = Head.open(self._layout.head)
            words = Growth(self._view.snapshot.words)
            added = known = 0
            for docs, encoded in _gathered(batches(words)):
                self._check_dimensions(encoded)
                head.take_words(words.new_words[known:])
                known = len(words.new_words)
                added += self._on_shards(shard.add, self._by_owner(docs, encoded))
                if progress:
                    progress(len(docs))
            return added

        return self._on_all(wait, work)

    def _check_dimensions(self, encoded: Encoded) -> None:
        """Dense vectors are as wide as the collection's: a shard that has no documents yet could not tell."""
        found, width = 0 if encoded.dense is None else encoded.dense.shape[1], self._view.snapshot.manifest.dimensions
        if found != (width or 0):
            raise InputError(f"dense vectors of {found} dimensions do not fit a cluster with {width or 0}")

    def _by_owner(self, docs: list[Doc], encoded: Encoded) -> dict[int, tuple[DocBatch]]:
        owners = np.array([self._layout.owner(doc.id) for doc in docs])
        rows = {at: np.flatnonzero(owners == at) for at in np.unique(owners).tolist()}
        return {at: (([docs[row] for row in some], encoded.rows(some)),) for at, some in rows.items()}

    def _on_all(self, wait: float, work: Callable[[], int]) -> int:
        """Changes shards, one caller at a time; from here on this cluster shows the change."""
        with lock.writing(self.path, wait):
            shutil.rmtree(self.path / BUILDING, ignore_errors=True)  # of a build killed as it was done
            self.refresh()
            try:
                return work()
            finally:
                self.refresh()

    def _on_shards(self, function: Callable[..., int], given: Mapping[int, tuple[Any, ...]]) -> int:
        """The sum of what the function gives for each of these shards, on workers."""
        ray = ray_engine.load()
        remote = ray.remote(num_cpus=self._replicas.cpus, max_retries=-1)(_told)
        head = (self._layout.head,) if function is shard.add else ()
        calls = [remote.remote(function, *head, self._layout.shard(at), *rest) for at, rest in given.items()]
        total = 0
        for done, error in ray.get(calls):
            if error:
                raise error
            total += done
        return total


def _told(function: Callable[..., int], *given: Any) -> tuple[int, DensliceError | None]:
    """What a function gives, or the error to raise: Ray would wrap one that is raised on a worker."""
    try:
        return function(*given), None
    except DensliceError as error:
        return 0, error


def _gathered(batches: Iterator[DocBatch]) -> Iterator[DocBatch]:
    """The same documents in fewer batches; an id that comes twice is an error."""
    seen: set[str] = set()
    some: list[DocBatch] = []
    for docs, encoded in batches:
        for doc in docs:
            if doc.id in seen:
                raise InputError(f"document id {doc.id!r} is given twice")
            seen.add(doc.id)
        some.append((docs, encoded))
        if sum(len(one) for one, _ in some) >= AT_ONCE:
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
    patience: float = 1.0,
    wait: float = 60.0,
) -> Cluster:
    """The cluster in a folder, served by replicas on Ray: it has an Index's methods.

    `address` is Ray's; without one this process must have joined Ray already. `complete` makes an answer that lacks a
    shard an error instead of a ranking that names it in `missing`. Ray sets `cpus` and `gpus` aside for a replica, by
    default an even share of half the CPUs there are. On device "cuda" each replica searches on a card that Ray gives
    it, and `gpus` says how much of one it takes, by default all of it. A replica is late after `patience` seconds, and
    then another one is asked too; a shard is missing after `wait`.
    """
    layout = read_layout(Path(os.fspath(folder)).resolve())
    serving = Serving(replicas, cpus, gpus or float(device != "cpu"), patience, wait, OpenOptions(device, leave_out))
    joined = ray_engine.connect(address)
    try:
        cluster = Cluster(layout, serving, complete, joined)
        cluster.wait_until_ready()
        return cluster
    except BaseException:
        if joined:
            ray_engine.leave()
        raise
