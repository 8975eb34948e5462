"""Upload of segments to a GPU, how many bytes they take there, and the error if they do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.errors import GpuMemoryError
from denslice.search.gpu import layout
from denslice.search.gpu.device import Device, Handle, Launch
from denslice.search.gpu.layout import ENTRY, GROUP, SegmentArrays
from denslice.store.dense_vectors import DenseVectors

BYTES_PER_DOC = 36  # working memory of a query for each document: scores, candidates, finalists
QUERIES_IN_FLIGHT = 32  # queries whose scores exist at a time, 4 bytes a document and 4 more with dense vectors
BYTES_PER_PRODUCT = 4  # of a passage and a query
ARRANGE_THREADS = 64  # a warp arranges a list


@dataclass(frozen=True)
class GpuSegment:
    """A segment on a GPU."""

    tiles: npt.NDArray[np.void]  # (tiles,) of TILE, with addresses; `first` counts from the segment's first row
    maxima: npt.NDArray[np.float32]  # the largest weight of each key
    postings: int
    sizes: dict[str, int]  # bytes on the GPU by purpose
    arrays: tuple[Handle, ...]  # keeps the memory alive; None for arrays that are not uploaded
    passage_tiles: npt.NDArray[np.void] | None  # of the dense vectors; None if there are none, or one for each row


def sizes_of(part: SegmentArrays, leave_out: Sequence[str], section_rows: int, pooled: bool) -> dict[str, int]:
    """Return about how many bytes a segment will take: half a group of each section is assumed to be padding.

    `pooled` says whether any document on the GPU has several passages, whose products are then kept for each query.
    """
    postings, lists, passages = len(part.postings.rows), len(part.postings.keys), layout.passage_count(part)
    sections = -(-part.postings.block // section_rows)
    groups = postings // GROUP + lists * sections // 2
    keys = int(np.asarray(part.postings.keys).max(initial=0)) + 2
    sizes = {"postings": groups * GROUP * 3 + lists * (sections * ENTRY.itemsize + 2) + 4 * keys}
    if "rows" not in leave_out:
        kept = part.kept
        sizes["rows"] = kept.starts.nbytes + kept.keys.nbytes + kept.weights.nbytes
    if part.dense is not None and "dense" not in leave_out:
        sizes["dense"] = passages * layout.dense_shape(part.dense.shape[1])[0] * 2
        if part.passage_starts is not None:
            sizes["dense"] += part.passage_starts.nbytes + part.passage_shares.nbytes
    sizes["search"] = part.rows * (BYTES_PER_DOC + QUERIES_IN_FLIGHT * (8 if "dense" in sizes else 4))
    if pooled and "dense" in sizes:
        sizes["search"] += passages * QUERIES_IN_FLIGHT * BYTES_PER_PRODUCT
    return sizes


def upload_segment(
    device: Device, launch: Launch, part: SegmentArrays, leave_out: Sequence[str], section_rows: int
) -> GpuSegment:
    """Upload the postings, rows and dense vectors of a segment, and arrange the postings on the GPU.

    Other threads can search meanwhile, because each step takes a turn of its own.
    """
    p = part.postings
    lists, listed, sections = len(p.keys), layout.directory(p), -(-p.block // section_rows)
    order, starts = device.put(listed.order), device.put(np.asarray(p.starts).astype(np.uint32))
    from_rows, from_values, blocks = device.put(p.rows), device.put(p.values), device.put(listed.blocks)
    block_starts = device.put(np.asarray(p.block_starts).astype(np.uint32))
    maxima, sizes_given = device.put(p.maxima), (lists, sections, section_rows)
    with device.using():
        entries = device.zeros(sections * lists * ENTRY.itemsize, np.uint8)
        pieces = device.zeros(sections * lists, np.uint32)
        given: tuple[Any, ...] = (order, starts, from_rows, maxima, blocks, block_starts, entries, pieces)
        if lists:
            launch("measure", (-(-lists // 8), 1), 256, (*given, *sizes_given), 0)
        before = device.running_sum(pieces)
        total = int(device.get(before[-1:])[0])
        rows, values = device.empty(total * GROUP, np.uint16), device.empty(total * GROUP, np.uint8)
        given = (order, starts, from_rows, from_values, blocks, block_starts, entries, before, rows, values)
        if lists:
            warps = ARRANGE_THREADS // 32
            shared = warps * 2 * 4 * -(-section_rows // 32)
            launch("arrange", (-(-lists // warps), 1), ARRANGE_THREADS, (*given, *sizes_given), shared)
        device.wait()
    of_lists = [device.put(listed.key_starts), blocks, entries, rows, values]
    of_rows, of_passages = _rows(device, part, leave_out), _passages(device, part, leave_out)
    arrays = [*of_lists, *of_rows, *of_passages]
    tiles = layout.tiles(part.rows, p.block, section_rows)
    _address(device, tiles, arrays)
    passage_tiles = _vector_tiles(device, of_passages, layout.tile_rows(section_rows))
    sizes = {"postings": sum(array.nbytes for array in of_lists)}
    sizes["rows"] = sum(array.nbytes for array in of_rows if array is not None)
    sizes["dense"] = sum(array.nbytes for array in of_passages if array is not None)
    return GpuSegment(tiles, layout.key_maxima(p), len(p.rows), sizes, tuple(arrays), passage_tiles)


def check_fits(device: Device, sizes: dict[str, int], gpus: int) -> None:
    """Raise GpuMemoryError if the GPU has too little memory, with the sizes and what would help."""
    needed, free = sum(sizes.values()), device.free_bytes()
    if needed <= free:
        return
    parts = ", ".join(f"{name} {_gb(size)}" for name, size in sizes.items())
    more = -(-needed // max(1, free)) * gpus
    ways = [f'{more} such GPUs have enough memory (device="cuda:0,1,…")', "an index with fewer slices is smaller"]
    if sizes.get("rows"):
        less = _gb(needed - sizes["rows"])
        ways.insert(0, f'without rows it takes {less}, but search is slower (leave_out=["rows"] or --leave-out rows)')
    raise GpuMemoryError(
        f"{device.name} has {_gb(free)} free and the index takes {_gb(needed)} ({parts}): {'; '.join(ways)}"
    )


def _rows(device: Device, part: SegmentArrays, leave_out: Sequence[str]) -> list[Handle]:
    if "rows" in leave_out:
        return [None, None, None]
    kept = part.kept
    return [device.put(array) for array in (kept.starts, kept.keys, kept.weights)]


def _passages(device: Device, part: SegmentArrays, leave_out: Sequence[str]) -> list[Handle]:
    """Upload the dense vectors of passages and, if a document has several, the starts and shares of passages."""
    if part.dense is None or "dense" in leave_out:
        return [None, None, None]
    if part.passage_starts is None:
        return [_dense(device, part.dense), None, None]
    return [_dense(device, part.dense), device.put(part.passage_starts), device.put(part.passage_shares)]


def _dense(device: Device, vectors: DenseVectors) -> Handle:
    """Upload dense vectors in the order of their passages, each padded with zeros to whole groups of 8 numbers."""
    count, dimensions = vectors.shape
    width = layout.dense_shape(dimensions)[0]
    if width == dimensions:
        return device.put(vectors[:])
    wide = np.zeros((count, width), dtype=np.float16)
    wide[:, :dimensions] = vectors[:]
    return device.put(wide)


def _vector_tiles(device: Device, of_passages: Sequence[Handle], rows: int) -> npt.NDArray[np.void] | None:
    dense, starts, _ = of_passages
    if starts is None:
        return None
    tiles = layout.passage_tiles(len(dense), rows)
    tiles["dense"] = device.address(dense) + dense.shape[1] * 2 * tiles["first"].astype(np.uint64)
    return tiles


def _address(device: Device, tiles: npt.NDArray[np.void], arrays: Sequence[Handle]) -> None:
    key_starts, list_blocks, entries, rows, values, row_starts, row_keys, row_weights, dense, starts, shares = arrays
    named = {"key_starts": key_starts, "list_blocks": list_blocks, "entries": entries, "rows": rows, "values": values}
    for name, array in (named | {"row_keys": row_keys, "row_weights": row_weights}).items():
        tiles[name] = device.address(array)
    tiles["entries"] += ENTRY.itemsize * len(list_blocks) * tiles["section"].astype(np.uint64)
    tiles["keys"] = len(key_starts) - 1
    if row_starts is not None:
        tiles["row_starts"] = device.address(row_starts) + 4 * tiles["first"].astype(np.uint64)
        tiles["weights"] = len(row_keys)
        tiles["wide_keys"] = row_keys.dtype.itemsize == 4
    if starts is not None:
        tiles["dense"], tiles["passage_shares"] = device.address(dense), device.address(shares)
        tiles["passage_starts"] = device.address(starts) + 4 * tiles["first"].astype(np.uint64)
    elif dense is not None:
        tiles["dense"] = device.address(dense) + dense.shape[1] * 2 * tiles["first"].astype(np.uint64)


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"
