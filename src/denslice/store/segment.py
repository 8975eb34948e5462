"""A segment: the postings, forward index, dense vectors and texts of some documents, immutable once committed.

Keys are token ids: a slicing maps each token to a (slice, gate) pair of its own, so a token id stands for the pair, and
it stays the same when the vocabulary grows. docs/index-format.md describes each file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from denslice.records import Doc, Place
from denslice.store.container import ENDING, Container, write_container
from denslice.store.dense_vectors import DenseVectors
from denslice.store.docs_sqlite import DOCS_FILE, Documents
from denslice.store.files import StoredFile, damaged
from denslice.store.folder import Folder
from denslice.store.manifest import FileEntry, SegmentEntry, new_name
from denslice.store.segment_writer import DENSE_FILE, LEXICAL_FILE, StoredBatch
from denslice.vectors import Array, Floats, Ints, Passages, csr, spread

if TYPE_CHECKING:
    import scipy.sparse as sp

SEGMENTS, DELETIONS = "segments", "deletions"
KEY_TYPES = "uint16 uint32"


@dataclass(frozen=True)
class Postings:
    """The posting lists: for each block of rows and each of its keys, the rows with the key and their weights."""

    block: int  # rows of a block
    block_starts: Array  # (blocks + 1,) uint32, into the lists
    keys: Array  # (lists,) uint32, ascending within a block
    starts: Array  # (lists + 1,) uint32, into the postings
    maxima: Array  # (lists,) the largest weight of each list, the bits of a float16
    rows: Array  # (postings,) uint16, counted from the block's first row
    values: Array  # (postings,) uint8, steps of maximum / 255, rounded up

    def count(self, keys: Ints) -> int:
        """Return how many postings these keys, each of them once, have."""
        return sum(self._count(keys, int(a), int(b)) for a, b in pairwise(self.block_starts))

    def _count(self, keys: Ints, first: int, end: int) -> int:
        """Return how many postings of the lists from `first` to `end`, those of one block, the keys have."""
        known = self.keys[first:end]
        at = np.searchsorted(known, keys).clip(max=max(0, len(known) - 1))
        lists = first + at[known[at] == keys] if len(known) else at[:0]
        return int((self.starts[lists + 1].astype(np.int64) - self.starts[lists]).sum())


@dataclass(frozen=True)
class ForwardIndex:
    """The forward index: each document's keys, ascending, and their weights."""

    path: Path  # of the file, for error messages
    starts: Array  # (rows + 1,) uint32
    keys: Array  # (weights,) uint16 or uint32
    weights: Array  # (weights,) the bits of a float16

    def of(self, rows: Ints) -> sp.csr_array:
        """Return the weights of these rows as CSR, as wide as their largest key."""
        starts = self.starts[rows].astype(np.int64)
        sizes = self.starts[rows + 1] - starts
        if (sizes < 0).any() or (starts + sizes > len(self.keys)).any():
            raise damaged(self.path, "the offsets of its rows do not ascend")
        pointers = np.concatenate([[0], np.cumsum(sizes)])
        at = np.arange(pointers[-1]) + np.repeat(starts - pointers[:-1], sizes)
        keys = self.keys[at].astype(np.int64)
        weights = self.weights[at].view(np.float16).astype(np.float32)
        return csr((weights, keys, pointers), (len(rows), int(keys.max(initial=0)) + 1))


