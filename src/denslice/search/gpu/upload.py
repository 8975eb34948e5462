"""What of an index a card holds: segments taken in from the folder as they are, and what that takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.errors import GpuMemoryError
from denslice.search.gpu import layout
from denslice.search.gpu.device import Device, Handle, Launch
from denslice.search.gpu.layout import ENTRY, GROUP, GpuPart

LEFT_OUT = ("rows", "dense")  # what a card can do without
A_DOCUMENT = 36  # bytes the search of a query works with: scores, candidates, finalists
A_BATCH = 32  # queries whose scores, 4 bytes a document and 4 for dense ones, are there at once
ARRANGING = 64  # threads; a warp a list


@dataclass(frozen=True)
class Held:
    """A segment on a card."""

    tiles: npt.NDArray[np.void]  # (tiles,) of TILE, with addresses; `first` counted from the segment's first row
    maxima: npt.NDArray[np.float32]  # the largest weight of each key
    postings: int
    sizes: dict[str, int]  # bytes on the card, by what they are for
    arrays: tuple[Handle, ...]  # None for what is left out; kept from being freed


def sizes_of(part: GpuPart, leave_out: Sequence[str], section_rows: int) -> dict[str, int]:
    """Bytes a segment will take, nearly: what fills up groups is estimated, at half a group a section."""
    postings, lists = len(part.postings.rows), len(part.postings.keys)
    sections = -(-part.postings.block // section_rows)
    groups = postings // GROUP + lists * sections // 2
    sizes = {"postings": groups * GROUP * 3 + lists * (sections * ENTRY.itemsize + 2) + 4 * _keys(part)}
    if "rows" not in leave_out:
        kept = part.kept
        sizes["rows"] = kept.starts.nbytes + kept.keys.nbytes + kept.weights.nbytes
    if part.dense is not None and "dense" not in leave_out:
        sizes["dense"] = part.rows * layout.dense_shape(part.dense.shape[1])[0] * 2
    sizes["search"] = part.rows * (A_DOCUMENT + A_BATCH * (8 if "dense" in sizes else 4))
    return sizes


def take_in(device: Device, launch: Launch, part: GpuPart, leave_out: Sequence[str], section_rows: int) -> Held:
    """A segment's postings arranged on the card, its rows and dense vectors beside them.

    Others can search meanwhile: each copy and the arranging take a turn of their own.
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
            shared = ARRANGING // 32 * 2 * 4 * -(-section_rows // 32)
            launch("arrange", (-(-lists // (ARRANGING // 32)), 1), ARRANGING, (*given, *sizes_given), shared)
        device.wait()
    of_lists = [device.put(listed.key_starts), blocks, entries, rows, values]
    of_rows, dense = _rows(device, part, leave_out), _dense(device, part, leave_out)
    arrays = [*of_lists, *of_rows, dense]
    tiles = layout.tiles(part.rows, p.block, section_rows)
    _address(device, tiles, arrays)
    sizes = {"postings": sum(array.nbytes for array in of_lists)}
    sizes["rows"] = sum(array.nbytes for array in of_rows if array is not None)
    sizes["dense"] = 0 if dense is None else dense.nbytes
    return Held(tiles, layout.key_maxima(p), len(p.rows), sizes, tuple(arrays))


def check_fits(device: Device, sizes: dict[str, int], cards: int) -> None:
    """Raises GpuMemoryError with the figures where the card has too little memory, and what would fit."""
    needed, free = sum(sizes.values()), device.free_bytes()
    if needed <= free:
        return
    parts = ", ".join(f"{name} {_gb(size)}" for name, size in sizes.items())
    ways = [
        f'a card\'s share shrinks with more cards (device="cuda:0,1,…", {-(-needed // max(1, free)) * cards} of these)'
    ]
    if sizes.get("rows"):
        less = _gb(needed - sizes["rows"])
        ways.insert(0, f'without rows it takes {less}, and search is slower (leave_out=["rows"], --leave-out rows)')
    ways.append("an index made with fewer slices is smaller")
    raise GpuMemoryError(
        f"{device.name} has {_gb(free)} free and the index takes {_gb(needed)} ({parts}): {'; '.join(ways)}"
    )


def _keys(part: GpuPart) -> int:
    return int(np.asarray(part.postings.keys).max(initial=0)) + 2


def _rows(device: Device, part: GpuPart, leave_out: Sequence[str]) -> list[Handle]:
    if "rows" in leave_out:
        return [None, None, None]
    kept = part.kept
    return [device.put(array) for array in (kept.starts, kept.keys, kept.weights)]


def _dense(device: Device, part: GpuPart, leave_out: Sequence[str]) -> Handle:
    """The vectors, each filled up with zeros to whole groups of 8 numbers."""
    if part.dense is None or "dense" in leave_out:
        return None
    dimensions = part.dense.shape[1]
    width = layout.dense_shape(dimensions)[0]
    if width == dimensions:
        return device.put(part.dense)
    wide = np.zeros((part.rows, width), dtype=np.float16)
    wide[:, :dimensions] = part.dense
    return device.put(wide)


def _address(device: Device, tiles: npt.NDArray[np.void], arrays: Sequence[Handle]) -> None:
    key_starts, list_blocks, entries, rows, values, row_starts, row_keys, row_weights, dense = arrays
    named = {"key_starts": key_starts, "list_blocks": list_blocks, "entries": entries, "rows": rows, "values": values}
    for name, array in (named | {"row_keys": row_keys, "row_weights": row_weights}).items():
        tiles[name] = device.address(array)
    tiles["entries"] += ENTRY.itemsize * len(list_blocks) * tiles["section"].astype(np.uint64)
    tiles["keys"] = len(key_starts) - 1
    if row_starts is not None:
        tiles["row_starts"] = device.address(row_starts) + 4 * tiles["first"].astype(np.uint64)
        tiles["weights"] = len(row_keys)
        tiles["wide_keys"] = row_keys.dtype.itemsize == 4
    if dense is not None:
        tiles["dense"] = device.address(dense) + dense.shape[1] * 2 * tiles["first"].astype(np.uint64)


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


Progress = Callable[[int], None]
