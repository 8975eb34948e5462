"""A snapshot: an index folder as it was at one commit, open for reading."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from denslice.errors import IndexFormatError, InputError
from denslice.slicing import Slicing
from denslice.store import lock
from denslice.store import manifest as manifests
from denslice.store.files import NEW, StoredFile, check_contents, check_sizes, load_array
from denslice.store.manifest import Manifest, PieceEntry, SegmentEntry, SlicingEntry
from denslice.store.segment import Segment
from denslice.store.vocabulary import Piece, Vocabulary
from denslice.vectors import Ints

SEGMENTS = "segments"
VOCABULARY = "vocabulary"
PLACES = "slicing.npy"
PARTS = (SEGMENTS, VOCABULARY, manifests.OLD)


class Snapshot:
    """One generation of an index. It stays as it is while writers go on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest, handle = manifests.read(folder)
        weakref.finalize(self, os.close, handle)
        self._check(check_sizes)
        block = self.manifest.block
        self.segments = tuple(Segment(folder / SEGMENTS / e.name, e, block) for e in self.manifest.segments)

    @property
    def docs(self) -> int:
        """How many documents can be found."""
        return self.manifest.docs

    @cached_property
    def words(self) -> Vocabulary:
        """The vocabulary the documents brought with them; empty where token ids are columns of ready vectors."""
        pieces: list[Piece] = []
        for entry in self.manifest.vocabulary:
            base = pieces[-1].base + len(pieces[-1]) if pieces else 0
            pieces.append(Piece.open(self.folder / VOCABULARY / entry.name, base))
        return Vocabulary(pieces)

    @cached_property
    def slicing(self) -> Slicing | None:
        """Where each token lies; None until the first documents settle it."""
        entry = self.manifest.slicing
        if entry.vocab is None:
            return None
        by_stride = entry.places is None
        slicing = Slicing.stride(entry.vocab, entry.slices, entry.skip) if by_stride else self._placed(entry)
        return slicing.grown(len(self.words))

    def _placed(self, entry: SlicingEntry) -> Slicing:
        places = load_array(self.folder / PLACES)
        if places.dtype != np.int32 or places.shape != (entry.vocab,):
            raise IndexFormatError(f"{self.folder / PLACES}: holds {places.dtype} {places.shape}; the index is damaged")
        try:
            return Slicing.checked(entry.kind, entry.slices, entry.skip, places)
        except InputError as error:
            raise IndexFormatError(f"{self.folder / PLACES}: {error}; the index is damaged") from error

    def document_frequencies(self, keys: Ints) -> Ints:
        """How many documents had each token."""
        return sum((s.document_frequencies(keys) for s in self.segments), np.zeros(len(keys), dtype=np.int64))

    def find(self, id: str) -> tuple[Segment, int] | None:
        """The segment and the row of the document with this id."""
        for segment in self.segments:
            if rows := segment.live_rows([id]):
                return segment, rows[id]
        return None

    def verify(self) -> None:
        """Reads every file in full; IndexFormatError names the first that is not what was written."""
        self._check(check_contents)

    def bytes(self) -> int:
        """What the index's files take on disk."""
        entries: list[SegmentEntry | PieceEntry] = [*self.manifest.segments, *self.manifest.vocabulary]
        places = self.manifest.slicing.places
        return sum(f.bytes for e in entries for f in e.files.values()) + (places.bytes if places else 0)

    def _check(self, check: Callable[[Path, Mapping[str, StoredFile]], None]) -> None:
        for entry in self.manifest.segments:
            check(self.folder / SEGMENTS / entry.name, entry.files)
        for piece in self.manifest.vocabulary:
            check(self.folder / VOCABULARY / piece.name, piece.files)
        if self.manifest.slicing.places:
            check(self.folder, {PLACES: self.manifest.slicing.places})


def create(folder: Path, manifest: Manifest) -> None:
    """Makes an empty index in a folder that is not there yet, is empty, or in which making one was interrupted."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_free(folder)
        with lock.writing(folder):
            _check_free(folder)  # still: someone else may have been faster
            for part in PARTS:
                (folder / part).mkdir(exist_ok=True)
            manifests.write(folder, manifest)
    except OSError as error:
        raise InputError(f"{folder}: cannot make an index here ({error.strerror})") from error


def _check_free(folder: Path) -> None:
    """InputError where something is in the folder that an interrupted `create` has not left."""
    if (folder / manifests.NAME).exists():
        raise InputError(f"{folder}: an index is already there")
    remains = {lock.NAME, manifests.NAME + NEW, *(part for part in PARTS if not any((folder / part).glob("*")))}
    if {path.name for path in folder.iterdir()} - remains:
        raise InputError(f"{folder}: the folder is not empty")


def sweep(folder: Path) -> None:
    """Removes what neither the last commit nor a manifest that some reader holds names.

    That is what replaced manifests alone named, and the remains of writers that stopped halfway. Which commit is
    the last is read anew: a writer that was interrupted cannot tell on which side of its commit it was.
    """
    manifest, handle = manifests.read(folder)
    os.close(handle)
    held = [manifest, *manifests.still_held(folder)]
    _keep_only(folder / SEGMENTS, [entry for one in held for entry in one.segments])
    _keep_only(folder / VOCABULARY, [entry for one in held for entry in one.vocabulary])
    if manifest.slicing.places is None:
        (folder / PLACES).unlink(missing_ok=True)


def _keep_only(part: Path, entries: Sequence[SegmentEntry | PieceEntry]) -> None:
    names = {entry.name for entry in entries}
    files = {part / entry.name / file for entry in entries for file in entry.files}
    for folder in part.iterdir():
        if folder.name not in names:
            shutil.rmtree(folder)
            continue
        for file in set(folder.iterdir()) - files:
            file.unlink()