class Segment:
    """A segment open for reading. All its files are opened at once, so that a rename cannot redirect them."""

    def __init__(self, folder: Folder, entry: SegmentEntry, block: int, part: str = SEGMENTS) -> None:
        """Open the segment in the subfolder `part` of an index folder."""
        place = f"{part}/{entry.name}"
        self.entry = entry
        self.name = entry.name  # unique among the segments of all indexes
        self.block = block
        self.rows = entry.rows
        self.path = folder.path / place
        self.words = Container.mapped(folder, f"{place}/{LEXICAL_FILE}", _listed(self.path, entry, LEXICAL_FILE))
        dense = entry.files.get(DENSE_FILE)
        self.vectors = None if dense is None else Container.mapped(folder, f"{place}/{DENSE_FILE}", dense)
        self.documents = Documents(folder, f"{place}/{DOCS_FILE}", _listed(self.path, entry, DOCS_FILE))
        self.deletions = _deletions(folder, entry)

    def with_deletions_of(self, folder: Folder, entry: SegmentEntry) -> Segment:
        """Return the same segment with the deleted bitmap of another commit."""
        if entry.deletions == self.entry.deletions:
            return self
        other = copy(self)
        for name in ("live", "live_passages", "_removed"):
            vars(other).pop(name, None)
        other.entry, other.deletions = entry, _deletions(folder, entry)
        return other

    @cached_property
    def postings(self) -> Postings:
        """The posting lists."""
        blocks = self.words.array("block_starts", "uint32", -(-self.rows // self.block) + 1)
        keys = self.words.array("list_keys", "uint32")
        starts = self.words.array("list_starts", "uint32", len(keys) + 1)
        maxima = self.words.array("list_maxima", "float16", len(keys))
        rows = self.words.array("posting_rows", "uint16")
        values = self.words.array("posting_values", "uint8", len(rows))
        return Postings(self.block, blocks, keys, starts, maxima.view(np.uint16), rows, values)

    @cached_property
    def kept(self) -> ForwardIndex:
        """The weights that the slicing kept."""
        return self._rows("row")

    @cached_property
    def lost(self) -> ForwardIndex:
        """The weights that the slicing dropped."""
        return self._rows("lost")

    @cached_property
    def passage_starts(self) -> Array | None:
        """The number of the first passage of each row (rows + 1,) uint32, or None if each row is one passage."""
        if self.entry.passages is None:
            return None
        starts = self.words.array("passage_starts", "uint32", self.rows + 1)
        if starts[0] != 0 or starts[-1] != self.entry.passages or (starts[1:] <= starts[:-1]).any():
            raise damaged(self.words.path, "the numbers of its passages do not ascend")
        return starts

    @cached_property
    def dense(self) -> DenseVectors | None:
        """The dense vectors of the passages, if the encoder makes any."""
        count = self.rows if self.entry.passages is None else self.entry.passages
        return None if self.vectors is None else DenseVectors.read(self.vectors, count)

    @cached_property
    def passage_shares(self) -> Array:
        """The part of its document's text that each passage has (passages,) float32."""
        return self.words.array("passage_shares", "float32", self.entry.passages)

    @cached_property
    def passage_counts(self) -> Ints | None:
        """The number of passages of each row (rows,), or None if each row is one passage."""
        if self.passage_starts is None:
            return None
        starts = self.passage_starts.astype(np.int64)
        return starts[1:] - starts[:-1]

    @cached_property
    def live_passages(self) -> int:
        """The number of passages of live documents."""
        if self.passage_counts is None:
            return self.entry.docs
        return int(self.passage_counts[self.live_row_numbers()].sum())

    def passage_numbers(self, rows: Ints) -> Ints:
        """Return the numbers of the passages of these rows, which are the rows of `dense`."""
        starts = self.passage_starts
        return rows if starts is None else spread(starts[rows].astype(np.int64), starts[rows + 1].astype(np.int64))

    def passage_tokens(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the tokens of all passages of these rows as positions in `kept`, and where those of each begin."""
        assert self.passage_starts is not None
        numbers = self.passage_numbers(rows)
        begins, ends = self._token_ranges(numbers)
        counts = ends - begins
        row_of = np.repeat(rows, self.passage_starts[rows + 1].astype(np.int64) - self.passage_starts[rows])
        found = self._passage_tokens[1][spread(begins, ends)] + np.repeat(
            self.kept.starts[row_of].astype(np.int64), counts
        )
        if (found >= np.repeat(self.kept.starts[row_of + 1], counts)).any():
            raise damaged(self.words.path, "a passage has a token that its document does not have")
        return found, np.concatenate([[0], np.cumsum(counts)])

    def _token_ranges(self, passages: Ints) -> tuple[Ints, Ints]:
        """Return where the tokens of these passages begin and end."""
        starts, tokens = self._passage_tokens
        begins, ends = starts[passages].astype(np.int64), starts[passages + 1].astype(np.int64)
        if (ends < begins).any() or ends.max(initial=0) > len(tokens):
            raise damaged(self.words.path, "the tokens of its passages do not ascend")
        return begins, ends

    def _passage_weights(self, rows: Ints) -> Floats:
        """Return the weights of the tokens that `passage_tokens` returns, of 0 where they are not known."""
        begins, ends = self._token_ranges(self.passage_numbers(rows))
        if "passage_weights" not in self.words:  # an earlier version wrote the segment, or its documents are sliced
            return np.zeros((ends - begins).sum(), np.float32)
        weights = self.words.array("passage_weights", "float16", len(self._passage_tokens[1]))
        return weights[spread(begins, ends)].astype(np.float32)

    def _counted_keys(self, rows: Ints) -> Ints:
        """Return the kept tokens of these rows, each once for every passage that has it."""
        if self.passage_counts is None:
            alone: Ints = self.kept.of(rows).indices.astype(np.int64)
            return alone
        is_cut = self.passage_counts[rows] > 1
        tokens, _ = self.passage_tokens(rows[is_cut])
        return np.concatenate([self.kept.of(rows[~is_cut]).indices, self.kept.keys[tokens].astype(np.int64)])

    def places(self, rows: Ints) -> dict[int, list[Place]]:
        """Return the places of the passages of these rows, each of which has several."""
        found = self.documents.places(rows.tolist())
        starts = self.passage_starts
        for row in rows.tolist():
            if starts is None or len(found.get(row, ())) != starts[row + 1] - starts[row]:
                raise damaged(self.documents.path, "places of passages are missing")
        return found

    @cached_property
    def _passage_tokens(self) -> tuple[Array, Array]:
        starts = self.words.array("passage_token_starts", "uint32", (self.entry.passages or 0) + 1)
        return starts, self.words.array("passage_tokens", KEY_TYPES)

    def _passages(self, rows: Ints) -> Passages | None:
        """Return the passages of these rows."""
        if self.passage_starts is None:
            return None
        counts = self.passage_starts[rows + 1].astype(np.int64) - self.passage_starts[rows]
        tokens, starts = self.passage_tokens(rows)
        keys = self.kept.keys[tokens].astype(np.int64)
        shape = (len(starts) - 1, int(keys.max(initial=0)) + 1)
        cut = self.places(rows[counts > 1])
        places = [cut.get(row, ()) for row in rows.tolist()]
        weights = csr((self._passage_weights(rows), keys, starts), shape)
        return Passages(np.concatenate([[0], np.cumsum(counts)]), weights, places)

    @cached_property
    def lengths(self) -> Array:
        """The number of tokens of each row (rows,)."""
        return self.words.array("lengths", "uint32", self.rows)

    @cached_property
    def live(self) -> npt.NDArray[np.uint8] | None:
        """A 1 for each live row and a 0 for each deleted one, or None if all are live."""
        if self.deletions is None:
            return None
        bits = self.deletions.array("deleted", "uint8", -(-self.rows // 8))
        return 1 - np.unpackbits(bits, count=self.rows, bitorder="little")

    def ids(self, rows: Ints) -> list[str]:
        """Return the ids of these rows, one by one in Python."""
        starts, letters = self.id_arrays
        places = [(int(starts[row]), int(starts[row + 1])) for row in rows.tolist()]
        if any(start > end or end > len(letters) for start, end in places):
            raise damaged(self.words.path, "the offsets of its ids do not ascend")
        try:
            return [letters[start:end].tobytes().decode() for start, end in places]
        except UnicodeDecodeError as error:
            raise damaged(self.words.path, str(error)) from error

    @cached_property
    def id_arrays(self) -> tuple[Array, Array]:
        """The offset of each row's id (rows + 1,) uint32, and the UTF-8 bytes of all ids."""
        return self.words.array("id_starts", "uint32", self.rows + 1), self.words.array("id_bytes", "uint8")

    def live_rows(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the live rows of those ids that the segment has."""
        rows = self.documents.rows(ids)
        if any(not 0 <= row < self.rows for row in rows.values()):
            raise damaged(self.documents.path, f"has a row outside of 0 to {self.rows - 1:,}")
        return rows if self.live is None else {id: row for id, row in rows.items() if self.live[row]}

    def passage_frequencies(self, keys: Ints) -> Ints:
        """Return how many passages of live documents have each token; one that the slicing dropped counts once."""
        counts = _counts_of(keys, *self._frequencies)
        return counts if self._removed is None else counts - _counts_of(keys, *self._removed)

    @property
    def highest_key(self) -> int:
        """The largest token id of its documents."""
        return int(self._frequencies[0].max(initial=0))

    def without(self, rows: Ints, folder: Path) -> SegmentEntry:
        """Write a deleted bitmap that includes these rows, and return the segment's new entry.

        If no row is left, nothing is written: the commit drops the segment.
        """
        live = np.ones(self.rows, np.uint8) if self.live is None else self.live.copy()
        live[rows] = 0
        gone = np.flatnonzero(live == 0)
        if len(gone) == self.rows:
            return replace(self.entry, deleted=self.rows, length=0)
        tokens = np.concatenate([self._counted_keys(gone), self.lost.of(gone).indices])
        keys, counts = np.unique(tokens, return_counts=True)
        arrays: dict[str, Array] = {
            "deleted": np.packbits(1 - live, bitorder="little"),
            "removed_keys": keys.astype(np.uint32),
            "removed": counts.astype(np.uint32),
        }
        name = new_name()
        stored = write_container(folder / f"{name}{ENDING}", arrays)
        length = int(self.lengths[live == 1].sum())
        return replace(self.entry, deleted=len(gone), deletions=FileEntry(name, stored), length=length)

    def verify(self) -> None:
        """Read every file in full; raise IndexFormatError naming the first that has changed."""
        for container in (self.words, self.vectors, self.deletions):
            if container is not None:
                container.verify()
        self.documents.verify()

    def live_row_numbers(self) -> Ints:
        """Return the live rows."""
        return np.arange(self.rows) if self.live is None else np.flatnonzero(self.live)

    def live_batches(self, size: int) -> Iterator[StoredBatch]:
        """Yield the live documents in batches, with all that is stored of them."""
        return self.batches(self.live_row_numbers(), size)

    def batches(self, rows: Ints, size: int) -> Iterator[StoredBatch]:
        """Yield the documents of these rows in batches, with all that is stored of them."""
        for start in range(0, len(rows), size):
            batch = rows[start : start + size]
            docs = self.documents.fetch(batch.tolist())
            lengths = self.lengths[batch].astype(np.int64)
            dense = None if self.dense is None else self.dense[self.passage_numbers(batch)]
            in_order = [docs[row] for row in batch.tolist()]
            passages = self._passages(batch)
            yield StoredBatch(in_order, self.kept.of(batch), self.lost.of(batch), lengths, dense, passages)

    def live_docs(self, size: int) -> Iterator[Doc]:
        """Yield the live documents in row order, fetched in batches."""
        rows = self.live_row_numbers().tolist()
        for start in range(0, len(rows), size):
            batch = rows[start : start + size]
            yield from map(self.documents.fetch(batch).__getitem__, batch)

    @cached_property
    def _frequencies(self) -> tuple[Array, Array]:
        keys = self.words.array("frequency_keys", "uint32")
        return keys, self.words.array("frequencies", "uint32", len(keys))

    @cached_property
    def _removed(self) -> tuple[Array, Array] | None:
        if self.deletions is None:
            return None
        keys = self.deletions.array("removed_keys", "uint32")
        return keys, self.deletions.array("removed", "uint32", len(keys))

    def _rows(self, name: str) -> ForwardIndex:
        starts = self.words.array(f"{name}_starts", "uint32", self.rows + 1)
        keys = self.words.array(f"{name}_keys", KEY_TYPES)
        weights = self.words.array(f"{name}_weights", "float16", len(keys)).view(np.uint16)
        return ForwardIndex(self.words.path, starts, keys, weights)


def _listed(path: Path, entry: SegmentEntry, name: str) -> StoredFile:
    if name not in entry.files:
        raise damaged(path, f"the manifest lists no {name}")
    return entry.files[name]


def _deletions(folder: Folder, entry: SegmentEntry) -> Container | None:
    if entry.deletions is None:
        return None
    return Container.loaded(folder, f"{DELETIONS}/{entry.deletions.name}{ENDING}", entry.deletions.file)


def _counts_of(keys: Ints, known: Array, counts: Array) -> Ints:
    """Return the count of each key, given the ascending keys that have one; 0 for all others."""
    if not len(known):
        return np.zeros(len(keys), dtype=np.int64)
    at = np.minimum(np.searchsorted(known, keys.astype(known.dtype)), len(known) - 1)
    return np.where(known[at] == keys, counts[at], 0).astype(np.int64)
