"""Upgrades of an index in place: from an older format, to passages, to the embedded model as it is now, to clusters.

The new index is built in a folder within the old one, commit by commit, so that an interrupted upgrade can be resumed.
When it is complete, its files are moved into the old folder, and a rename of the manifest makes it the index.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from denslice import encoders
from denslice.analysis.analyzer import ANALYSIS
from denslice.analysis.languages import ENGLISH
from denslice.corpus.passages import cut
from denslice.encoders.mini import EMBEDDED
from denslice.errors import DensliceError, InputError
from denslice.index.doc_batches import cut_docs, encode_batches
from denslice.index.index import Index
from denslice.index.writer import Writer
from denslice.records import Doc, Progress
from denslice.store import lock, snapshot
from denslice.store import manifest as manifests
from denslice.store.files import replace_file, sync_folder
from denslice.store.folder import Folder
from denslice.store.format2 import Format2
from denslice.store.manifest import INDEX_FORMAT, LOSSLESS, Manifest, SegmentEntry, SlicingEntry
from denslice.store.segment import Segment
from denslice.store.segment_writer import StoredBatch
from denslice.store.snapshot import SUBFOLDERS, UPGRADE, Snapshot, file_names

BEGUN = "begun.json"  # the commit that is upgraded, and whether the new index is complete
RENEWED = ("fingerprint", "analysis")  # options that say how an index was encoded
AT_ONCE = 4_096  # documents encoded for one commit
OLD_SLICES = 768  # of an index that was made before every token was kept by default


@dataclass(frozen=True)
class Upgraded:
    """The result of an upgrade. If `reason` is empty, there was nothing to do."""

    docs: int
    reason: str = ""


def upgrade(path: Path, progress: Progress | None = None) -> Upgraded:
    """Upgrade the index in a folder if needed, and return what was done. The old one is unchanged until the end."""
    home = Folder(path)
    found = manifests.format_of(home)
    if found not in (INDEX_FORMAT, *manifests.UPGRADABLE_FORMATS):
        manifests.check_format(home.path, found)
    try:
        before = [_from_format_2(home.path, progress)] if found != INDEX_FORMAT else []
        steps = [*before, _renewed(home.path, progress), _with_clusters(home.path, progress)]
        return Upgraded(steps[-1].docs, "; ".join(step.reason for step in steps if step.reason))
    except OSError as error:
        told = f"could not be upgraded ({error.strerror or error})"
        raise InputError(f"{home.path}: {told}; nothing is lost, and the same command goes on where it was") from error


def _from_format_2(path: Path, progress: Progress | None) -> Upgraded:
    """Upgrade an index of format 2. Its vectors are copied, or encoded again if its embedded model has changed."""
    with lock.writing(path):
        old = Format2(Folder(path))
        old.check_no_reader()
        if _needs_encoding(old.body["encoder"], old.body["encoder_options"]):
            docs = (doc for _, batches in old.segments() for batch in batches for doc in batch.docs)
            settings = _settings(old.body, old.body["slicing"])
            _build(path, old.commit, lambda to: _encode(to, settings, docs, progress))
            reason = f"format 2 to {INDEX_FORMAT}, encoded again with the words and the embedded model as they are now"
        else:
            _build(path, old.commit, lambda to: _copy(to, old, progress))
            reason = f"format 2 to {INDEX_FORMAT}, vectors as they were"
        _take_place(path, {"generation": old.body["generation"] + 1})
    return Upgraded(old.docs, reason)


def _renewed(path: Path, progress: Progress | None) -> Upgraded:
    """Encode the documents of an index again if the embedded model has changed, or cut them if they are not cut."""
    with lock.writing(path):
        old = Snapshot(path)
        manifest = old.manifest
        if _needs_encoding(manifest.encoder, manifest.encoder_options):
            docs = (doc for segment in old.segments for doc in segment.live_docs(AT_ONCE))
            settings = _settings(vars(manifest), vars(manifest.slicing))
            _build(path, manifest.commit, lambda to: _encode(to, settings, docs, progress))
            reason = "encoded again with the words and the embedded model as they are now"
        elif not manifest.passages and manifest.encoder != "vectors":
            _build(path, manifest.commit, lambda to: _cut(to, old, progress))
            reason = "documents cut into passages, and long ones encoded again"
            reason += ", every token kept" if _is_to_be_unsliced(manifest) else ""
        else:
            snapshot.sweep(path, manifest)
            return Upgraded(old.docs)
        kept = {"identity": manifest.identity, "roots": manifest.roots}
        _take_place(path, {"generation": manifest.generation + 1, **kept})
    return Upgraded(old.docs, reason)


def _with_clusters(path: Path, progress: Progress | None) -> Upgraded:
    """Rewrite the large segments whose vectors are not in clusters, one in each commit."""
    with Index.open(path) as index:
        late = [one.entry for one in index.reader.snapshot.segments if one.dense is not None and one.dense.is_late]
        for entry in late:
            index.commit_only(partial(_rewrite, entry), lock.WAIT_SECONDS)
            if progress:
                progress(entry.docs)
        return Upgraded(len(index), "vectors put in clusters" if late else "")


def _rewrite(entry: SegmentEntry, writer: Writer) -> int:
    return writer.merge([entry])


def _has_old_default(encoder: str, slices: int | None, kind: str | None, query: str) -> bool:
    """Return whether an index has the slicing that was the default, and so most likely nobody asked for it."""
    return (slices, kind, query) == (OLD_SLICES, "learned", "full") and encoder in (EMBEDDED, "bm25")


def _is_to_be_unsliced(manifest: Manifest) -> bool:
    slicing = manifest.slicing
    return _has_old_default(manifest.encoder, slicing.slices, slicing.kind, manifest.query)


def _needs_encoding(encoder: str, options: Mapping[str, Any]) -> bool:
    """Return whether an index was made with an earlier analysis of words, or an earlier edition of the model."""
    if "k1" in options and options.get("analysis") != ANALYSIS:
        return True
    return encoders.has_earlier_model(encoder, options)


def _settings(told: Mapping[str, Any], slicing: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of an index as keywords of `Index.create`."""
    options = {name: value for name, value in told["encoder_options"].items() if name not in RENEWED}
    if "analysis" not in told["encoder_options"] and options.get("language") == ENGLISH:
        del options["language"]  # it was the default
    if options.get("average_length") is None:
        options.pop("average_length", None)
    kept = {name: slicing[name] for name in ("slices", "skip", "seed")}
    kept |= {"slicing": slicing["kind"], "query": told["query"], "filterable": list(told["filterable"])}
    if _has_old_default(told["encoder"], slicing["slices"], slicing["kind"], told["query"]):
        kept |= {"slices": None, "slicing": None}
    return {"encoder": told["encoder"], **kept, "options": options}


