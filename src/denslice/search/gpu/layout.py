"""The layout of an index on a GPU: tiles of documents, posting lists by key, and the structs of kernels.cu in numpy.

A posting list of a block is cut into up to eight sections of rows. A tile is one section of one block, which one
thread block scores. The postings of a section fill whole groups of 8, which one thread loads at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from denslice.errors import IndexFormatError
from denslice.store.dense_vectors import DenseVectors
from denslice.store.segment import ForwardIndex, Postings
from denslice.vectors import Array

# The first ten are macros of kernels.cu.
SECTIONS = 8  # sections of a block, at most
CHUNK = 128  # documents that a warp reads together, and whose largest score is kept
BINS = 1 << 11  # bins of a histogram of scores: 64 for each power of two
UNITS = 1 << 10  # pieces of posting lists that a thread block has in shared memory at a time, 16 bytes each
SIEVE = 1 << 15  # bits for the keys of a query: a key whose bit is not set is not in the query
KEYS_EACH = 2  # keys that a thread looks up at once
AHEAD = 2  # units that a warp loads before it adds the first
FEW = 1 << 12  # up to FEW candidates are all scored exactly at once
NEAR = 1 << 12  # finalists near the k-th score that fit shared memory
RANKED = 1 << 15  # finalists that a GPU sorts; if there are more, the host sorts them
LARGEST_SCORE = 2**31 - 1  # the largest score of stage one, in units
HIGHEST = 0xFFFFFFFF
GROUP = 8  # postings that a thread loads at once
TILE_ROWS = 8_192  # preferred rows of a tile: their scores take 32 KB, so that several tiles share a multiprocessor
SHORT_SECTION = 48  # postings that a section of a list has on average, at least; otherwise there are fewer sections

ENTRY = np.dtype([("start", "<u4"), ("groups", "<u2"), ("maximum", "<u2")])
TILE = np.dtype(
    [(name, "<u8") for name in ("key_starts", "list_blocks", "entries", "rows", "values", "row_starts", "row_keys")]
    + [(name, "<u8") for name in ("row_weights", "dense", "passage_starts", "passage_shares", "weights")]
    + [(name, "<u4") for name in ("keys", "first", "count")]
    + [("block", "<u2"), ("section", "<u2"), ("blocks", "<u2"), ("wide_keys", "<u2"), ("products", "<u4")]
)
QUERY = np.dtype(
    [("unit", "<f8"), ("reach", "<f8"), ("unseen", "<f8"), ("lowest", "<f4"), ("first_key", "<u4"), ("keys", "<u4")]
    + [(name, "<u4") for name in ("strong", "k", "most", "margin", "spare", "flags")]
    + [(name, "<u4") for name in ("candidates", "finalists", "returned", "first_edge", "least")]
    + [("dense_lowest", "<u4"), ("dense_highest", "<u4"), ("cut", "<u8"), ("hold", "<u4"), ("best", "<f4")]
)
EVERY_CANDIDATE, DENSE_OF_CANDIDATES, BOUNDS, EXTRA = 1, 2, 4, 8  # flags of a query


class SegmentArrays(Protocol):
    """The documents that are uploaded to a GPU: a segment, or documents that are not in a folder."""

    @property
    def rows(self) -> int:
        """Return the number of documents."""

    @property
    def postings(self) -> Postings:
        """Return their posting lists."""

    @property
    def kept(self) -> ForwardIndex:
        """Return their weights."""

    @property
    def dense(self) -> DenseVectors | None:
        """Return the dense vectors of their passages."""

    @property
    def passage_starts(self) -> Array | None:
        """Return the first passage of each document, (rows + 1,) uint32, or None if each is one passage."""

    @property
    def passage_shares(self) -> Array:
        """Return the part of its document that each passage has, (passages,) float32, if some have several."""


@dataclass(frozen=True)
class Directory:
    """The posting lists of a segment, sorted by key and then by block."""

    order: npt.NDArray[np.uint32]  # (lists,) the number of the list at each place
    key_starts: npt.NDArray[np.uint32]  # (keys + 1,) where the lists of each key begin
    blocks: npt.NDArray[np.uint16]  # (lists,) the block of the list at each place


def directory(postings: Postings) -> Directory:
    """Return the order of a segment's lists on a GPU. Raise IndexFormatError if the lists are damaged."""
    keys, starts = np.asarray(postings.keys), np.asarray(postings.starts).astype(np.int64)
    ends = np.asarray(postings.block_starts).astype(np.int64)
    if (np.diff(starts) < 0).any() or starts[-1] > len(postings.rows) or (np.diff(ends) < 0).any():
        raise IndexFormatError("the starts of posting lists are not sorted; the index is damaged")
    if ends[0] != 0 or ends[-1] != len(keys):
        raise IndexFormatError("some posting lists belong to no block; the index is damaged")
    order = np.argsort(keys, kind="stable").astype(np.uint32)
    key_starts = np.searchsorted(keys[order], np.arange(int(keys.max(initial=0)) + 2)).astype(np.uint32)
    blocks = np.repeat(np.arange(len(ends) - 1, dtype=np.uint16), np.diff(ends))
    return Directory(order, key_starts, blocks[order])


