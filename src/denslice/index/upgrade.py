"""Upgrading an index in place: of an older format, or made with other weights of the embedded model.

The new index is built in a folder within the old one, commit by commit, so that an upgrade which was interrupted goes
on where it was. When it is whole its files are moved in, and one rename of the manifest makes it the index.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from denslice import encoders
from denslice.encoders.mini import EMBEDDED
from denslice.errors import DensliceError, InputError
from denslice.index.index import Index
from denslice.index.writer import Progress, Writer
from denslice.records import Doc
from denslice.slicing import Slicing
from denslice.store import lock, snapshot
from denslice.store import manifest as manifests
from denslice.store.backup import file_names
from denslice.store.files import replace_file, sync_folder
from denslice.store.folder import Folder
from denslice.store.format2 import Format2
from denslice.store.manifest import INDEX_FORMAT, Manifest, SlicingEntry
from denslice.store.segment_writer import StoredBatch
from denslice.store.snapshot import SUBFOLDERS, UPGRADE, Snapshot

BEGUN = "begun.json"  # says from which commit, and that all of it is there
AT_ONCE = 4_096  # documents encoded for one commit


@dataclass(frozen=True)
class Upgraded:
    """What an upgrade did: nothing where `reason` is empty."""

    docs: int
    reason: str = ""


def upgrade(path: Path, progress: Progress | None = None) -> Upgraded:
    """Upgrade the index in a folder if it needs to be, and return what was done. Until the end it stays as it was."""
    home = Folder(path)
    found = manifests.format_of(home)
    if found not in (INDEX_FORMAT, *manifests.UPGRADABLE_FORMATS):
        manifests.check_format(home.path, found)
    try:
        return (_encoded_again if found == INDEX_FORMAT else _from_format_2)(home.path, progress)
    except OSError as error:
        told = f"could not be upgraded ({error.strerror or error})"
        raise InputError(f"{home.path}: {told}; nothing is lost, and the same command goes on where it was") from error


def _from_format_2(path: Path, progress: Progress | None) -> Upgraded:
    """Upgrade an index of format 2: with its vectors as they are, or encoded again if its model is not there."""
    with lock.writing(path):
        old = Format2(Folder(path))
        old.check_no_reader()
        if _needs_encoding(old.body["encoder"], old.body["encoder_options"]):
            docs = (doc for _, batches in old.segments() for batch in batches for doc in batch.docs)
            settings = _settings(old.body, old.body["slicing"])
            _build(path, old.commit, lambda to: _encode(to, settings, docs, progress))
            reason = f"format 2 to {INDEX_FORMAT}, encoded again with the embedded model as it is now"
        else:
            _build(path, old.commit, lambda to: _copy(to, old, progress))
            reason = f"format 2 to {INDEX_FORMAT}, vectors as they were"
        _take_place(path, {"generation": old.body["generation"] + 1})
    return Upgraded(old.docs, reason)


def _encoded_again(path: Path, progress: Progress | None) -> Upgraded:
    """Encode the documents of an index again if its embedded model is another one than the package's."""
    with lock.writing(path):
        old = Snapshot(path)
        manifest = old.manifest
        if not _needs_encoding(manifest.encoder, manifest.encoder_options):
            snapshot.sweep(path, manifest)
            return Upgraded(old.docs)
        docs = (doc for segment in old.segments for doc in segment.live_docs(AT_ONCE))
        settings = _settings(vars(manifest), vars(manifest.slicing))
        _build(path, manifest.commit, lambda to: _encode(to, settings, docs, progress))
        _take_place(path, {"generation": manifest.generation + 1, "identity": manifest.identity})
    return Upgraded(old.docs, "encoded again with the embedded model as it is now")


def _needs_encoding(encoder: str, options: Mapping[str, Any]) -> bool:
    """Return whether an index was made with other weights of the embedded model than those of the package."""
    return encoder == EMBEDDED and encoders.checked_options(encoder, {})["fingerprint"] != options["fingerprint"]


