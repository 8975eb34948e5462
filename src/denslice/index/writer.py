"""Writer: documents and changes to segments, and segments to the manifest of one commit.

A Writer works without a lock on the commit that it started from. Only `finish` needs the write lock: it reads what
other writers have committed meanwhile, and adapts the new segments to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from denslice import encoders
from denslice.densify import split_by_slice, without_skipped
from denslice.encoders import DocEncoder, Encoder
from denslice.errors import InputError
from denslice.index import doc_batches
from denslice.index.deepening import Pace, giving_way, rows_to_deepen
from denslice.index.doc_batches import CutDoc, DocBatch, cut_docs, encode_batches
from denslice.index.kept_encoder import KeptEncoder
from denslice.index.known_passages import KnownPassages, known_passages
from denslice.records import Doc, GivenDocs, Place, Progress, checked_docs, checked_ids
from denslice.slicing import Slicing
from denslice.store import tiers
from denslice.store.byte_planes import on_grid
from denslice.store.container import ENDING, write_container
from denslice.store.files import sync_folder
from denslice.store.followed_files import FollowedRoot, read_list, write_list
from denslice.store.manifest import (
    CLUSTERS,
    FULL,
    LEVELS,
    PASSAGES,
    QUICK,
    FileEntry,
    Manifest,
    RootEntry,
    SegmentEntry,
    SlicingEntry,
    new_name,
)
from denslice.store.segment import DELETIONS, SEGMENTS, Segment
from denslice.store.segment_writer import SegmentWriter, StoredBatch
from denslice.store.snapshot import FOLLOWED, VOCABULARY, WRITING, Snapshot, session
from denslice.store.vocabulary import Growth, word_arrays
from denslice.vectors import Encoded, Ints, Passages, csr, no_weights, stacked

if TYPE_CHECKING:
    import scipy.sparse as sp

SAMPLE = 20_000  # documents that a slicing is learned from
SMALL_PIECE = 4  # a vocabulary piece at most this many times as large as the new words is rewritten with them


class Overtaken(Exception):  # noqa: N818 (no error: the merge is given up)
    """Most of the segments that a merge rewrites were deleted or replaced meanwhile, or the merge was stopped."""


class Deepened(NamedTuple):
    """A document that is stored again, encoded fully: the place that it had at the quick level."""

    segment: str
    row: int


class Writer:
    """The new segments, new words and deleted rows of one commit; a context that removes what was not committed."""

    def __init__(self, base: Snapshot, progress: Progress | None = None, stop: Event | None = None) -> None:
        self.base = base
        self.progress = progress
        self.stop = stop
        self.slicing = base.slicing
        self.dimensions = base.manifest.dimensions
        self.words = Growth(base.words)
        self.written: list[Segment] = []
        self.sources: list[Segment] = []  # the segments that a merge replaces
        self.deepened: list[Deepened] = []  # the documents that were stored, in their order, if they are deepened ones
        self.gone: dict[str, set[int]] = {}  # rows to delete, by the name of their segment
        self.deleted_ids: list[str] = []
        self.followed: dict[str, FollowedRoot] = {}  # by the names of the roots
        self.encoded_passages = 0
        self.reused_passages = 0  # of those added, which were known and not encoded again
        self._settled: Slicing | None = None  # the slicing, if this writer made it
        self._full: Encoder | None = None  # the encoder, if it was given
        self._writer: SegmentWriter | None = None
        self._level = FULL  # of the segment that is being written
        self._place: Path | None = None
        self._fresh_ids: set[str] = set()
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer:
            self._writer.close()
        self.written, self.sources = [], []
        self._closing.close()

    # --- the changes of a commit

    def take_encoder(self, kept: KeptEncoder) -> None:
        """Encode the documents of this commit with the encoder of the one before, if that can be done."""
        self.words, self._full = kept.after(self.base)

    def add_docs(self, docs: GivenDocs, level: str = FULL) -> int:
        """Encode and store documents, and return how many were stored."""
        return self._encode(cut_docs(checked_docs(docs), self.base.manifest.passages), self._encoder(level))

    def add_read(self, docs: Iterator[CutDoc], level: str = FULL) -> int:
        """Encode and store documents that are checked and cut already, and return how many were stored."""
        return self._encode(docs, self._encoder(level))

    def add_cut(self, docs: Iterable[CutDoc], before: Mapping[str, str], level: str = FULL) -> int:
        """Store documents that are cut already, and return how many were stored.

        At the full level, only new passages are encoded. `before` names, for the ids of new documents, the stored ones
        that they are made of: by default those with the same ids.
        """
        encoder = self._encoder(level)
        checked = (CutDoc(next(checked_docs([one.doc], at)), one.places) for at, one in enumerate(docs))
        known = known_passages(self.base, before, encoder) if self._level == FULL else None
        return self._encode(checked, encoder, known)

    def add_encoded(self, batches: Iterable[DocBatch]) -> int:
        """Store documents that were encoded with this vocabulary, and return how many were stored."""
        reported = self._reported(batches)
        added = 0
        needs_slicing = self.slicing is None and self.base.manifest.slicing.slices is not None
        for docs, encoded in self._settle_slicing(reported) if needs_slicing else reported:
            self._append(docs, encoded)
            added += len(docs)
        return added

    def take_words(self, words: Iterable[str]) -> int:
        """Add words to the vocabulary in this order, before those of new documents, and return its size."""
        for word in words:
            self.words.place(word)
        return len(self.words)

    def settle(self, sample: sp.csr_array | None, dimensions: int | None) -> None:
        """Fix the slicing by a sample of encoded documents, and the number of dense dimensions, before any document.

        Without slices there is no sample.
        """
        if sample is not None:
            self._slice_by(sample)
        self.dimensions = dimensions

    def take_stored(self, slicing: Slicing | None, dimensions: int | None, batches: Iterator[StoredBatch]) -> int:
        """Store documents whose vectors were sliced elsewhere by the same slicing, and return how many were stored."""
        if self.slicing is None and slicing is not None:
            self.slicing = self._settled = slicing
        self.dimensions, taken = dimensions, 0
        for batch in batches:
            self._store(batch)
            taken += len(batch.docs)
        return taken

    def delete(self, ids: Iterable[str]) -> int:
        """Delete the documents with these ids, and return how many were found."""
        self.deleted_ids = checked_ids(ids)
        self._drop(self.deleted_ids, self.base.segments)
        return sum(len(rows) for rows in self.gone.values())

    def follow(self, root: FollowedRoot) -> None:
        """List the files of a folder that the index follows in the commit."""
        self.followed[root.name] = root

    def merge(self, entries: Sequence[SegmentEntry]) -> int:
        """Rewrite these segments as fewer, full ones, and return how many were rewritten."""
        names = {entry.name for entry in entries}
        chosen = (segment for segment in self.base.segments if segment.entry.name in names)
        self.sources = sorted(chosen, key=lambda segment: segment.entry.level)
        for segment in self.sources:  # a damaged file must not be rewritten with a checksum that matches
            segment.verify()
        for segment in self.sources:
            self._go_to(segment.entry.level)
            for batch in segment.live_batches(doc_batches.BATCH):
                if self.stop is not None and self.stop.is_set():
                    raise Overtaken
                self._store(batch)
        return len(self.sources)

    def deepen(self, count: int, often: Sequence[str] = (), pace: Pace | None = None) -> int:
        """Encode documents of the quick level fully, at most `count`, and return how many.

        Those with the ids `often` come first, then the newest.
        """
        chosen = rows_to_deepen(self.base.segments, count, often)
        with giving_way(self._encoder(), pace) as encoder:
            return sum(self._encode(self._taken_again(segment, rows), encoder) for segment, rows in chosen)

    def _taken_again(self, segment: Segment, rows: Ints) -> Iterator[CutDoc]:
        """Yield documents of a segment, cut as they were, to take the places of their rows."""
        self.deepened += [Deepened(segment.entry.name, row) for row in rows.tolist()]
        for batch in segment.batches(rows, doc_batches.BATCH):
            passages = batch.passages or Passages.single(len(batch.docs))
            for doc, places in zip(batch.docs, passages.places, strict=True):
                yield CutDoc(doc, list(places) or [Place(0, len(doc.text))])

    def update(self, changes: Mapping[str, Mapping[str, Any]]) -> int:
        """Store documents again with new metadata and their old vectors, and return how many were found."""
        updated = 0
        for segment in self.base.segments:
            rows = segment.live_rows(list(changes))
            self._go_to(segment.entry.level)
            for batch in segment.batches(np.array(sorted(rows.values()), dtype=np.int64), doc_batches.BATCH):
                docs = [replace(doc, meta=dict(changes[doc.id])) for doc in batch.docs]
                self._take_places([doc.id for doc in docs])
                self._store(replace(batch, docs=docs))
                updated += len(docs)
        return updated

    # --- the commit

    def finish(self, latest: Snapshot) -> Manifest:
        """Move every new file into place and return the manifest to commit: the latest one if nothing changed.

        The caller holds the write lock, and `latest` is the last commit.
        """
        if latest.manifest.commit != self.base.manifest.commit:
            self._fit(latest)
        manifest = latest.manifest
        changes: dict[str, Any] = {"dimensions": self.dimensions, "slicing": self._write_slicing(manifest)}
        changes["vocabulary"] = self._write_words(latest)
        changes["roots"] = self._write_roots(latest)
        changes["needs"] = self._needs(latest)
        same = all(getattr(manifest, name) == value for name, value in changes.items())
        if same and not (self.written or self.gone or self.sources):
            return manifest
        for segment in self.written:  # from this writer's own folder to where readers look
            segment.path.rename(self.base.folder / SEGMENTS / segment.entry.name)
        replaced = {segment.entry.name for segment in self.sources}
        segments = [s for s in latest.segments if s.entry.name not in replaced] + self.written
        entries = [self._entry(segment) for segment in segments]
        changed_parts = {SEGMENTS: self.written, DELETIONS: self.gone, VOCABULARY: not same, FOLLOWED: self.followed}
        for part, changed in changed_parts.items():
            if changed:
                sync_folder(latest.folder / part)
        return manifest.next_generation(segments=tuple(entry for entry in entries if entry.docs), **changes)

    def _needs(self, latest: Snapshot) -> tuple[str, ...]:
        """Return the features that a reader of the commit must have."""
        needs = set(latest.manifest.needs)
        if any(segment.entry.passages for segment in self.written):
            needs.add(PASSAGES)
        if any(segment.entry.level == QUICK for segment in self.written):
            needs.add(LEVELS)
        if any(segment.dense is not None and segment.dense.clusters for segment in self.written):
            needs.add(CLUSTERS)
        return tuple(sorted(needs))

    def _entry(self, segment: Segment) -> SegmentEntry:
        gone = self.gone.get(segment.entry.name)
        if not gone:
            return segment.entry
        return segment.without(np.array(sorted(gone)), self.base.folder / DELETIONS)

    def _fit(self, latest: Snapshot) -> None:
        """Adapt the new segments to a commit that came in between: to its words, slicing and documents."""
        base, self.base = self.base, latest
        self._fit_merge(latest)
        _check_dimensions(latest.manifest.dimensions, self.dimensions, bool(latest.segments and self.written))
        if not self.written:
            self.dimensions = latest.manifest.dimensions or self.dimensions
        self._fit_tokens(base, latest)
        there = {segment.entry.name for segment in latest.segments}
        self.gone = {name: rows for name, rows in self.gone.items() if name in there or self._is_ours(name)}
        known = {segment.entry.name for segment in base.segments}
        newer = [segment for segment in latest.segments if segment.entry.name not in known]
        self._drop(self.deleted_ids, newer)
        if self.deepened:
            return self._fit_deepened(latest, newer)
        for segment in self.written if not self.sources else ():
            for start in range(0, segment.rows, doc_batches.BATCH):
                self._drop(segment.ids(np.arange(start, min(start + doc_batches.BATCH, segment.rows))), newer)

    def _fit_deepened(self, latest: Snapshot, newer: Sequence[Segment]) -> None:
        """Delete deepened documents that were replaced or deleted meanwhile; those that were only merged stay."""
        now = {segment.entry.name: segment for segment in latest.segments}
        first = 0
        for segment in self.written:
            froms = self.deepened[first : first + segment.rows]
            lost = [row for row, one in enumerate(froms) if not _is_live(now.get(one.segment), one.row)]
            if gone := set(lost) - self._merged_meanwhile(segment, lost, newer):
                self.gone[segment.entry.name] = gone
            first += segment.rows

    def _merged_meanwhile(self, segment: Segment, rows: list[int], newer: Sequence[Segment]) -> set[int]:
        """Delete the same documents at the quick level from newer segments, and return which of the rows they are."""
        ours = segment.documents.fetch(rows)
        row_of, found = {doc.id: row for row, doc in ours.items()}, set()
        for other in newer:
            there = other.live_rows(list(row_of)) if other.entry.level == QUICK else {}
            for id, doc in ((id, other.documents.fetch([row])[row]) for id, row in there.items()):
                if doc == ours[row_of[id]]:
                    self.gone.setdefault(other.entry.name, set()).add(there[id])
                    found.add(row_of[id])
        return found

    def _is_ours(self, name: str) -> bool:
        return any(segment.entry.name == name for segment in self.written)

    def _fit_merge(self, latest: Snapshot) -> None:
        """Delete from the merged segments the rows that were deleted from their sources meanwhile.

        If a source is gone, all of its rows are deleted: its documents were deleted, or are in another segment now.
        """
        now = {segment.entry.name: segment for segment in latest.segments}
        gone = sum(source.entry.docs for source in self.sources if source.entry.name not in now)
        if 2 * gone > sum(source.entry.docs for source in self.sources):
            raise Overtaken
        starts = np.concatenate([[0], np.cumsum([segment.rows for segment in self.written])])
        first = 0  # the source's first row among all merged rows
        for source in self.sources:
            live = source.live_row_numbers()
            for row in (first + _dead(live, now.get(source.entry.name))).tolist():
                at = int(np.searchsorted(starts, row, side="right")) - 1
                self.gone.setdefault(self.written[at].entry.name, set()).add(row - int(starts[at]))
            first += len(live)
        self.sources = [now[source.entry.name] for source in self.sources if source.entry.name in now]

    def _fit_tokens(self, base: Snapshot, latest: Snapshot) -> None:
        """Give new words the ids that are free now, use the slicing of the index, and rewrite segments if needed."""
        ours, grown = self.words, Growth(latest.words)
        known = base.manifest.encoder_options.get("vocab") or len(base.words)  # ids below it do not change
        new = np.array([grown.place(word) for word in ours.new_words], dtype=np.int64)
        ids = np.concatenate([np.arange(known), new])
        renamed = not np.array_equal(new, np.arange(known, known + len(new)))
        resliced = base.slicing is None and latest.slicing is not None
        self.words = grown
        self.slicing = latest.slicing if latest.slicing is not None else self.slicing
        self._settled = None if latest.slicing is not None else self._settled
        if not (self.written and (renamed or resliced)):
            return
        self.gone = {name: rows for name, rows in self.gone.items() if not self._is_ours(name)}
        written, self.written = self.written, []
        for segment in written:
            self._go_to(segment.entry.level)
            for batch in segment.live_batches(doc_batches.BATCH):
                kept, lost = self._split(_joined(batch.kept, batch.lost, ids))
                passages = None if batch.passages is None else batch.passages.renamed(ids)
                self._store(replace(batch, kept=kept, lost=lost, passages=passages))
        self.flush()

    # --- documents to segments

    def _encoder(self, level: str = FULL) -> Encoder:
        """Return the encoder of new documents, which are stored at its level from now on."""
        if level not in (QUICK, FULL):
            raise InputError(f"level is {QUICK!r} or {FULL!r}, not {level!r}")
        manifest = self.base.manifest
        full = self._full or encoders.load(manifest.encoder, manifest.encoder_options, self.words)
        encoder = full.quick() if level == QUICK else full
        self._go_to(FULL if encoder is full else QUICK)
        return encoder

    def _encode(self, docs: Iterator[CutDoc], encoder: DocEncoder, known: KnownPassages | None = None) -> int:
        """Encode and store documents, and return how many were stored."""
        return self.add_encoded(self._counted(encode_batches(docs, encoder, known), known))

    def _counted(self, batches: Iterator[DocBatch], known: KnownPassages | None) -> Iterator[DocBatch]:
        """Yield the batches, and count their passages that were encoded and those that were reused."""
        counted = 0
        for docs, encoded in batches:
            reused = known.reused - counted if known else 0
            counted += reused
            self.reused_passages += reused
            self.encoded_passages += encoded.passage_count - reused
            yield docs, encoded

    def _reported(self, batches: Iterable[DocBatch]) -> Iterator[DocBatch]:
        """Yield the batches, and report each as soon as it is encoded: storing it takes little time."""
        for docs, encoded in batches:
            if self.progress:
                self.progress(len(docs))
            yield docs, encoded

    def _settle_slicing(self, batches: Iterator[DocBatch]) -> Iterator[DocBatch]:
        """Learn the slicing from the first documents, and return all batches."""
        first: list[DocBatch] = []
        while sum(len(docs) for docs, _ in first) < SAMPLE and (batch := next(batches, None)):
            first.append(batch)
        if not first:
            return iter(())
        self._slice_by(stacked([encoded.lexical for _, encoded in first]))
        return chain(first, batches)

    def _slice_by(self, sample: sp.csr_array) -> None:
        """Make the slicing from the first SAMPLE documents. If the vocabulary grows, use only their words."""
        sample, entry = sample[:SAMPLE], self.base.manifest.slicing
        assert entry.kind is not None  # without slices there is no sample
        assert entry.slices is not None
        if not self.base.manifest.encoder_options.get("vocab"):
            width = max(int(sample.indices.max(initial=-1)) + 1, min(entry.skip, sample.shape[1]))
            sample = csr((sample.data, sample.indices, sample.indptr), (sample.shape[0], width))
        self.slicing = self._settled = Slicing.made(entry.kind, sample, entry.slices, entry.skip, entry.seed)

    def _append(self, docs: list[Doc], encoded: Encoded) -> None:
        self._take_places([doc.id for doc in docs])
        kept, lost = self._split(encoded.lexical)
        found = None if encoded.dense is None else encoded.dense.shape[1]
        _check_dimensions(self.dimensions, found, bool(self.base.segments or self.written or self._writer))
        self.dimensions = found
        lengths = np.zeros(len(docs), np.int64) if encoded.lengths is None else encoded.lengths
        dense = None if encoded.dense is None else on_grid(encoded.dense)
        self._store(StoredBatch(docs, kept, lost, lengths, dense, self._kept_passages(encoded.passages)))

    def _kept_passages(self, passages: Passages | None) -> Passages | None:
        """Return passages without the tokens that no document keeps. With slices, their weights are of no use."""
        if passages is None:
            return None
        entry = self.base.manifest.slicing
        kept = replace(passages, tokens=without_skipped(passages.tokens, entry.skip))
        return kept if entry.slices is None else kept.unweighed()

    def _split(self, weights: sp.csr_array) -> tuple[sp.csr_array, sp.csr_array]:
        """Return the weights that documents keep, and those that the slicing drops: none without slices."""
        entry = self.base.manifest.slicing
        if entry.slices is None:
            return without_skipped(weights, entry.skip), no_weights(*weights.shape)
        assert self.slicing is not None  # it is made before the first batch is stored
        self.slicing = self.slicing.grown(weights.shape[1])
        return split_by_slice(weights, self.slicing)

    def _go_to(self, level: str) -> None:
        """Write what comes to segments of this level."""
        if level != self._level:
            self.flush()
            self._level = level

    def _store(self, batch: StoredBatch) -> None:
        if self._writer is None:
            manifest = self.base.manifest
            self._writer = SegmentWriter(self._own_folder() / new_name(), manifest.block, manifest.filterable)
        writer = self._writer
        try:
            writer.add(batch)
        except UnicodeEncodeError:
            bad = next(doc.id for doc in batch.docs if not _is_unicode(doc))
            raise InputError(f"document {bad!r} holds half of a surrogate pair, which is not text") from None
        if writer.dense_rows >= tiers.SEGMENT_DOCS or writer.weights >= tiers.SEGMENT_WEIGHTS:
            self.flush()

    def _take_places(self, ids: list[str]) -> None:
        """Delete older documents with the ids of new ones; raise InputError if an id is given twice in one add."""
        for id in ids:
            if id in self._fresh_ids:
                raise InputError(f"document id {id!r} is given twice")
            self._fresh_ids.add(id)
        for segment in self.written:
            if there := segment.documents.rows(ids):
                raise InputError(f"document id {min(there)!r} is given twice")
        self._drop(ids, self.base.segments)

    def _drop(self, ids: Sequence[str], segments: Sequence[Segment]) -> None:
        for start in range(0, len(ids), doc_batches.BATCH):
            for segment in segments:
                if rows := segment.live_rows(ids[start : start + doc_batches.BATCH]):
                    self.gone.setdefault(segment.entry.name, set()).update(rows.values())

    def _own_folder(self) -> Path:
        """Return the folder that holds the segments of this writer until they are committed."""
        if self._place is None:
            self._place = self._closing.enter_context(session(self.base.folder))
        return self._place

    def flush(self) -> None:
        """Write the segment that was begun. This takes long, and needs no lock."""
        if self._writer:
            entry, part = replace(self._writer.finish(), level=self._level), f"{WRITING}/{self._own_folder().name}"
            self._writer = None
            self.written.append(Segment(self.base.home, entry, self.base.manifest.block, part))
            self._fresh_ids.clear()

    # --- words and slicing

    def _write_slicing(self, manifest: Manifest) -> SlicingEntry:
        """Return the entry of the slicing; write the file of the tokens' slices if this writer made it."""
        if self._settled is None:
            return manifest.slicing
        entry = replace(manifest.slicing, vocab=self._settled.vocab)
        if entry.kind == "stride":
            return entry
        return replace(entry, places=self._write_file({"slice_of": self._settled.slice_of}))

    def _write_words(self, latest: Snapshot) -> tuple[FileEntry, ...]:
        """Return the pieces of the vocabulary with the new words, after rewriting small pieces as one."""
        entries, pieces, new = list(latest.manifest.vocabulary), list(self.words.base.pieces), self.words.new_words
        if not new:
            return latest.manifest.vocabulary
        words = list(new)
        while pieces and len(pieces[-1]) <= SMALL_PIECE * len(words):
            latest.pieces[entries.pop().name].verify()
            words = pieces.pop().words() + words
        return (*entries, self._write_file(word_arrays(words)))

    def _write_roots(self, latest: Snapshot) -> tuple[RootEntry, ...]:
        """Return the folders that the index follows; write the lists of those whose files have changed."""
        entries = {entry.name: entry for entry in latest.manifest.roots}
        for name, root in self.followed.items():
            entry = entries.get(name)
            if entry is None or root.files != read_list(latest.followed[entry.files.name]):
                files = write_list(self.base.folder / FOLLOWED, root.files)
            else:
                files = entry.files
            entries[name] = RootEntry(name, root.location, root.whole, root.parts, files, root.text_field)
        return tuple(entries.values())

    def _write_file(self, arrays: Mapping[str, Any]) -> FileEntry:
        name = new_name()
        return FileEntry(name, write_container(self.base.folder / VOCABULARY / f"{name}{ENDING}", arrays))


