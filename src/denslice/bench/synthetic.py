"""Synthetic documents, drawn on the GPU: a formula gives a value and a gate for every slice of every document.

The host can draw any document again and check it by the definition, without storing the collection.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.search.query import QueryVectors
from denslice.store.manifest import BLOCK_ROWS
from denslice.store.segment import ForwardIndex, Postings

KEYS = 29_952  # slices × gates, as BERT's vocabulary without its first 570 tokens
WEIGHTS = 1 << 26  # of a segment, as `build` closes it

SOURCE = r"""
typedef unsigned int u32; typedef unsigned long long u64; typedef unsigned short u16; typedef unsigned char u8;

__device__ u64 mixed(u64 x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

__device__ float half_bits(u16 bits) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits)); return f; }

extern "C" __global__ void draw(u64 first, u64 count, u32 slices, u32 gates, const u32 *below, u64 seed,
                                u16 *keys, u16 *weights) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count * slices; i += gridDim.x * (u64)blockDim.x) {
        u64 random = mixed(mixed(seed) ^ (first * slices + i));
        u32 gate = 0, high = random >> 40;
        while (gate + 1 < gates && high >= below[gate]) gate++;
        float share = (float)(u32)(random & 0xffffff) / 16777216.0f;
        float weight = __fadd_rn(__fmul_rn(__fmul_rn(share, share), 2.9f), 0.1f);
        u16 bits;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(weight));
        keys[i] = (u16)((i % slices) * gates + gate);
        weights[i] = bits;
    }
}

extern "C" __global__ void largest(const u32 *sorted, u64 count, const u16 *weights, u32 slices, u32 gates,
                                   u32 *maxima) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (u64)blockDim.x) {
        u32 key = sorted[i] >> 16, bits = weights[(u64)(sorted[i] & 65535) * slices + key / gates];
        if (bits > maxima[key]) atomicMax(maxima + key, bits); // bits of numbers above 0 rise as the numbers do
    }
}

extern "C" __global__ void steps(const u32 *sorted, u64 count, const u16 *weights, u32 slices, u32 gates,
                                 const u32 *maxima, u16 *rows, u8 *values) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < count; i += gridDim.x * (u64)blockDim.x) {
        u32 row = sorted[i] & 65535, key = sorted[i] >> 16;
        double weight = half_bits(weights[(u64)row * slices + key / gates]), most = half_bits((u16)maxima[key]);
        rows[i] = (u16)row;
        values[i] = (u8)ceil(weight * 255 / most);
    }
}
"""


@dataclass(frozen=True)
class SyntheticCollection:
    """Documents with a weight in every slice; gates are uniform, or Zipf-like: the g-th is as likely as 1 / g."""

    docs: int
    slices: int
    zipf: bool = False
    seed: int = 7

    @property
    def gates(self) -> int:
        """Gates of a slice."""
        return KEYS // self.slices

    @property
    def below(self) -> npt.NDArray[np.uint32]:
        """For each gate the share of 2^24 that belongs to it and to those before it."""
        likely = 1 / np.arange(1, self.gates + 1) if self.zipf else np.ones(self.gates)
        return (np.cumsum(likely / likely.sum()) * (1 << 24)).astype(np.uint32)

    def drawn(self, docs: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return these documents' keys and weights (docs, slices), drawn in numpy as the GPU draws them."""
        with np.errstate(over="ignore"):
            at: Any = docs.astype(np.uint64)[:, None] * np.uint64(self.slices) + np.arange(self.slices, dtype=np.uint64)
            random = _mixed(_mixed(np.array([self.seed], np.uint64)) ^ at)
        gate = np.searchsorted(self.below[:-1], (random >> np.uint64(40)).astype(np.uint32), side="right")
        share = (random & np.uint64(0xFFFFFF)).astype(np.float32) / np.float32(1 << 24)
        weights = (share * share * np.float32(2.9) + np.float32(0.1)).astype(np.float16).astype(np.float32)
        return np.arange(self.slices) * self.gates + gate, weights

    def query(self, number: int, active: int | None = None) -> QueryVectors:
        """Return a query drawn as documents are; `active` is how many of its weights are kept, chosen at random."""
        keys, weights = (part[0] for part in self.drawn(np.array([self.docs + number])))
        chosen = np.random.default_rng(number).permutation(self.slices)[: active or self.slices]
        chosen.sort()
        return QueryVectors(keys[chosen], weights[chosen])