# --- building


def _build(path: Path, commit: str, fill: Callable[[Path], None]) -> None:
    """Build the new index within the folder of the old one, or resume an upgrade of the same commit."""
    place = path / UPGRADE
    if _begun(place) not in ({"from": commit, "whole": False}, {"from": commit, "whole": True}):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        replace_file(place / BEGUN, json.dumps({"from": commit, "whole": False}).encode())
    if _begun(place)["whole"]:
        return
    fill(place / "index")
    replace_file(place / BEGUN, json.dumps({"from": commit, "whole": True}).encode())


def _begun(place: Path) -> dict[str, Any]:
    """Return the state of an upgrade that was begun; an empty one if there is none, or its files are incomplete."""
    try:
        told: dict[str, Any] = json.loads((place / BEGUN).read_bytes())
    except (OSError, ValueError):
        return {}
    return told if not told.get("whole") or _is_whole(place) else {}


def _is_whole(place: Path) -> bool:
    """Return whether every file of the new index exists, here or already in the old folder."""
    try:
        names = file_names(manifests.read(Folder(place / "index")))
    except DensliceError:
        return False
    return all((place / "index" / name).exists() or (place.parent / name).exists() for name in names)


def _encode(to: Path, settings: Mapping[str, Any], docs: Iterator[Doc], progress: Progress | None) -> None:
    """Encode the documents that the new index does not have yet, AT_ONCE in each commit."""
    index = Index.open(to) if manifests.has_manifest(to) else Index.create(to, **settings)
    with index:
        for _ in islice(docs, len(index)):
            pass
        while some := list(islice(docs, AT_ONCE)):
            index.add(some, progress=progress)


