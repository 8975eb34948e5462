"""Changing an index: read → encode → densify → segment, a batch at a time, in memory that does not grow with the input.

Nothing a Build writes can be seen by readers until its manifest is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from denslice import encoders
from denslice.densify import split_by_slice
from denslice.encoders import Encoder
from denslice.encoders.bm25 import Bm25
from denslice.encoders.mini import Mini
from denslice.errors import InputError
from denslice.records import Doc, checked_docs, checked_id
from denslice.slicing import Slicing
from denslice.store.files import check_contents, save_array, sync_folder
from denslice.store.manifest import Manifest, PieceEntry, SegmentEntry
from denslice.store.segment import Segment
from denslice.store.segment_writer import Batch as StoredBatch
from denslice.store.segment_writer import SegmentWriter
from denslice.store.snapshot import PLACES, SEGMENTS, VOCABULARY, Snapshot
from denslice.store.vocabulary import Growth, Vocabulary, merged_words, write_piece
from denslice.vectors import Encoded, Floats, csr, stacked

if TYPE_CHECKING:
    import scipy.sparse as sp

BATCH = 2_048  # documents encoded, stored or deleted at a time, or fewer where an encoder likes it
SAMPLE = 20_000  # documents a slicing, and the average length, are learned from
SAMPLE_CHARACTERS = 64_000_000
SEGMENT_DOCS = 1 << 18
SEGMENT_WEIGHTS = 1 << 26
MUCH_DELETED = 0.2  # share of deleted rows from which a segment is rewritten by a merge
MANY_WORN = 64  # so many segments to rewrite, and an add does it: many small adds must not slow down every search
SMALL_PIECE = 4  # a vocabulary piece at most this many times as large as the new words is rewritten with them

Batch = tuple[list[Doc], Encoded]
Progress = Callable[[int], None]


class Build:
    """One commit in the making: new segments, new words, and the manifest that will name them."""

    def __init__(self, snapshot: Snapshot, progress: Progress | None = None) -> None:
        self.snapshot = snapshot
        self.manifest = snapshot.manifest
        self.slicing = snapshot.slicing
        self.words = Growth(snapshot.words)
        self.progress = progress
        self.names = self.manifest.next_name
        self.old = dict(enumerate(snapshot.segments))  # those that stay, by position
        self.gone: dict[int, set[int]] = {}  # rows to delete, by position of the segment
        self.written: list[Segment] = []
        self.writer: SegmentWriter | None = None
        self.fresh_ids: set[str] = set()

    def add_docs(self, docs: Iterable[Doc | Mapping[str, Any]]) -> int:
        """Encodes and stores documents; how many."""
        if isinstance(docs, str | Mapping | Doc) or not isinstance(docs, Iterable):
            raise InputError(f"documents come in a list, not as one {type(docs).__name__}")
        stream = checked_docs(docs)
        first = list(sample_docs(stream))
        encoder = self._encoder(first)
        return self._add(encode_batches(chain(first, stream), encoder))

    def add_vectors(
        self, ids: Sequence[str], weights: sp.csr_array, texts: Sequence[str] | None, dense: Floats | None
    ) -> int:
        """Stores ready vectors; how many."""
        return self._add(ready_batches(ids, weights, texts, dense))

    def add_encoded(self, batches: Iterable[Batch]) -> int:
        """Stores documents that were encoded elsewhere, over this vocabulary; how many."""
        return self._add(iter(batches))

    def take_words(self, words: Iterable[str]) -> int:
        """Words join the vocabulary in this order, before any that documents bring; how many there are then."""
        for word in words:
            self.words.place(word)
        return len(self.words)

    def settle(self, sample: sp.csr_array, dimensions: int | None) -> None:
        """Settles the slicing by a sample of encoded documents, and the width of dense vectors, before any document."""
        self._slice_by(sample)
        self.manifest = replace(self.manifest, dimensions=dimensions)

    def delete(self, ids: Iterable[str]) -> int:
        """Deletes the documents with these ids; how many there were."""
        if isinstance(ids, str):
            raise InputError(f"ids come in a list, not as one string: [{ids!r}]")
        distinct = list(dict.fromkeys(map(checked_id, ids)))
        for start in range(0, len(distinct), BATCH):
            self._drop(distinct[start : start + BATCH])
        return sum(len(rows) for rows in self.gone.values())

    def merge(self) -> int:
        """Rewrites segments that are small or have many deleted rows as few full ones; how many were rewritten."""
        worn = [at for at, segment in self.old.items() if _is_worn(segment)]
        if len(worn) == 1 and not self.old[worn[0]].entry.deleted:
            return 0
        for at in worn:  # damage must not be rewritten with checksums that fit it
            check_contents(self.old[at].folder, self.old[at].entry.files)
        for at in worn:
            for batch in self.old.pop(at).live_batches(BATCH, self.gone.pop(at, ())):
                self._store(batch)
        return len(worn)

    def finish(self) -> Manifest:
        """Completes every file; the manifest to commit, which is the old one if nothing changed."""
        self._flush()
        same_docs = not self.written and not self.gone and len(self.old) == len(self.snapshot.segments)
        if same_docs and not self.words.new_words and self.manifest == self.snapshot.manifest:
            return self.snapshot.manifest
        generation = self.manifest.generation + 1
        segments = [self._entry(at, segment, generation) for at, segment in self.old.items()]
        segments += [segment.entry for segment in self.written]
        vocabulary = self._write_words()
        for part in (SEGMENTS, VOCABULARY, "."):
            sync_folder(self.snapshot.folder / part)
        live = tuple(entry for entry in segments if entry.docs)
        return self.manifest.next_generation(segments=live, vocabulary=vocabulary, next_name=self.names)

    def close(self) -> None:
        """Lets go of a segment begun; what was written is for a sweep to remove."""
        if self.writer:
            self.writer.close()

    def _entry(self, at: int, segment: Segment, generation: int) -> SegmentEntry:
        if at not in self.gone:
            return segment.entry
        return segment.without(np.array(sorted(self.gone[at])), generation)

    def _encoder(self, first: list[Doc]) -> Encoder:
        length = sum(segment.length for segment in self.manifest.segments)
        average = average_length(self.manifest, first, length, self.manifest.docs)
        return encoders.load(self.manifest.encoder, self.manifest.encoder_options, self.words, average)

    def _add(self, batches: Iterator[Batch]) -> int:
        batches = self._told(batches)
        if self.slicing is None:
            batches = self._settle_slicing(batches)
        added = 0
        for docs, encoded in batches:
            self._append(docs, encoded)
            added += len(docs)
        if sum(_is_worn(segment) for segment in self.old.values()) >= MANY_WORN:
            self.merge()
        return added

    def _told(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The batches, each told as soon as it is encoded: what comes after takes little time."""
        for docs, encoded in batches:
            if self.progress:
                self.progress(len(docs))
            yield docs, encoded

    def _settle_slicing(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Learns the slicing from the first documents, then gives all batches on."""
        first: list[Batch] = []
        while sum(len(docs) for docs, _ in first) < SAMPLE and (batch := next(batches, None)):
            first.append(batch)
        if not first:
            return iter(())
        self._slice_by(stacked([encoded.lexical for _, encoded in first]))
        return chain(first, batches)

    def _slice_by(self, sample: sp.csr_array) -> None:
        """Makes the slicing from the sample's first documents; of a growing vocabulary, from the words they had."""
        sample = sample[:SAMPLE]
        if not self.manifest.encoder_options.get("vocab"):
            sample = _narrowed(sample, self.manifest.slicing.skip)
        entry = self.manifest.slicing
        self.slicing = Slicing.made(entry.kind, sample, entry.slices, entry.skip, entry.seed)
        entry = replace(entry, vocab=self.slicing.vocab)
        if entry.kind != "stride":
            entry = replace(entry, places=save_array(self.snapshot.folder / PLACES, self.slicing.slice_of))
        self.manifest = replace(self.manifest, slicing=entry)

    def _append(self, docs: list[Doc], encoded: Encoded) -> None:
        assert self.slicing is not None  # settled before the first batch
        self._take_places([doc.id for doc in docs])
        self.slicing = self.slicing.grown(encoded.lexical.shape[1])
        kept, lost = split_by_slice(encoded.lexical, self.slicing)
        self._check_dimensions(encoded.dense)
        lengths = np.zeros(len(docs), np.int64) if encoded.lengths is None else encoded.lengths
        self._store(StoredBatch(docs, kept, lost, lengths, encoded.dense))

    def _check_dimensions(self, dense: Floats | None) -> None:
        """All documents of an index have dense vectors of one width, or none has any."""
        found = None if dense is None else dense.shape[1]
        settled = bool(self.manifest.segments or self.written or self.writer)
        if settled and found != self.manifest.dimensions:
            width = self.manifest.dimensions
            raise InputError(f"dense vectors of {found or 0} dimensions do not fit an index with {width or 0}")
        self.manifest = replace(self.manifest, dimensions=found)

    def _store(self, batch: StoredBatch) -> None:
        writer = self._writer()
        try:
            writer.add(batch)
        except UnicodeEncodeError:
            bad = next(doc.id for doc in batch.docs if not _is_unicode(doc))
            raise InputError(f"document {bad!r} holds half of a surrogate pair, which is not text") from None
        if len(writer.ids) >= SEGMENT_DOCS or writer.weights >= SEGMENT_WEIGHTS:
            self._flush()

    def _take_places(self, ids: list[str]) -> None:
        """Makes room for new documents: older ones with their ids go. An id given twice in one add is an error."""
        for id in ids:
            if id in self.fresh_ids:
                raise InputError(f"document id {id!r} is given twice")
            self.fresh_ids.add(id)
        for segment in self.written:
            if there := segment.documents.rows(ids):
                raise InputError(f"document id {min(there)!r} is given twice")
        self._drop(ids)

    def _drop(self, ids: list[str]) -> None:
        for at, segment in self.old.items():
            if rows := segment.live_rows(ids):
                self.gone.setdefault(at, set()).update(rows.values())

    def _writer(self) -> SegmentWriter:
        if self.writer is None:
            self.writer = SegmentWriter(
                self.snapshot.folder / SEGMENTS / self._name(), self.manifest.block, self.manifest.filterable
            )
        return self.writer

    def _flush(self) -> None:
        if self.writer:
            entry = self.writer.finish()
            self.written.append(Segment(self.writer.folder, entry, self.manifest.block))
            self.writer = None
            self.fresh_ids.clear()

    def _write_words(self) -> tuple[PieceEntry, ...]:
        """The vocabulary's pieces with the new words in it, small pieces folded into one."""
        entries, pieces, new = list(self.manifest.vocabulary), list(self.words.base.pieces), self.words.new_words
        if not new:
            return self.manifest.vocabulary
        words = list(new)
        while pieces and len(pieces[-1]) <= SMALL_PIECE * len(words):
            entry = entries.pop()
            check_contents(self.snapshot.folder / VOCABULARY / entry.name, entry.files)
            words = merged_words([pieces.pop()]) + words
        folder = self.snapshot.folder / VOCABULARY / self._name()
        folder.mkdir()
        files = write_piece(folder, words)
        sync_folder(folder)
        return (*entries, PieceEntry(folder.name, len(words), files))

    def _name(self) -> str:
        name = f"{self.names:08d}"
        self.names += 1
        return name


def _is_worn(segment: Segment) -> bool:
    """Whether a merge should rewrite the segment: it is not half full, or much of it is deleted."""
    entry = segment.entry
    small = entry.docs < SEGMENT_DOCS // 2 and entry.weights < SEGMENT_WEIGHTS // 2
    return small or entry.deleted > MUCH_DELETED * entry.rows


def _is_unicode(doc: Doc) -> bool:
    try:
        (doc.title + doc.text + doc.meta_json()).encode()
    except UnicodeEncodeError:
        return False
    return True


def average_length(manifest: Manifest, first: Sequence[Doc], length: int = 0, docs: int = 0) -> float | None:
    """The average length of documents that are there (their words, their number) and of the first new ones.

    None where the encoder does not weigh by length.
    """
    encoder = encoders.load(manifest.encoder, manifest.encoder_options, Growth(Vocabulary()))
    if not isinstance(encoder, Bm25 | Mini):
        return None
    length += encoder.total_length(doc.contents for doc in first)
    return length / (docs + len(first)) if length else 1.0


def sample_docs(docs: Iterator[Doc]) -> Iterator[Doc]:
    """The first documents: as many as the average length of an add is measured on."""
    characters = 0
    for doc in islice(docs, SAMPLE):
        yield doc
        characters += len(doc.contents)
        if characters > SAMPLE_CHARACTERS:
            return


def encode_batches(docs: Iterator[Doc], encoder: Encoder) -> Iterator[Batch]:
    """The documents with their vectors, as many at a time as the encoder likes."""
    while batch := list(islice(docs, min(encoder.at_once, BATCH))):
        yield batch, encoder.encode_docs([_read(doc, encoder.reads) for doc in batch])


def _read(doc: Doc, reads: str) -> object:
    if reads == "text":
        return doc.contents
    if doc.vector is None:
        raise InputError(f"document {doc.id!r} has no vector, and this index holds ready vectors")
    return doc.vector


def _narrowed(weights: sp.csr_array, least: int) -> sp.csr_array:
    """The same rows, no wider than the last column they use, nor narrower than `least` where they were not."""
    width = max(int(weights.indices.max(initial=-1)) + 1, min(least, weights.shape[1]))
    return csr((weights.data, weights.indices, weights.indptr), (weights.shape[0], width))


def ready_batches(
    ids: Sequence[str], weights: sp.csr_array, texts: Sequence[str] | None, dense: Floats | None
) -> Iterator[Batch]:
    """Ready vectors as documents, some at a time; there must be as many of each."""
    if isinstance(ids, str):
        raise InputError(f"ids come in a list, not as one string: [{ids!r}]")
    if len(ids) != weights.shape[0] or (texts is not None and len(texts) != len(ids)):
        told = "" if texts is None else f" and {len(texts):,} texts"
        raise InputError(f"{len(ids):,} ids for {weights.shape[0]:,} vectors{told}")
    if dense is not None and len(dense) != len(ids):
        raise InputError(f"{len(ids):,} ids for {len(dense):,} dense vectors")
    for start in range(0, len(ids), BATCH):
        batch = range(start, min(start + BATCH, len(ids)))
        docs = list(checked_docs((Doc(ids[i], "" if texts is None else texts[i]) for i in batch), start))
        yield docs, Encoded(weights[start : start + BATCH], None if dense is None else dense[start : start + BATCH])