def key_maxima(postings: Postings) -> npt.NDArray[np.float32]:
    """Return the largest weight of each key in a segment, (largest key + 1,)."""
    keys = np.asarray(postings.keys)
    largest = np.zeros(int(keys.max(initial=0)) + 1, dtype=np.float32)
    np.maximum.at(largest, keys, np.asarray(postings.maxima).view(np.float16).astype(np.float32))
    return largest


def rows_of_sections(block: int, lists: int, postings: int, most: int) -> int:
    """Return how many rows of a block a section has, at most `most` if possible.

    Fewer rows make more tiles and spread the work more evenly, unless the sections of lists become too short.
    """
    rows = max(-(-block // SECTIONS), min(block, TILE_ROWS))
    while 2 * rows <= min(block, most) and postings * rows < SHORT_SECTION * lists * block:
        rows *= 2
    return rows


def tile_rows(section_rows: int) -> int:
    """Return how many places a section takes on a GPU."""
    return -(-section_rows // CHUNK) * CHUNK


def tiles(docs: int, block: int, section_rows: int) -> npt.NDArray[np.void]:
    """Return the tiles of a segment without addresses, (tiles,) of TILE. `first` counts from the segment's start."""
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


def passage_count(part: SegmentArrays) -> int:
    """Return the number of passages of a segment, which has as many dense vectors."""
    return part.rows if part.passage_starts is None else int(part.passage_starts[-1])


def passage_tiles(passages: int, rows: int) -> npt.NDArray[np.void]:
    """Return tiles of this many passages without addresses. Only the last has less than `rows`."""
    made = np.zeros(-(-passages // rows), TILE)
    made["first"] = np.arange(len(made)) * rows
    made["count"] = np.minimum(rows, passages - made["first"].astype(np.int64))
    return made


def packed_mask(mask: npt.NDArray[np.uint8], segment_tiles: npt.NDArray[np.void], rows: int) -> npt.NDArray[np.uint32]:
    """Return a bit for each place of a segment's tiles, from a 0 or 1 for each of its rows."""
    places = np.zeros((len(segment_tiles), rows), dtype=np.uint8)
    for at, tile in enumerate(segment_tiles):
        places[at, : tile["count"]] = mask[tile["first"] : tile["first"] + tile["count"]]
    return np.packbits(places.ravel(), bitorder="little").view(np.uint32)


def dense_shape(dimensions: int) -> tuple[int, int, int]:
    """Return the width of a dense vector on a GPU, the threads that read it, and the groups of 8 that each reads."""
    groups = -(-dimensions // GROUP)
    lanes = max((lanes for lanes in (1, 2, 4, 8, 16, 32) if groups % lanes == 0 and groups // lanes <= 8), default=32)
    if lanes < 8:  # with few threads for each row, reads are scattered: more threads are faster, even if some idle
        lanes = min(32, 1 << (groups - 1).bit_length())
    return groups * GROUP, lanes, -(-groups // lanes)
