"""How an index lies on a card: tiles of documents, posting lists by key, and the structs of kernels.cu as numpy types.

A posting list of a block is cut into up to eight sections of rows; a tile is what one group of warps scores: one
section of one block. Every section's postings fill whole groups of 8, which one thread loads at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from denslice.errors import IndexFormatError
from denslice.store.segment import ForwardIndex, Postings
from denslice.vectors import Array

SECTIONS = 8  # of a block, at most
CHUNK = 128  # documents whose largest score is kept: what a warp looks at together
BINS = 1 << 11  # of scores: 64 for each power of two
UNITS = 1 << 10  # pieces of posting lists the warps of a tile have before them, 16 bytes of shared memory each
SIEVE = 1 << 15  # bits for a query's keys: a row's key whose bit is not set is not in the query
KEYS_EACH = 2  # keys a thread looks up at once
AHEAD = 2  # units a warp loads before it adds the first
FEW = 1 << 12  # candidates that are all scored exactly at once; of more, the best first
NEAR = 1 << 12  # finalists near the k-th score that fit shared memory
RANKED = 1 << 15  # finalists a card puts in order; more go to the host as they are
LARGEST_SCORE = 2**31 - 1  # of stage one, in units
HIGHEST = 0xFFFFFFFF
GROUP = 8  # postings a thread loads at once
TILE_ROWS = 8_192  # wanted: its scores take 32 KB, so that several tiles share a multiprocessor
SHORT = 48  # lists that would be shorter than this in a section are cut into fewer
Words = npt.NDArray[np.uint32]

ENTRY = np.dtype([("start", "<u4"), ("groups", "<u2"), ("maximum", "<u2")])
TILE = np.dtype(
    [(name, "<u8") for name in ("key_starts", "list_blocks", "entries", "rows", "values", "row_starts", "row_keys")]
    + [
        ("row_weights", "<u8"),
        ("dense", "<u8"),
        ("weights", "<u8"),
        ("keys", "<u4"),
        ("first", "<u4"),
        ("count", "<u4"),
    ]
    + [("block", "<u2"), ("section", "<u2"), ("blocks", "<u2"), ("wide_keys", "<u2"), ("unused", "<u4")]
)
QUERY = np.dtype(
    [("unit", "<f8"), ("reach", "<f8"), ("unseen", "<f8"), ("lowest", "<f4"), ("first_key", "<u4"), ("keys", "<u4")]
    + [(name, "<u4") for name in ("strong", "k", "most", "margin", "spare", "flags")]
    + [(name, "<u4") for name in ("candidates", "finalists", "returned", "first_edge", "least")]
    + [("dense_lowest", "<u4"), ("dense_highest", "<u4"), ("cut", "<u8"), ("hold", "<u4"), ("unused", "<u4")]
)
EVERY_CANDIDATE, DENSE_OF_CANDIDATES, BOUNDS, EXTRA = 1, 2, 4, 8  # flags of a query


class GpuPart(Protocol):
    """What a card takes in: a segment, or some documents that never were in a folder."""

    @property
    def rows(self) -> int:
        """How many documents."""
        ...

    @property
    def postings(self) -> Postings:
        """Their posting lists."""
        ...

    @property
    def kept(self) -> ForwardIndex:
        """Their weights."""
        ...

    @property
    def dense(self) -> Array | None:
        """Their dense vectors, (rows, dimensions) float16."""
        ...


@dataclass(frozen=True)
class Directory:
    """A segment's posting lists by key, and within a key by block."""

    order: Words  # (lists,) the list at each place
    key_starts: Words  # (keys + 1,) where each key's lists begin
    blocks: npt.NDArray[np.uint16]  # (lists,) the block of the list at each place


def directory(postings: Postings) -> Directory:
    """The order of a segment's lists on a card; IndexFormatError where its numbers cannot be."""
    keys, starts = np.asarray(postings.keys), np.asarray(postings.starts).astype(np.int64)
    ends = np.asarray(postings.block_starts).astype(np.int64)
    if (np.diff(starts) < 0).any() or starts[-1] > len(postings.rows) or (np.diff(ends) < 0).any():
        raise IndexFormatError("posting lists do not rise; the index is damaged")
    if ends[0] != 0 or ends[-1] != len(keys):
        raise IndexFormatError("posting lists belong to no block; the index is damaged")
    order = np.argsort(keys, kind="stable").astype(np.uint32)
    key_starts = np.searchsorted(keys[order], np.arange(int(keys.max(initial=0)) + 2)).astype(np.uint32)
    blocks = np.repeat(np.arange(len(ends) - 1, dtype=np.uint16), np.diff(ends))
    return Directory(order, key_starts, blocks[order])


def key_maxima(postings: Postings) -> npt.NDArray[np.float32]:
    """The largest weight of each key in a segment, (largest key + 1,)."""
    keys = np.asarray(postings.keys)
    largest = np.zeros(int(keys.max(initial=0)) + 1, dtype=np.float32)
    np.maximum.at(largest, keys, np.asarray(postings.maxima).view(np.float16).astype(np.float32))
    return largest


def rows_of_sections(block: int, lists: int, postings: int, most: int) -> int:
    """How many rows of a block a section has, at most `most` if that can be.

    Fewer rows make more tiles, and work that is spread more evenly, unless lists become too short to be worth it.
    """
    rows = max(-(-block // SECTIONS), min(block, TILE_ROWS))
    while 2 * rows <= min(block, most) and postings * rows < SHORT * lists * block:
        rows *= 2
    return rows


def tile_rows(section_rows: int) -> int:
    """How many places of a card a section of so many rows takes."""
    return -(-section_rows // CHUNK) * CHUNK


def tiles(docs: int, block: int, section_rows: int) -> npt.NDArray[np.void]:
    """A segment's tiles with all but addresses: (tiles,) of TILE, `first` counted from the segment's first row."""
    starts = [
        (b, section, b * block + section * section_rows)
        for b in range(-(-docs // block))
        for section in range(-(-block // section_rows))
    ]
    made = np.zeros(len(starts), TILE)
    for at, (b, section, first) in enumerate(starts):
        made[at]["block"], made[at]["section"], made[at]["first"] = b, section, first
        made[at]["count"] = max(0, min(section_rows, (b + 1) * block - first, docs - first))
    made["blocks"] = -(-docs // block)
    return made[made["count"] > 0]


def packed(mask: npt.NDArray[np.uint8], segment_tiles: npt.NDArray[np.void], rows: int) -> Words:
    """A bit for each place of a segment's tiles, from a 0 or 1 for each of its rows."""
    places = np.zeros((len(segment_tiles), rows), dtype=np.uint8)
    for at, tile in enumerate(segment_tiles):
        places[at, : tile["count"]] = mask[tile["first"] : tile["first"] + tile["count"]]
    return np.packbits(places.ravel(), bitorder="little").view(np.uint32)


def dense_shape(dimensions: int) -> tuple[int, int, int]:
    """Numbers a vector takes on a card, threads that read one, and groups of 8 numbers each of these reads."""
    groups = -(-dimensions // GROUP)
    lanes = max((lanes for lanes in (1, 2, 4, 8, 16, 32) if groups % lanes == 0 and groups // lanes <= 8), default=32)
    if lanes < 8:  # few threads a row read scattered pieces: better some of many that idle
        lanes = min(32, 1 << (groups - 1).bit_length())
    return groups * GROUP, lanes, -(-groups // lanes)