def _dead(live: Ints, later: Segment | None) -> Ints:
    """Return the positions, among rows that were live, of those that a later state of their segment has deleted."""
    if later is None:
        return np.arange(len(live))
    return np.zeros(0, np.int64) if later.live is None else np.flatnonzero(later.live[live] == 0)


def _is_live(segment: Segment | None, row: int) -> bool:
    return segment is not None and (segment.live is None or bool(segment.live[row]))


def _check_dimensions(width: int | None, found: int | None, settled: bool) -> None:
    """Raise InputError unless all documents of an index have dense vectors of one width, or none has any."""
    if settled and found != width:
        raise InputError(f"dense vectors of {found or 0} dimensions do not fit an index with {width or 0}")


def _joined(kept: sp.csr_array, lost: sp.csr_array, ids: Ints) -> sp.csr_array:
    """Return all weights of documents in one matrix, with new token ids."""
    width = int(ids.max(initial=0)) + 1
    parts = [csr((one.data, ids[one.indices], one.indptr), (one.shape[0], width)) for one in (kept, lost)]
    joined = parts[0] + parts[1]
    joined.sort_indices()
    return joined


def _is_unicode(doc: Doc) -> bool:
    try:
        (doc.title + doc.text + doc.meta_json()).encode()
    except UnicodeEncodeError:
        return False
    return True