def _mixed(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


class SyntheticPart:
    """Some documents with all arrays of a segment, on the GPU."""

    def __init__(self, number: int, first: int, rows: int, postings: Postings, kept: ForwardIndex, dense: Any) -> None:
        self.name = f"part-{number}"
        self.first, self.rows, self.postings, self.kept, self.dense = first, rows, postings, kept, dense
        self.passage_starts = None  # each document is one passage

    def drop_postings(self) -> None:
        """Free the postings after they were uploaded."""
        p = self.postings
        self.postings = Postings(p.block, p.block_starts, p.keys, p.starts, p.maxima, p.rows[:0], p.values[:0])


class Drawing:
    """Draws a collection on the current GPU."""

    def __init__(self, collection: SyntheticCollection, dimensions: int = 0) -> None:
        import cupy

        self.cupy, self.collection, self.dimensions = cupy, collection, dimensions
        module = cupy.RawModule(code=SOURCE, options=("--std=c++14",))
        self.draw, self.largest, self.steps = (module.get_function(name) for name in ("draw", "largest", "steps"))
        self.below = cupy.asarray(collection.below)
        cupy.random.seed(collection.seed)

    def parts(self) -> list[SyntheticPart]:
        """Return the whole collection in parts of a segment's size."""
        each = min(1 << 18, WEIGHTS // self.collection.slices)
        starts = range(0, self.collection.docs, each)
        return [self._part(n, first, min(each, self.collection.docs - first)) for n, first in enumerate(starts)]

    def _part(self, number: int, first: int, rows: int) -> SyntheticPart:
        cupy, slices = self.cupy, self.collection.slices
        keys, weights = cupy.empty((rows, slices), np.uint16), cupy.empty((rows, slices), np.uint16)
        given = (np.uint64(first), np.uint64(rows), np.uint32(slices), np.uint32(self.collection.gates), self.below)
        self.draw((2048,), (256,), (*given, np.uint64(self.collection.seed), keys, weights))
        starts = cupy.arange(rows + 1, dtype=np.uint32) * np.uint32(slices)
        kept = ForwardIndex(Path(f"part-{number}"), starts, keys.reshape(-1), weights.reshape(-1))
        dense = None
        if self.dimensions:
            dense = cupy.random.standard_normal((rows, self.dimensions), dtype=np.float32)
            dense = (dense / np.float32(self.dimensions**0.5)).astype(np.float16)
        return SyntheticPart(number, first, rows, self._postings(keys, weights), kept, dense)

    def _postings(self, keys: Any, weights: Any) -> Postings:
        cupy = self.cupy
        spans = [slice(at, at + BLOCK_ROWS) for at in range(0, len(keys), BLOCK_ROWS)]
        blocks = [self._block(keys[span], weights[span]) for span in spans]
        lists = [len(block[0]) for block in blocks]
        sizes = np.concatenate([block[1] for block in blocks])
        return Postings(
            BLOCK_ROWS,
            np.concatenate([[0], np.cumsum(lists)]).astype(np.uint32),
            np.concatenate([block[0] for block in blocks]),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32),
            np.concatenate([block[2] for block in blocks]),
            cupy.concatenate([block[3] for block in blocks]),
            cupy.concatenate([block[4] for block in blocks]),
        )

    def _block(self, keys: Any, weights: Any) -> tuple[Any, ...]:
        """Return keys, list sizes, maxima, rows and values of one block."""
        cupy = self.cupy
        rows = cupy.arange(len(keys), dtype=np.uint32)[:, None]
        flat = ((keys.astype(np.uint32) << np.uint32(16)) | rows).ravel()
        flat.sort()
        bounds = cupy.searchsorted(flat, cupy.arange(KEYS + 1, dtype=np.uint32) << np.uint32(16)).get()
        count = len(flat)
        given = (flat, np.uint64(count), weights, np.uint32(self.collection.slices), np.uint32(self.collection.gates))
        maxima = cupy.zeros(KEYS, np.uint32)
        to_rows, values = cupy.empty(count, np.uint16), cupy.empty(count, np.uint8)
        self.largest((2048,), (256,), (*given, maxima))
        self.steps((2048,), (256,), (*given, maxima, to_rows, values))
        sizes = np.diff(bounds)
        there = np.flatnonzero(sizes)
        return there.astype(np.uint32), sizes[there], maxima.get()[there].astype(np.uint16), to_rows, values
