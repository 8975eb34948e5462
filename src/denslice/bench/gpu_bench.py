"""Search on a GPU over as many synthetic documents as MS MARCO has, checked and then timed.

One run measures exact search with 64 weights and with every weight, the paper's two stages, batches, exact hybrid
search, and the paper's method and a dense scan in PyTorch. Times start with query vectors on the host and end with
document numbers and scores on the host, except where a name says that they end with ids or texts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from denslice.bench.gpu_collection import Loaded
from denslice.bench.host_documents import HostDocuments, id_of, text_of, write_parts
from denslice.bench.synthetic import SyntheticCollection
from denslice.errors import DensliceError
from denslice.options import SearchOptions
from denslice.provenance import milliseconds
from denslice.records import Doc
from denslice.reproduce.table_page import markdown
from denslice.search.gpu.cuda import cuda_devices
from denslice.search.query import Found, QueryVectors

ACTIVE, CANDIDATES, BATCH, K, FEW = 64, 10_000, 64, 1000, 10
WARMING = 0.5  # seconds: a GPU that has been idle is slower at first
SLICES, FEWER = 768, (256, 128)  # dense vectors have as many dimensions
Figures = dict[str, Any]
Queries = Sequence[QueryVectors]


class Bench:
    """One run over all settings."""

    def __init__(self, docs: int, queries: int, repeats: int, device: str) -> None:
        self.docs, self.queries, self.repeats, self.device = docs, queries, repeats, device
        self.name = cuda_devices(device)[0].name

    def run(self, peers: bool) -> Iterator[Figures]:
        """Yield the figures of each setting when it is measured."""
        with Loaded(SyntheticCollection(self.docs, SLICES, zipf=True), 0, self.device) as loaded:
            yield from self._lexical(loaded)
        with Loaded(SyntheticCollection(self.docs, SLICES), SLICES, self.device) as loaded:
            yield from self._lexical(loaded)
            yield from self._hybrid(loaded)
            if peers:
                yield from self._dense_peer(loaded)
                yield from self._paper_peer(loaded)
            yield from self._named(loaded)
        for slices in FEWER:
            with Loaded(SyntheticCollection(self.docs, slices), slices, self.device) as loaded:
                yield from self._hybrid(loaded)

    def _lexical(self, loaded: Loaded) -> Iterator[Figures]:
        exact, some, every = SearchOptions(K), self._asked(loaded, ACTIVE), self._asked(loaded, None)
        yield self._timed(loaded, f"exact, {ACTIVE} weights", some, exact)
        yield self._timed(loaded, "exact, every slice", every, exact)
        yield self._timed(loaded, f"postings alone, {ACTIVE} weights", some, replace(exact, rerank=False))
        yield self._timed(loaded, "postings alone, every slice", every, replace(exact, rerank=False))
        theta = float(np.median([np.sort(query.weights)[-ACTIVE - 1] for query in every]))
        stages = SearchOptions(K, theta=theta, candidates=CANDIDATES)
        yield self._timed(loaded, f"two stages, {ACTIVE} weights, then {CANDIDATES:,} rescored", every, stages)
        yield self._batches(loaded, exact)

    def _hybrid(self, loaded: Loaded) -> Iterator[Figures]:
        queries = [loaded.with_vector(query, n) for n, query in enumerate(self._asked(loaded, None))]
        yield self._timed(loaded, "hybrid exact, every slice", queries, SearchOptions(K))
        alone = [replace(query, keys=query.keys[:0], weights=query.weights[:0]) for query in queries]
        yield self._timed(loaded, "dense exact", alone, SearchOptions(K))
        fused = SearchOptions(K, candidates=CANDIDATES, candidates_from="lexical")
        yield self._timed(loaded, f"every slice, then {CANDIDATES:,} fused with dense", queries, fused)

    def _named(self, loaded: Loaded) -> Iterator[Figures]:
        """Time searches that end with ids, or with texts from SQLite files that the system has in its cache."""
        queries = self._asked(loaded, ACTIVE)
        with TemporaryDirectory(prefix="denslice-bench-") as folder:
            sizes = [part.rows for part in loaded.parts]
            write_parts(sizes, Path(folder))
            host = HostDocuments(sizes, Path(folder))
            for k, ends in ((K, "ids"), (FEW, "texts"), (K, "texts")):
                named = Named(loaded, host, SearchOptions(k))
                named.check(queries[:2])
                took = _times(named.ids if ends == "ids" else named.texts, queries, self.repeats)
                yield _told(loaded, f"exact, {ACTIVE} weights, to {k:,} {ends}", took)

    def _dense_peer(self, loaded: Loaded) -> Iterator[Figures]:
        from denslice.bench.peers.torch_peer import DenseScan

        scan = DenseScan(loaded.parts)
        queries = [loaded.with_vector(query, n) for n, query in enumerate(self._asked(loaded, None))]
        alone = [replace(query, keys=query.keys[:0], weights=query.weights[:0]) for query in queries]
        yield self._peer(loaded, "PyTorch: dense scan", alone, lambda query: scan.search(query, K))

    def _paper_peer(self, loaded: Loaded) -> Iterator[Figures]:
        from denslice.bench.peers.torch_peer import PaperSearch

        paper = PaperSearch(loaded.collection, loaded.parts)
        some, every = self._asked(loaded, ACTIVE), self._asked(loaded, None)
        yield self._peer(loaded, f"PyTorch, as the paper: {ACTIVE} weights", some, lambda q: paper.search(q, K))
        yield self._peer(loaded, "PyTorch, as the paper: every slice", every, lambda q: paper.search(q, K))
        name = f"PyTorch, as the paper: two stages, {ACTIVE} weights, then {CANDIDATES:,} rescored"
        yield self._peer(loaded, name, every, lambda q: paper.search_twice(q, K, ACTIVE, CANDIDATES), complete=False)

    def _asked(self, loaded: Loaded, active: int | None) -> list[QueryVectors]:
        return [loaded.collection.query(number, active) for number in range(self.queries)]

    def _timed(self, loaded: Loaded, name: str, queries: Queries, settings: SearchOptions) -> Figures:
        loaded.check(queries[:2], settings, K)
        took = _times(lambda query: loaded.search([query], settings), queries, self.repeats)
        return _told(loaded, name, took)

    def _batches(self, loaded: Loaded, settings: SearchOptions) -> Figures:
        batches = [[loaded.collection.query(BATCH * b + n, ACTIVE) for n in range(BATCH)] for b in range(5)]
        alone = [loaded.search([query], settings)[0] for query in batches[0]]
        for one, other in zip(alone, loaded.search(batches[0], settings), strict=True):
            if not np.array_equal(one.positions, other.positions) or not np.array_equal(one.lexical, other.lexical):
                raise DensliceError("a batch and its single queries have different results; nothing is timed")
        took = _times(lambda batch: loaded.search(batch, settings), batches, self.repeats)
        figures = _told(loaded, f"batch of {BATCH}, exact, {ACTIVE} weights", took)
        return figures | {"queries_a_second": round(BATCH / figures["p50_ms"] * 1000)}

    def _peer(
        self, loaded: Loaded, name: str, queries: Queries, search: Callable[[QueryVectors], Any], complete: bool = True
    ) -> Figures:
        few = queries[: max(3, self.queries // 10)]
        positions, scores = search(few[0])
        loaded.check_near(few[0], positions, scores, complete)
        return _told(loaded, name, _times(search, few, max(2, self.repeats // 2)))


@dataclass(frozen=True)
class Named:
    """Searches that end with ids or texts."""

    loaded: Loaded
    host: HostDocuments
    settings: SearchOptions

    def ids(self, query: QueryVectors) -> Found:
        """Return the best documents with their ids."""
        (answer,) = self.loaded.search([query], self.settings)
        return self.host.ids(answer, self.settings.k)

    def texts(self, query: QueryVectors) -> list[Doc]:
        """Return the best documents with their texts."""
        return self.host.texts(self.ids(query))

    def check(self, queries: Queries) -> None:
        """Raise DensliceError if the documents of a search are not those of its positions."""
        for query in queries:
            (answer,) = self.loaded.search([query], self.settings)
            expected = [id_of(position) for position in answer.positions[: self.settings.k].tolist()]
            found, docs = self.ids(query), self.texts(query)
            is_same = sorted(found.ids) == sorted(expected) == sorted(doc.id for doc in docs)
            texts = {doc.text for doc in docs} == {text_of(int(id.rpartition("-")[2])) for id in expected}
            if not is_same or not texts or (np.diff(found.scores) > 0).any():
                raise DensliceError("a search ends with other documents than the GPU found; nothing is timed")


def table(figures: Sequence[Figures]) -> str:
    """Return the figures as Markdown."""
    rows = []
    for one in figures:
        rate = one.get("queries_a_second") or round(1000 / one["p50_ms"])
        cells = [one["gates"], one["slices"], one["dimensions"] or "", one["name"]]
        rows.append([*map(str, cells), f"{one['p50_ms']:.3f}", f"{one['p95_ms']:.3f}", f"{rate:,}"])
    return markdown(["gates", "slices", "dimensions", "search", "p50 ms", "p95 ms", "queries/s"], rows)


def _times(work: Callable[[Any], Any], given: Sequence[Any], repeats: int) -> list[float]:
    """Return the milliseconds of each call, in turns over all arguments, after the GPU has worked for a while."""
    begun = time.perf_counter()
    while time.perf_counter() - begun < WARMING:
        for one in given:
            work(one)
    return [milliseconds(work, one) for one in [*given] * repeats]


def _told(loaded: Loaded, name: str, took: Sequence[float]) -> Figures:
    collection = loaded.collection
    gates = "Zipf-like" if collection.zipf else "uniform"
    figures = {"name": name, "gates": gates, "slices": collection.slices, "dimensions": loaded.dimensions}
    times = {"p50_ms": np.median(took), "p95_ms": np.percentile(took, 95), "least_ms": min(took)}
    figures |= {key: round(float(value), 4) for key, value in times.items()} | {"times": len(took)}
    return figures | {"bytes_a_posting": round(loaded.bytes_a_posting, 3), "load_s": round(loaded.seconds, 1)}
