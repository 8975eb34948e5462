"""A segment: some documents' postings, rows and texts in a folder that never changes once it is committed.

Keys are token ids: a slicing maps each token to its own (slice, gate) pair, so the token tells the pair, and
unlike the pair it stays the same when the vocabulary grows. docs/index-format.md describes each file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from denslice.errors import IndexFormatError
from denslice.records import Doc
from denslice.store.documents import Documents
from denslice.store.files import Array, check_contents, load_array, save_arrays, sync_folder
from denslice.store.manifest import SegmentEntry
from denslice.store.segment_writer import Batch
from denslice.vectors import Ints, csr

if TYPE_CHECKING:
    import scipy.sparse as sp

KEYS = "uint16 uint32"


@dataclass(frozen=True)
class Postings:
    """For each block of rows and each key in it, the rows that have the key, and their weights in 255 steps."""

    block: int  # rows a block holds
    block_starts: Array  # (blocks + 1,) uint32, into the lists
    keys: Array  # (lists,) uint32, rising within a block
    starts: Array  # (lists + 1,) uint32, into the postings
    maxima: Array  # (lists,) the largest weight of each list, the bits of a float16
    rows: Array  # (postings,) uint16, counted from the block's first row
    values: Array  # (postings,) uint8, steps of maximum / 255, rounded up


@dataclass(frozen=True)
class Rows:
    """Each document's keys, rising, and weights."""

    path: Path  # of the starts
    starts: Array  # (rows + 1,) uint32
    keys: Array  # (weights,) uint16 or uint32
    weights: Array  # (weights,) the bits of a float16

    def of(self, rows: Ints) -> sp.csr_array:
        """Some documents' weights as CSR, as wide as their largest key."""
        starts = self.starts[rows].astype(np.int64)
        sizes = self.starts[rows + 1] - starts
        if (sizes < 0).any() or (starts + sizes > len(self.keys)).any():
            raise IndexFormatError(f"{self.path}: holds places that do not rise; the index is damaged")
        pointers = np.concatenate([[0], np.cumsum(sizes)])
        at = np.arange(pointers[-1]) + np.repeat(starts - pointers[:-1], sizes)
        keys = self.keys[at].astype(np.int64)
        weights = self.weights[at].view(np.float16).astype(np.float32)
        return csr((weights, keys, pointers), (len(rows), int(keys.max(initial=0)) + 1))


