"""The command `denslice bench gpu`: search over made-up documents of MS MARCO's number, checked and then timed.

All in one run: exact search with 64 and with every weight, the paper's two stages, batches, exact hybrid search, and
beside them the paper's formulation and a dense scan in PyTorch. Times go from query vectors on the host to document
numbers and scores on the host.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from denslice.bench.synthetic import Collection, Drawing, Part
from denslice.errors import DensliceError
from denslice.provenance import provenance
from denslice.search.gpu.card import Answer
from denslice.search.gpu.device import cuda_devices
from denslice.search.gpu.search import Cards
from denslice.search.retrieve import NO_MASK, QueryVectors, Settings

MS_MARCO = 8_841_823
ACTIVE, CANDIDATES, BATCH, K = 64, 10_000, 64, 1000
HYBRID = (768, 256, 128)  # slices, and dimensions beside them
PACKAGES = ("numpy", "cupy-cuda13x", "cupy-cuda12x", "torch")
CODE = ("src",)
Figures = dict[str, Any]


def gpu(
    docs: Annotated[int, typer.Option(help="How many documents.")] = MS_MARCO,
    queries: Annotated[int, typer.Option(help="Different queries that are timed in turn.")] = 50,
    repeats: Annotated[int, typer.Option(help="How often each query is timed.")] = 10,
    device: Annotated[str, typer.Option(help="cuda, or cuda:1.")] = "cuda",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="JSON lines to append the figures to.")] = None,
    peers: Annotated[bool, typer.Option(help="PyTorch beside it.")] = True,
) -> None:
    """Time search on a GPU, each way checked against the definition first."""
    from denslice.printing import write_line

    bench = Bench(docs, queries, repeats, device)
    figures = list(bench.run(peers))
    for line in table(figures):
        write_line(line)
    if out is not None:
        hardware = {"gpu": bench.name}
        configuration = {"docs": docs, "queries": queries, "repeats": repeats, "k": K}
        line = provenance(PACKAGES, CODE) | {"configuration": configuration, "figures": figures}
        line["hardware"] |= hardware
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")


class Bench:
    """One run over all settings."""

    def __init__(self, docs: int, queries: int, repeats: int, device: str) -> None:
        self.docs, self.queries, self.repeats, self.device = docs, queries, repeats, device
        (first,) = cuda_devices(device)
        self.name = first.name

    def run(self, peers: bool) -> Iterator[Figures]:
        """Figures of each setting, as they come."""
        for zipf in (True, False):
            collection = Collection(self.docs, 768, zipf)
            with Loaded(collection, 0 if zipf else 768, self.device) as loaded:
                yield from self._lexical(loaded)
                if not zipf:
                    yield from self._hybrid(loaded)
                    if peers:
                        yield from self._peers(loaded)
        for slices in HYBRID[1:]:
            with Loaded(Collection(self.docs, slices), slices, self.device) as loaded:
                yield from self._hybrid(loaded)

    def _lexical(self, loaded: Loaded) -> Iterator[Figures]:
        exact, stages = Settings(K), Settings(K, candidates=CANDIDATES)
        some, every = ([loaded.collection.query(n, active) for n in range(self.queries)] for active in (ACTIVE, None))
        yield self._timed(loaded, f"exact, {ACTIVE} weights", some, exact)
        yield self._timed(loaded, "exact, every slice", every, exact)
        yield self._timed(loaded, f"postings alone, {ACTIVE} weights", some, replace(exact, rerank=False))
        yield self._timed(loaded, "postings alone, every slice", every, replace(exact, rerank=False))
        theta = float(np.median([np.sort(query.weights)[-ACTIVE - 1] for query in every]))
        yield self._timed(
            loaded, f"two stages, {ACTIVE} of every slice, {CANDIDATES:,} rescored", every, replace(stages, theta=theta)
        )
        yield self._batches(loaded, exact)

    def _hybrid(self, loaded: Loaded) -> Iterator[Figures]:
        queries = [loaded.with_vector(loaded.collection.query(n), n) for n in range(self.queries)]
        yield self._timed(loaded, "hybrid exact, every slice", queries, Settings(K))
        nothing = np.zeros(0, dtype=np.int64)
        alone = [QueryVectors(nothing, np.zeros(0, np.float32), query.dense) for query in queries]
        yield self._timed(loaded, "dense exact", alone, Settings(K))
        stages = Settings(K, candidates=CANDIDATES, candidates_from="lexical")
        yield self._timed(loaded, f"the paper's fusion, {CANDIDATES:,} rescored", queries, stages)

    def _peers(self, loaded: Loaded) -> Iterator[Figures]:
        from denslice.bench.torch_peer import DenseScan, PaperSearch

        few = max(3, self.queries // 10)
        some, every = ([loaded.collection.query(n, active) for n in range(few)] for active in (ACTIVE, None))
        scan = DenseScan(loaded.parts)
        vectors = [loaded.with_vector(query, n) for n, query in enumerate(every)]
        yield self._peer(loaded, "PyTorch: dense scan", vectors, lambda q: scan.search(_dense(q), K))
        del scan
        loaded.free()
        paper = PaperSearch(loaded.collection, loaded.parts)
        yield self._peer(
            loaded, f"PyTorch, the paper's: {ACTIVE} weights", some, lambda q: paper.search(q, K, ACTIVE, K)
        )
        yield self._peer(loaded, "PyTorch, the paper's: every slice", every, lambda q: paper.search(q, K, 768, K))
        name = f"PyTorch, the paper's: two stages, {ACTIVE} of every slice, {CANDIDATES:,} rescored"
        yield self._peer(loaded, name, every, lambda q: paper.search(q, K, ACTIVE, CANDIDATES), check=False)

    def _timed(self, loaded: Loaded, name: str, queries: Sequence[QueryVectors], settings: Settings) -> Figures:
        checked = loaded.check(queries[:3], settings)
        for query in queries:
            loaded.search([query], settings)
        took = [
            _ms(lambda query=query: loaded.search([query], settings)) for _ in range(self.repeats) for query in queries
        ]  # type: ignore[misc]
        return self._told(loaded, name, took) | checked

    def _batches(self, loaded: Loaded, settings: Settings) -> Figures:
        batches = [[loaded.collection.query(BATCH * b + n, ACTIVE) for n in range(BATCH)] for b in range(5)]
        alone = [loaded.search([query], settings)[0] for query in batches[0][:8]]
        for one, other in zip(alone, loaded.search(batches[0], settings), strict=False):
            if not np.array_equal(one.positions, other.positions) or not np.array_equal(one.lexical, other.lexical):
                raise DensliceError("a batch does not find what its queries find alone; nothing is timed")
        took = [
            _ms(lambda batch=batch: loaded.search(batch, settings)) for _ in range(self.repeats) for batch in batches
        ]  # type: ignore[misc]
        figures = self._told(loaded, f"batch of {BATCH}, exact, {ACTIVE} weights", took)
        return figures | {"queries_a_second": round(BATCH / figures["p50_ms"] * 1000)}

    def _peer(
        self,
        loaded: Loaded,
        name: str,
        queries: Sequence[QueryVectors],
        search: Callable[[QueryVectors], Any],
        check: bool = True,
    ) -> Figures:
        checked: Figures = {}
        for query in queries:
            positions, scores = search(query)
            if check:
                checked = loaded.check_near(query, positions, scores, dense_only="dense" in name)
        took = [_ms(lambda query=query: search(query)) for _ in range(max(3, self.repeats // 3)) for query in queries]  # type: ignore[misc]
        return self._told(loaded, name, took) | checked

    def _told(self, loaded: Loaded, name: str, took: Sequence[float]) -> Figures:
        collection = loaded.collection
        gates = "Zipf-like" if collection.zipf else "uniform"
        found = {
            "p50_ms": float(np.median(took)),
            "p95_ms": float(np.percentile(took, 95)),
            "least_ms": float(min(took)),
        }
        figures = {"name": name, "gates": gates, "slices": collection.slices, "dimensions": loaded.dimensions}
        figures |= {key: round(value, 4) for key, value in found.items()} | {"times": len(took)}
        return figures | {"bytes_a_posting": round(loaded.bytes_a_posting, 3), "load_s": round(loaded.seconds, 1)}


class Loaded:
    """A collection on the card, ready to be searched and checked."""

    def __init__(self, collection: Collection, dimensions: int, device: str) -> None:
        import cupy

        self.cupy, self.collection, self.dimensions = cupy, collection, dimensions
        began = time.perf_counter()
        self.parts: list[Part] = Drawing(collection, dimensions).parts()
        cupy.cuda.Device().synchronize()
        drawn = time.perf_counter()
        self.cards = Cards(cuda_devices(device), (), self.parts).load()  # type: ignore[arg-type]
        for part in self.parts:
            part.drop_postings()
        self.free()
        self.seconds, self.drawing_seconds = time.perf_counter() - drawn, drawn - began
        told = self.cards.info()
        self.bytes_a_posting = told["postings_bytes"] / max(1, told["postings"])
        self.masks = [NO_MASK] * len(self.parts)

    def __enter__(self) -> Loaded:
        return self

    def __exit__(self, *error: object) -> None:
        del self.cards, self.parts
        gc.collect()
        self.free()

    def free(self) -> None:
        """Gives memory back that nothing uses."""
        self.cupy.get_default_memory_pool().free_all_blocks()

    def search(self, queries: Sequence[QueryVectors], settings: Settings) -> list[Answer]:
        """What is timed."""
        return self.cards.answers(queries, settings, self.masks)

    def with_vector(self, query: QueryVectors, number: int) -> QueryVectors:
        """The query with a dense vector."""
        vector = np.random.default_rng(number).standard_normal(self.dimensions).astype(np.float32)
        return replace(query, dense=vector)

    def check(self, queries: Sequence[QueryVectors], settings: Settings) -> Figures:
        """Compares answers with a plain sum over every document; DensliceError where they differ."""
        worst = 0.0
        stages = settings.theta > 0 or settings.candidates_from == "lexical"
        for query in queries:
            (answer,) = self.search([query], settings)
            scores = answer.lexical + answer.dense if len(answer.dense) else answer.lexical
            exact, defined = self.defined(query), self._drawn(query, answer.positions[:200])
            slack = float(query.weights.sum()) * 3 / 255 if not settings.rerank else 0.0
            self._compare(answer.positions, scores, exact, slack, complete=not stages)
            worst = max(worst, float(np.abs(exact[answer.positions[:200]] - defined).max(initial=0)))
        if worst > 1e-3:
            raise DensliceError(f"the card's sum differs from the definition by {worst:.2g}; nothing is timed")
        return {"checked": len(queries)}

    def check_near(self, query: QueryVectors, positions: Any, scores: Any, dense_only: bool) -> Figures:
        """The same for float16 arithmetic: scores may be off by a hundredth."""
        asked = replace(query, keys=query.keys[:0], weights=query.weights[:0]) if dense_only else query
        exact = self.defined(asked)
        off = np.abs(exact[positions] - scores).max() / max(1.0, float(np.abs(exact[positions]).max()))
        if off > 0.01 or np.sort(exact)[-len(positions)] - exact[positions].min() > 0.02 * np.abs(exact).max():
            raise DensliceError(f"PyTorch differs from the definition by {off:.2g}; nothing is timed")
        return {"checked": 1}

    def defined(self, query: QueryVectors) -> npt.NDArray[np.float32]:
        """Every document's score, by a plain sum in float64 over its row, and its dense vector."""
        cupy = self.cupy
        table = cupy.zeros(1 << 16, np.float64)
        table[cupy.asarray(query.keys)] = cupy.asarray(query.weights).astype(np.float64)
        found = []
        for part in self.parts:
            shape = (part.rows, self.collection.slices)
            weights = part.kept.weights.view(np.float16).reshape(shape)
            scores = (table[part.kept.keys.reshape(shape)] * weights).sum(axis=1) if len(query.keys) else 0.0
            if query.dense is not None:
                scores = scores + part.dense.astype(np.float32) @ cupy.asarray(query.dense)
            found.append(scores.astype(np.float32))
        result: npt.NDArray[np.float32] = cupy.concatenate(found).get()
        return result

    def _drawn(self, query: QueryVectors, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Documents' scores from the formula that drew them, in numpy."""
        keys, weights = self.collection.drawn(positions)
        table = np.zeros(1 << 16)
        table[query.keys] = query.weights
        scores = (table[keys] * weights).sum(axis=1)
        if query.dense is None:
            return scores
        each = self.parts[0].rows
        rows = [self.parts[p // each].dense[p % each].get().astype(np.float64) for p in positions.tolist()]
        return scores + np.array(rows).reshape(len(positions), -1) @ query.dense.astype(np.float64)

    def _compare(self, positions: Any, scores: Any, exact: Any, slack: float, complete: bool) -> None:
        close = 2e-6 * float(np.abs(exact).max()) + 1e-6
        wrong = float(np.abs(exact[positions] - scores).max(initial=0))
        if len(positions) < min(K, len(exact)) or wrong > close + slack or (np.diff(scores) > 0).any():
            raise DensliceError(f"an answer of {len(positions)} is wrong by {wrong:.3g}; nothing is timed")
        missed = np.sort(exact)[-K:] - np.sort(exact[positions])[-K:]
        if complete and float(missed.max()) > close + slack:
            raise DensliceError(f"a better document was missed, by {missed.max():.3g}; nothing is timed")


def table(figures: Sequence[Figures]) -> list[str]:
    """The figures as Markdown."""
    lines = [
        "| gates | slices | dimensions | | p50 ms | p95 ms | queries/s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in figures:
        rate = one.get("queries_a_second") or round(1000 / one["p50_ms"])
        cells = [one["gates"], one["slices"], one["dimensions"] or "", one["name"]]
        cells += [f"{one['p50_ms']:.3f}", f"{one['p95_ms']:.3f}", f"{rate:,}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def _ms(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def _dense(query: QueryVectors) -> npt.NDArray[np.float32]:
    assert query.dense is not None
    return query.dense
