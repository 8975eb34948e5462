"""The manifest: the one file that says what an index holds. Renaming a new one into place is the commit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any
from uuid import uuid4

from denslice.errors import IndexFormatError
from denslice.store.files import StoredFile, damaged, replace_file
from denslice.store.folder import Folder

INDEX_FORMAT = 3
UPGRADABLE_FORMATS = (2,)  # formats that `denslice upgrade` reads
FEATURES: frozenset[str] = frozenset()  # what an index may need of its readers beyond the format: none yet
MANIFEST_FILE = "manifest.json"
BLOCK_ROWS = (
    65_536  # documents a posting block holds: as many as 16 bits can number, and scores fit a core's second cache
)


def new_name() -> str:
    """Return a name that nothing else has: for an index, a commit, a segment, a file."""
    return uuid4().hex


@dataclass(frozen=True)
class FileEntry:
    """A container that stands by itself: a piece of the vocabulary, a slicing, a segment's deletions."""

    name: str
    file: StoredFile


@dataclass(frozen=True)
class SlicingEntry:
    """How the index slices. `places` is the file of token places, once the first documents have settled them."""

    kind: str
    slices: int
    skip: int
    seed: int
    vocab: int | None = None
    places: FileEntry | None = None


@dataclass(frozen=True)
class SegmentEntry:
    """A segment: its rows, how many of them are deleted, its weights, the tokens of its live texts, and its files."""

    name: str
    rows: int
    weights: int
    length: int
    files: Mapping[str, StoredFile]
    deleted: int = 0
    deletions: FileEntry | None = None

    @property
    def docs(self) -> int:
        """How many documents can be found."""
        return self.rows - self.deleted


@dataclass(frozen=True)
class Manifest:
    """Everything an index is, at one commit.

    `identity` is the index's own, for its life; `commit` is the commit's. Two manifests with one commit are the same,
    wherever they lie: generations alone cannot tell an index from another that was moved into its place.
    """

    encoder: str
    encoder_options: Mapping[str, Any]
    slicing: SlicingEntry
    query: str  # "full" or "sliced"
    filterable: tuple[str, ...] = ()
    dimensions: int | None = None  # of the dense vectors, once there are any
    block: int = BLOCK_ROWS
    identity: str = field(default_factory=new_name)
    commit: str = field(default_factory=new_name)
    generation: int = 0
    needs: tuple[str, ...] = ()  # features that readers must know
    segments: tuple[SegmentEntry, ...] = ()
    vocabulary: tuple[FileEntry, ...] = ()

    @property
    def docs(self) -> int:
        """How many documents can be found."""
        return sum(segment.docs for segment in self.segments)

    @property
    def encoder_hash(self) -> str:
        """A fingerprint of the encoder and its options."""
        return _digest({"encoder": self.encoder, "options": dict(self.encoder_options)})

    def next_generation(self, **changes: Any) -> Manifest:
        """Return the manifest after these changes."""
        return replace(self, generation=self.generation + 1, commit=new_name(), **changes)


def write(folder: Path, manifest: Manifest) -> None:
    """Commit: from here on the folder is at this manifest."""
    body = {**asdict(manifest), "encoder_hash": manifest.encoder_hash}
    told = {"format": INDEX_FORMAT, "checksum": _digest(body), "index": body}
    replace_file(folder / MANIFEST_FILE, json.dumps(told, indent=1, ensure_ascii=False).encode())


def read(folder: Folder) -> Manifest:
    """Return the manifest of the last commit."""
    return parse(folder.path, _text(folder))


def has_manifest(folder: Path) -> bool:
    """Return whether a folder has a manifest: whether it is an index, of whichever format."""
    return (folder / MANIFEST_FILE).exists()


def format_of(folder: Folder) -> int:
    """Return the format of the index in a folder, which need not be one that can be read."""
    return _format(folder.path / MANIFEST_FILE, _json_object(folder.path / MANIFEST_FILE, _text(folder)))


def parse(folder: Path, text: bytes) -> Manifest:
    """Return the manifest that a file's text tells."""
    path = folder / MANIFEST_FILE
    told = _json_object(path, text)
    check_format(folder, _format(path, told))
    manifest = _manifest(checked_body(path, told))
    if unknown := sorted(set(manifest.needs) - FEATURES):
        raise IndexFormatError(f"{path}: needs {', '.join(unknown)}, which this version lacks; upgrade denslice")
    return manifest


def check_format(folder: Path, found: int) -> None:
    """Raise IndexFormatError, which says what to do, for a format that this version does not read."""
    if found == INDEX_FORMAT:
        return
    if found in UPGRADABLE_FORMATS:
        advice = f"run `denslice upgrade {folder}`, which keeps the documents and their vectors"
    else:
        advice = "upgrade denslice to read it" if found > INDEX_FORMAT else "make the index again"
    raise IndexFormatError(
        f"{folder / MANIFEST_FILE}: index format {found}, this version reads format {INDEX_FORMAT}; {advice}"
    )


def checked_body(path: Path, told: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a manifest says of its index, if that is what was written."""
    body = told.get("index")
    if not isinstance(body, dict) or told.get("checksum") != _digest(body):
        raise damaged(path, "contents differ from what was written")
    return body


def _text(folder: Folder) -> bytes:
    try:
        return folder.read(MANIFEST_FILE)
    except IndexFormatError:
        if has_manifest(folder.path):
            raise
        raise IndexFormatError(f"{folder.path}: not an index (no {MANIFEST_FILE} in it)") from None


def _format(path: Path, told: Mapping[str, Any]) -> int:
    found = told.get("format")
    if not isinstance(found, int):
        raise damaged(path, f"index format {found!r}")
    return found


def _json_object(path: Path, text: bytes) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except ValueError as error:
        raise damaged(path, f"not JSON ({error})") from None
    if not isinstance(told, dict):
        raise damaged(path, "not a manifest")
    return told


def _manifest(body: dict[str, Any]) -> Manifest:
    fields = _known(Manifest, body)
    fields["filterable"], fields["needs"] = tuple(fields["filterable"]), tuple(fields["needs"])
    fields["slicing"] = SlicingEntry(
        **{**_known(SlicingEntry, fields["slicing"]), "places": _file(fields["slicing"]["places"])}
    )
    fields["segments"] = tuple(map(_segment, fields["segments"]))
    fields["vocabulary"] = tuple(FileEntry(one["name"], _stored(one["file"])) for one in fields["vocabulary"])
    return Manifest(**fields)


def _known(kind: type[Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """The fields this version knows: a later one may say more, and what readers must know is in `needs`."""
    names = {one.name for one in fields_of(kind)}
    return {name: value for name, value in told.items() if name in names}


def _segment(told: dict[str, Any]) -> SegmentEntry:
    files = {name: _stored(stored) for name, stored in told["files"].items()}
    return SegmentEntry(**{**_known(SegmentEntry, told), "files": files, "deletions": _file(told["deletions"])})


def _file(told: dict[str, Any] | None) -> FileEntry | None:
    return None if told is None else FileEntry(told["name"], _stored(told["file"]))


def _stored(told: dict[str, Any]) -> StoredFile:
    return StoredFile(**_known(StoredFile, told))


def _digest(body: Mapping[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