class Segment:
    """A committed segment, open for reading; its arrays are mapped when first used."""

    def __init__(self, folder: Path, entry: SegmentEntry, block: int) -> None:
        self.folder = folder
        self.entry = entry
        self.block = block
        self.rows = entry.rows
        self.documents = Documents(folder)

    @cached_property
    def postings(self) -> Postings:
        """The posting lists."""
        blocks = self._array("block_starts", "uint32", -(-self.rows // self.block) + 1)
        keys = self._array("list_keys", "uint32")
        starts = self._array("list_starts", "uint32", len(keys) + 1)
        maxima = self._array("list_maxima", "float16", len(keys))
        rows = self._array("posting_rows", "uint16")
        values = self._array("posting_values", "uint8", len(rows))
        return Postings(self.block, blocks, keys, starts, maxima.view(np.uint16), rows, values)

    @cached_property
    def kept(self) -> Rows:
        """The weights the slicing kept."""
        return self._rows("row")

    @cached_property
    def lost(self) -> Rows:
        """The weights the slicing dropped."""
        return self._rows("lost")

    @cached_property
    def dense(self) -> Array | None:
        """The dense vectors (rows, dimensions) float16, where the encoder makes any."""
        if "dense.npy" not in self.entry.files:
            return None
        dense = load_array(self.folder / "dense.npy")
        if dense.ndim != 2 or dense.dtype != np.float16 or len(dense) != self.rows or not dense.flags.c_contiguous:
            raise IndexFormatError(f"{self.folder / 'dense.npy'}: holds {dense.dtype} {dense.shape}; it is damaged")
        return dense

    @cached_property
    def lengths(self) -> Array:
        """How many tokens of text each row has (rows,)."""
        return self._array("lengths", "uint32", self.rows)

    @cached_property
    def live(self) -> npt.NDArray[np.uint8] | None:
        """A 1 for each row that can be found and a 0 for each deleted one; None where all can be found."""
        if self.entry.deletions is None:
            return None
        bits = self._array(_version("deleted", self.entry.deletions), "uint8", -(-self.rows // 8))
        return 1 - np.unpackbits(bits, count=self.rows, bitorder="little")

    def ids(self, rows: Ints) -> list[str]:
        """The ids of these rows, which should be few."""
        starts, letters = self.id_arrays
        places = [(int(starts[row]), int(starts[row + 1])) for row in rows.tolist()]
        if any(start > end or end > len(letters) for start, end in places):
            raise IndexFormatError(f"{self.folder / 'id_starts.npy'}: holds places that do not rise; it is damaged")
        try:
            return [letters[start:end].tobytes().decode() for start, end in places]
        except UnicodeDecodeError as error:
            raise IndexFormatError(f"{self.folder / 'id_bytes.npy'}: {error}; the index is damaged") from error

    @cached_property
    def id_arrays(self) -> tuple[Array, Array]:
        """Where each row's id begins (rows + 1,) uint32, and the letters of all, as UTF-8."""
        return self._array("id_starts", "uint32", self.rows + 1), self._array("id_bytes", "uint8")

    def live_rows(self, ids: Sequence[str]) -> dict[str, int]:
        """The rows of those ids that can be found here."""
        rows = self.documents.rows(ids)
        if any(not 0 <= row < self.rows for row in rows.values()):
            raise IndexFormatError(f"{self.documents.path}: names a row that is not there; the index is damaged")
        return rows if self.live is None else {id: row for id, row in rows.items() if self.live[row]}

    def document_frequencies(self, keys: Ints) -> Ints:
        """How many documents had each token, before slicing; deleted ones do not count."""
        counts = _looked_up(keys, *self._frequencies)
        return counts if self._removed is None else counts - _looked_up(keys, *self._removed)

    @property
    def highest_key(self) -> int:
        """No token of its documents is above it."""
        return int(self._frequencies[0].max(initial=0))

    def without(self, rows: Ints, generation: int) -> SegmentEntry:
        """Writes down that these rows, too, are deleted from this generation on; the segment's new entry."""
        check_contents(
            self.folder, {name: file for name, file in self.entry.files.items() if name.startswith("deleted")}
        )
        live = np.ones(self.rows, np.uint8) if self.live is None else self.live.copy()
        live[rows] = 0
        gone = np.flatnonzero(live == 0)
        tokens = np.concatenate([self.kept.of(gone).indices, self.lost.of(gone).indices])
        keys, counts = np.unique(tokens, return_counts=True)
        arrays: dict[str, Array] = {
            "deleted": np.packbits(1 - live, bitorder="little"),
            "removed_keys": keys.astype(np.uint32),
            "removed": counts.astype(np.uint32),
        }
        before = {f"{_version(name, self.entry.deletions or 0)}.npy" for name in arrays}
        files = {name: file for name, file in self.entry.files.items() if name not in before}
        files |= save_arrays(self.folder, {_version(name, generation): array for name, array in arrays.items()})
        sync_folder(self.folder)
        length = int(self.lengths[live == 1].sum())
        return replace(self.entry, files=files, deleted=len(gone), deletions=generation, length=length)

    def live_batches(self, size: int, gone: Collection[int] = ()) -> Iterator[Batch]:
        """The documents that can be found, but for `gone` rows, with all that is stored of them; some at a time."""
        rows = np.arange(self.rows) if self.live is None else np.flatnonzero(self.live)
        rows = np.setdiff1d(rows, np.array(sorted(gone), dtype=np.int64), assume_unique=True)
        for start in range(0, len(rows), size):
            batch = rows[start : start + size]
            docs = self.documents.fetch(batch.tolist())
            lengths = self.lengths[batch].astype(np.int64)
            dense = None if self.dense is None else self.dense[batch]
            in_order = [docs[row] for row in batch.tolist()]
            yield Batch(in_order, self.kept.of(batch), self.lost.of(batch), lengths, dense)

    def live_docs(self, size: int) -> Iterator[Doc]:
        """The documents that can be found, in row order, read some at a time."""
        rows = np.arange(self.rows) if self.live is None else np.flatnonzero(self.live)
        for start in range(0, len(rows), size):
            batch = rows[start : start + size].tolist()
            docs = self.documents.fetch(batch)
            yield from (docs[row] for row in batch)

    @cached_property
    def _frequencies(self) -> tuple[Array, Array]:
        keys = self._array("frequency_keys", "uint32")
        return keys, self._array("frequencies", "uint32", len(keys))

    @cached_property
    def _removed(self) -> tuple[Array, Array] | None:
        if self.entry.deletions is None:
            return None
        keys = self._array(_version("removed_keys", self.entry.deletions), "uint32")
        return keys, self._array(_version("removed", self.entry.deletions), "uint32", len(keys))

    def _rows(self, name: str) -> Rows:
        starts = self._array(f"{name}_starts", "uint32", self.rows + 1)
        keys = self._array(f"{name}_keys", KEYS)
        weights = self._array(f"{name}_weights", "float16", len(keys)).view(np.uint16)
        return Rows(self.folder / f"{name}_starts.npy", starts, keys, weights)

    def _array(self, name: str, dtypes: str, length: int | None = None) -> Array:
        path = self.folder / f"{name}.npy"
        array = load_array(path)
        known = array.dtype.isnative and array.dtype.name in dtypes.split()
        if array.ndim != 1 or not known or (length is not None and len(array) != length):
            raise IndexFormatError(f"{path}: holds {array.dtype} {array.shape}, not what belongs there; it is damaged")
        return array


def _version(name: str, generation: int) -> str:
    return f"{name}-{generation:08d}"


def _looked_up(keys: Ints, known: Array, counts: Array) -> Ints:
    """The count of each key in a rising list of known ones, 0 for the rest."""
    if not len(known):
        return np.zeros(len(keys), dtype=np.int64)
    at = np.minimum(np.searchsorted(known, keys.astype(known.dtype)), len(known) - 1)
    return np.where(known[at] == keys, counts[at], 0).astype(np.int64)
