"""The work of `denslice index --ray`: it builds a new cluster, or adds documents to an existing one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from denslice.cluster import ray_engine
from denslice.cluster.cluster import Cluster
from denslice.cluster.cluster_build import Workers, build_cluster
from denslice.cluster.cluster_folder import is_cluster, read_layout
from denslice.cluster.input_parts import VECTORS_SUFFIX
from denslice.cluster.replicas import ReplicaOptions
from denslice.corpus.documents import read_docs
from denslice.errors import InputError
from denslice.index.from_files import check_options
from denslice.index.index import Index
from denslice.index.quick_pass import Counter
from denslice.options import IndexKeywords
from denslice.store.snapshot import Snapshot

DEFAULT_SHARDS = 16


def index_on_ray(
    inputs: Sequence[str],
    to: Path,
    chosen: IndexKeywords,
    address: str | None,
    shards: int | None,
    workers: Workers,
    counter: Counter,
    wait: float = 0.0,
) -> tuple[int, int]:
    """Build a cluster of the inputs, or add them to the one at `to`; return how many documents, and its bytes."""
    if address is None:
        raise InputError("--shards needs --ray ADDRESS: the address of a Ray cluster, or local")
    joined = ray_engine.connect(address)
    try:
        if is_cluster(to):
            count = _add(inputs, to, chosen, shards, counter, wait)
        else:
            count = build_cluster(inputs, to, chosen, shards or DEFAULT_SHARDS, counter, workers)
    finally:
        if joined:
            ray_engine.leave()
    layout = read_layout(to)
    return count, sum(Snapshot(layout.shard(number)).bytes() for number in range(layout.shards))


def _add(
    inputs: Sequence[str], to: Path, chosen: IndexKeywords, shards: int | None, counter: Counter, wait: float
) -> int:
    layout = read_layout(to.resolve())
    if shards not in (None, layout.shards):
        raise InputError(f"{to}: has {layout.shards} shards, not {shards}; leave out --shards or build another cluster")
    if any(name.endswith(VECTORS_SUFFIX) for name in inputs):
        raise InputError(f"{inputs[0]}: holds ready vectors; add them from Python with Cluster.add_vectors")
    check_options(Index.open(layout.head), chosen)
    return Cluster(layout, ReplicaOptions(), complete=True).add(read_docs(inputs), wait=wait, progress=counter.advance)