def _cut(to: Path, old: Snapshot, progress: Progress | None) -> None:
    """Copy documents of one passage with their vectors and encode the others, one segment in each commit."""
    unsliced = _is_to_be_unsliced(old.manifest)
    if not manifests.has_manifest(to):
        snapshot.create(to, _cut_manifest(old.manifest, unsliced))
    with Index.open(to) as new:
        done = len(new)
        for segment in old.segments:
            if done >= segment.entry.docs:
                done -= segment.entry.docs
                continue
            segment.verify()
            new.commit_only(partial(_take_cut, old, segment, unsliced), lock.WAIT_SECONDS, progress)
        new.commit_only(lambda writer: _take_words(writer, old), lock.WAIT_SECONDS)


def _take_words(writer: Writer, old: Snapshot) -> int:
    return writer.take_words(old.words.word(id) for id in range(len(writer.words), len(old.words)))


def _take_cut(old: Snapshot, segment: Segment, unsliced: bool, writer: Writer) -> int:
    """Store the documents of a segment, cut into passages."""
    _take_words(writer, old)
    manifest = old.manifest
    encoder = encoders.load(manifest.encoder, manifest.encoder_options, writer.words)
    for batch in segment.live_batches(AT_ONCE):
        is_long = np.array([len(cut(doc.text)) > 1 for doc in batch.docs])
        short = batch.rows(np.flatnonzero(~is_long))
        short = short.unsliced() if unsliced else short
        writer.take_stored(None if unsliced else old.slicing, manifest.dimensions, iter([short] if short.docs else []))
        if writer.progress:
            writer.progress(len(short.docs))
        docs = (doc for doc, chosen in zip(batch.docs, is_long.tolist(), strict=True) if chosen)
        writer.add_encoded(encode_batches(cut_docs(docs, do_cut=True), encoder))
    return 0


def _cut_manifest(old: Manifest, unsliced: bool) -> Manifest:
    """Return the manifest of an empty index with the settings of an old one, whose documents are cut."""
    slicing = replace(old.slicing, vocab=None, places=None)
    slicing = replace(slicing, slices=None, kind=None) if unsliced else slicing
    needs = (*old.needs, LOSSLESS) if unsliced else old.needs
    empty: dict[str, Any] = {"segments": (), "vocabulary": (), "dimensions": None, "generation": 0}
    return replace(old, slicing=slicing, needs=needs, passages=True, **empty)


def _copy(to: Path, old: Format2, progress: Progress | None) -> None:
    """Copy documents and vectors, one segment in each commit."""
    if not manifests.has_manifest(to):
        snapshot.create(to, _manifest(old))

    def take(batches: Iterator[StoredBatch], writer: Writer) -> int:
        writer.take_words(old.words[len(writer.words) :])
        return writer.take_stored(old.slicing, old.body["dimensions"], batches)

    with Index.open(to) as new:
        done = len(new)
        for docs, batches in old.segments():
            if done >= docs:
                done -= docs
                continue
            new.commit_only(partial(take, batches), lock.WAIT_SECONDS)
            if progress:
                progress(docs)
        new.commit_only(partial(take, iter(())), lock.WAIT_SECONDS)  # the words and the slicing, if there are no docs


def _manifest(old: Format2) -> Manifest:
    """Return the manifest of an empty index with the settings of an old one, and the average length of its weights."""
    body, options = old.body, dict(old.body["encoder_options"])
    if "average_length" in options and options["average_length"] is None:
        options["average_length"] = old.average_length
    kept = {name: body["slicing"][name] for name in ("kind", "slices", "skip", "seed")}
    return Manifest(
        body["encoder"], options, SlicingEntry(**kept), body["query"], tuple(body["filterable"]), block=body["block"]
    )


# --- replacing the old index


def _take_place(path: Path, changes: Mapping[str, Any]) -> None:
    """Move the files of the new index into the old folder and commit its manifest. Each step can be repeated."""
    new = path / UPGRADE / "index"
    manifest = manifests.read(Folder(new))
    for part in SUBFOLDERS:
        (path / part).mkdir(exist_ok=True)
    tops = dict.fromkeys("/".join(name.split("/")[:2]) for name in file_names(manifest))  # files, folders of segments
    for name in tops:
        if (new / name).exists():
            (new / name).rename(path / name)
    for part in SUBFOLDERS:
        sync_folder(path / part)
    manifests.write(path, replace(manifest, commit=manifests.new_name(), **changes))
    snapshot.sweep(path, manifests.read(Folder(path)))
