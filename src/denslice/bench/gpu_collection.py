"""A synthetic collection on a GPU, whose results are checked against plain sums over every document."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from denslice.bench.synthetic import Drawing, SyntheticCollection, SyntheticPart
from denslice.errors import DensliceError
from denslice.options import SearchOptions
from denslice.search.gpu.cuda import cuda_devices
from denslice.search.gpu.gpu_searcher import GpuSearcher
from denslice.search.gpu.gpu_share import GpuAnswer
from denslice.search.query import NO_MASK, QueryVectors
from denslice.store.segment import Segment
from denslice.vectors import Floats, Ints

HEAVIEST = 3.0  # no weight of these documents is above it


class Loaded:
    """A collection on the GPU, ready to be searched and checked."""

    def __init__(self, collection: SyntheticCollection, dimensions: int, device: str) -> None:
        import cupy

        self.cupy, self.collection, self.dimensions = cupy, collection, dimensions
        self.parts: list[SyntheticPart] = Drawing(collection, dimensions).parts()
        cupy.cuda.Device().synchronize()
        drawn = time.perf_counter()
        segments = cast(Sequence[Segment], self.parts)  # they have every array that is uploaded
        self.searcher = GpuSearcher(cuda_devices(device), segments=segments).load()
        for part in self.parts:
            part.drop_postings()
        cupy.get_default_memory_pool().free_all_blocks()
        self.seconds = time.perf_counter() - drawn
        told = self.searcher.info()
        self.bytes_a_posting = told["postings_bytes"] / max(1, told["postings"])
        self.masks = [NO_MASK] * len(self.parts)

    def __enter__(self) -> Loaded:
        return self

    def __exit__(self, *error: object) -> None:
        del self.searcher, self.parts
        gc.collect()
        self.cupy.get_default_memory_pool().free_all_blocks()

    def search(self, queries: Sequence[QueryVectors], settings: SearchOptions) -> list[GpuAnswer]:
        """Answer the queries: this is what is timed."""
        return self.searcher.answers(queries, settings, self.masks)

    def with_vector(self, query: QueryVectors, number: int) -> QueryVectors:
        """Return the query with a dense vector."""
        vector = np.random.default_rng(number).standard_normal(self.dimensions).astype(np.float32)
        return replace(query, dense=vector)

    def check(self, queries: Sequence[QueryVectors], settings: SearchOptions, k: int) -> None:
        """Compare answers with a plain sum over every document; raise DensliceError if they differ."""
        complete = settings.theta == 0 and settings.candidates_from == "both"
        for query in queries:
            (answer,) = self.search([query], settings)
            scores = answer.lexical + answer.dense if len(answer.dense) else answer.lexical
            exact, sample = self.defined(query), answer.positions[:200]
            rounding = 0.0 if settings.rerank else float(query.weights.sum()) * HEAVIEST / 255
            close = 2e-6 * float(np.abs(exact).max()) + 1e-6 + rounding
            wrong = float(np.abs(exact[answer.positions] - scores).max(initial=0))
            off = float(np.abs(exact[sample] - self._drawn(query, sample)).max(initial=0))
            if len(scores) < min(k, len(exact)) or (np.diff(scores) > 0).any() or wrong > close or off > 1e-3:
                raise DensliceError(f"an answer of {len(scores)} is wrong by {max(wrong, off):.3g}; nothing is timed")
            missed = float((_best(exact, k) - _best(exact[answer.positions], k)).max())
            if complete and missed > close:
                raise DensliceError(f"a better document was missed, by {missed:.3g}; nothing is timed")

    def check_near(self, query: QueryVectors, positions: Ints, scores: Floats, complete: bool) -> None:
        """Do the same for scores computed in float16."""
        exact = self.defined(query)
        close = 0.01 * float(np.abs(exact[positions]).max())
        wrong = float(np.abs(exact[positions] - scores).max())
        missed = float((_best(exact, len(positions)) - np.sort(exact[positions])).max()) if complete else 0.0
        if max(wrong, missed) > close:
            raise DensliceError(f"PyTorch's answer is wrong by {wrong:.3g}, {missed:.3g}; nothing is timed")

    def defined(self, query: QueryVectors) -> Floats:
        """Return every document's score: a plain sum in float64 over its row, and its dense score."""
        cupy = self.cupy
        table = cupy.zeros(1 << 16, np.float64)
        table[cupy.asarray(query.keys)] = cupy.asarray(query.weights).astype(np.float64)
        found = []
        for part in self.parts:
            shape = (part.rows, self.collection.slices)
            weights = part.kept.weights.view(np.float16).reshape(shape)
            scores: Any = cupy.zeros(part.rows, np.float64)
            if len(query.keys):
                scores += (table[part.kept.keys.reshape(shape)] * weights).sum(axis=1)
            if query.dense is not None:
                scores += part.dense.astype(np.float32) @ cupy.asarray(query.dense)
            found.append(scores.astype(np.float32))
        every: Floats = cupy.concatenate(found).get()
        return every

    def _drawn(self, query: QueryVectors, positions: Ints) -> npt.NDArray[Any]:
        """Return documents' scores from the formula that drew them, in numpy."""
        keys, weights = self.collection.drawn(positions)
        table = np.zeros(1 << 16)
        table[query.keys] = query.weights
        scores: npt.NDArray[Any] = (table[keys] * weights).sum(axis=1)
        if query.dense is not None:
            each = self.parts[0].rows
            rows = [self.parts[p // each].dense[p % each].get().astype(np.float64) for p in positions.tolist()]
            scores = scores + np.array(rows).reshape(len(positions), -1) @ query.dense.astype(np.float64)
        return scores


def _best(scores: Floats, k: int) -> Floats:
    """Return the k highest scores, in rising order."""
    return np.sort(np.partition(scores, len(scores) - k)[len(scores) - k :])