def _settings(told: Mapping[str, Any], slicing: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that an index was made with, as `Index.create` takes them."""
    options = {name: value for name, value in told["encoder_options"].items() if name != "fingerprint"}
    if options.get("average_length") is None:
        options.pop("average_length", None)
    kept = {name: slicing[name] for name in ("slices", "skip", "seed")}
    kept |= {"slicing": slicing["kind"], "query": told["query"], "filterable": list(told["filterable"])}
    return {"encoder": told["encoder"], **kept, "options": options}


# --- building


def _build(path: Path, commit: str, fill: Callable[[Path], None]) -> None:
    """Build the new index within the old one's folder, or go on with one that was begun from the same commit."""
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
    """What an upgrade that was begun says of itself; nothing where there is none, or files of it are gone."""
    try:
        told: dict[str, Any] = json.loads((place / BEGUN).read_bytes())
    except (OSError, ValueError):
        return {}
    return told if not told.get("whole") or _is_whole(place) else {}


def _is_whole(place: Path) -> bool:
    """Return whether every file is either still here or moved in already."""
    try:
        names = file_names(manifests.read(Folder(place / "index")))
    except DensliceError:
        return False
    return all((place / "index" / name).exists() or (place.parent / name).exists() for name in names)


def _encode(to: Path, settings: Mapping[str, Any], docs: Iterator[Doc], progress: Progress | None) -> None:
    """Encode the documents that are not there yet, some in each commit."""
    index = Index.open(to) if manifests.has_manifest(to) else Index.create(to, **settings)
    with index:
        for _ in islice(docs, len(index)):
            pass
        while some := list(islice(docs, AT_ONCE)):
            index.add(some, progress=progress)


def _copy(to: Path, old: Format2, progress: Progress | None) -> None:
    """Copy documents and vectors, each segment in a commit."""
    if not manifests.has_manifest(to):
        snapshot.create(to, _manifest(old))
    with _Copy.open(to) as new:
        done = len(new)
        for docs, batches in old.segments():
            if done >= docs:
                done -= docs
                continue
            new.take(old.words, old.slicing, old.body["dimensions"], batches)
            if progress:
                progress(docs)
        new.take(old.words, old.slicing, old.body["dimensions"], iter(()))


class _Copy(Index):
    """An index that takes documents with the vectors they have."""

    def take(
        self, words: list[str], slicing: Slicing | None, dimensions: int | None, batches: Iterator[StoredBatch]
    ) -> None:
        """Add documents in one commit; the words and the slicing come before the first."""

        def work(build: Writer) -> int:
            build.take_words(words[len(build.words) :])
            return build.take_stored(slicing, dimensions, batches)

        self._commit(work, lock.WAIT_SECONDS)


def _manifest(old: Format2) -> Manifest:
    """The manifest of an empty index with the settings of an old one. Weights stay, so the average length is fixed."""
    body, options = old.body, dict(old.body["encoder_options"])
    if "average_length" in options and options["average_length"] is None:
        options["average_length"] = old.average_length
    kept = {name: body["slicing"][name] for name in ("kind", "slices", "skip", "seed")}
    return Manifest(
        body["encoder"], options, SlicingEntry(**kept), body["query"], tuple(body["filterable"]), block=body["block"]
    )


# --- taking the old one's place


def _take_place(path: Path, changes: Mapping[str, Any]) -> None:
    """Move the new index's files in and commit its manifest. Each step can be done again."""
    new = path / UPGRADE / "index"
    manifest = manifests.read(Folder(new))
    for part in SUBFOLDERS:
        (path / part).mkdir(exist_ok=True)
    for name in _top_names(manifest):
        if (new / name).exists():
            (new / name).rename(path / name)
    for part in SUBFOLDERS:
        sync_folder(path / part)
    manifests.write(path, replace(manifest, commit=manifests.new_name(), **changes))
    snapshot.sweep(path, manifests.read(Folder(path)))


def _top_names(manifest: Manifest) -> list[str]:
    """What is renamed: files, and folders of segments, each once."""
    return list(dict.fromkeys("/".join(name.split("/")[:2]) for name in file_names(manifest)))
