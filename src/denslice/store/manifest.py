"""The manifest: the file that lists all that an index holds. Renaming a new one into place is the commit."""

from __future__ import annotations

import hashlib
import json
import os
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
LOSSLESS = "lossless"  # the feature of an index without slices, in which documents keep every token
PASSAGES = "passages"  # the feature of an index whose documents are cut into passages
LEVELS = "levels"  # the feature of an index with documents that only the quick side of its encoder has read
CLUSTERS = "clusters"  # the feature of an index with dense vectors that are stored cluster by cluster
FEATURES = frozenset({LOSSLESS, PASSAGES, LEVELS, CLUSTERS})  # that this version reads; an index lists those it needs
QUICK, FULL = "quick", "full"  # levels: how thoroughly the documents of a segment were encoded
LEVEL_NAMES = (QUICK, FULL)
MANIFEST_FILE = "manifest.json"
MARK_BYTES = 128  # of a manifest: the format and the checksum are in them
BLOCK_ROWS = 65_536  # of a posting block: they fit 16 bits, and their scores a core's second-level cache


def new_name() -> str:
    """Return a unique name for an index, a commit, a segment or a file."""
    return uuid4().hex


@dataclass(frozen=True)
class FileEntry:
    """A container outside of a segment: a piece of the vocabulary, a slicing or a deleted bitmap."""

    name: str
    file: StoredFile


@dataclass(frozen=True)
class SlicingEntry:
    """The slicing. `places` is the file with the slice of each token, written when the first documents decide them.

    Without `slices`, documents keep every token from `skip` on, and `kind`, `vocab` and `places` are None.
    """

    kind: str | None
    slices: int | None
    skip: int
    seed: int
    vocab: int | None = None
    places: FileEntry | None = None


@dataclass(frozen=True)
class SegmentEntry:
    """A segment and its files."""

    name: str
    rows: int  # deleted ones included
    weights: int
    length: int  # tokens of its live documents
    files: Mapping[str, StoredFile]
    deleted: int = 0  # rows
    deletions: FileEntry | None = None
    passages: int | None = None  # deleted ones included; None if each row is one passage
    level: str = FULL

    @property
    def docs(self) -> int:
        """The number of live documents."""
        return self.rows - self.deleted


@dataclass(frozen=True)
class RootEntry:
    """A folder that the index follows, and the file that lists what was read from it."""

    name: str  # the first part of the ids of its documents
    location: str  # its absolute path
    whole: bool  # whether all of its files are followed, or only its `parts`
    parts: tuple[str, ...]  # files and folders, by their paths in it
    files: FileEntry
    text_field: str | None = None  # the column of its tables that holds the text, if it was named


@dataclass(frozen=True)
class Manifest:
    """An index at one commit.

    `identity` names the index and never changes; `commit` names the commit. Two manifests with the same commit are
    equal in whichever folder they are: generations alone cannot tell an index from another that was moved into its
    place.
    """

    encoder: str
    encoder_options: Mapping[str, Any]
    slicing: SlicingEntry
    query: str  # "full" or "sliced"
    filterable: tuple[str, ...] = ()
    dimensions: int | None = None  # of the dense vectors, if there are any
    block: int = BLOCK_ROWS
    identity: str = field(default_factory=new_name)
    commit: str = field(default_factory=new_name)
    generation: int = 0
    needs: tuple[str, ...] = ()  # features that a reader must have
    passages: bool = False  # whether documents are cut into passages
    segments: tuple[SegmentEntry, ...] = ()
    vocabulary: tuple[FileEntry, ...] = ()
    roots: tuple[RootEntry, ...] = ()

    @property
    def docs(self) -> int:
        """The number of live documents."""
        return sum(segment.docs for segment in self.segments)

    @property
    def deep(self) -> float:
        """The share of documents that are at the full level."""
        quick = sum(segment.docs for segment in self.segments if segment.level == QUICK)
        return 1 - quick / max(1, self.docs)

    def next_generation(self, **changes: Any) -> Manifest:
        """Return the manifest of the next commit, with these changes."""
        return replace(self, generation=self.generation + 1, commit=new_name(), **changes)


def write(folder: Path, manifest: Manifest) -> None:
    """Commit: replace the folder's manifest by this one."""
    encoder = {"encoder": manifest.encoder, "options": dict(manifest.encoder_options)}
    body = {**asdict(manifest), "encoder_hash": _digest(encoder)}
    fields = {"format": INDEX_FORMAT, "checksum": _digest(body), "index": body}
    replace_file(folder / MANIFEST_FILE, json.dumps(fields, indent=1, ensure_ascii=False).encode())


def read(folder: Folder) -> Manifest:
    """Return the manifest of the last commit."""
    return parse(folder.path, _text(folder))


def mark(folder: Path) -> bytes:
    """Return the beginning of the last commit's manifest with its checksum, which no other commit has.

    This takes a few microseconds, and finds a commit as soon as it is made.
    """
    handle = os.open(folder / MANIFEST_FILE, os.O_RDONLY)
    try:
        return os.read(handle, MARK_BYTES)
    finally:
        os.close(handle)


def has_manifest(folder: Path) -> bool:
    """Return whether a folder is an index of any format."""
    return (folder / MANIFEST_FILE).exists()


def format_of(folder: Folder) -> int:
    """Return the format of the index in a folder, which this version may not be able to read."""
    return _format(folder.path / MANIFEST_FILE, _json_object(folder.path / MANIFEST_FILE, _text(folder)))


def parse(folder: Path, text: bytes) -> Manifest:
    """Return the manifest in the text of a file."""
    path = folder / MANIFEST_FILE
    fields = _json_object(path, text)
    check_format(folder, _format(path, fields))
    manifest = _manifest(checked_body(path, fields))
    if unknown := sorted(set(manifest.needs) - FEATURES):
        raise IndexFormatError(f"{path}: needs {', '.join(unknown)}, which this version lacks; upgrade denslice")
    return manifest


def check_format(folder: Path, found: int) -> None:
    """Raise IndexFormatError, which says what to do, if this version does not read the format."""
    if found == INDEX_FORMAT:
        return
    if found in UPGRADABLE_FORMATS:
        advice = f"run `denslice upgrade {folder}`, which keeps the documents and their vectors"
    else:
        advice = "upgrade denslice to read it" if found > INDEX_FORMAT else "make the index again"
    path = folder / MANIFEST_FILE
    raise IndexFormatError(f"{path}: index format {found}, this version reads format {INDEX_FORMAT}; {advice}")


def checked_body(path: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a manifest; raise IndexFormatError if its checksum differs."""
    body = fields.get("index")
    if not isinstance(body, dict) or fields.get("checksum") != _digest(body):
        raise damaged(path, "its contents differ from what was written")
    return body


def _text(folder: Folder) -> bytes:
    try:
        return folder.read(MANIFEST_FILE)
    except IndexFormatError:
        if has_manifest(folder.path):
            raise
        raise IndexFormatError(f"{folder.path}: not an index (no {MANIFEST_FILE} in it)") from None


def _format(path: Path, fields: Mapping[str, Any]) -> int:
    found = fields.get("format")
    if not isinstance(found, int):
        raise damaged(path, f"index format {found!r} is not a number")
    return found


def _json_object(path: Path, text: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise damaged(path, f"is not JSON ({error})") from None
    if not isinstance(fields, dict):
        raise damaged(path, "is not a JSON object")
    return fields


def _manifest(body: dict[str, Any]) -> Manifest:
    fields = _known(Manifest, body)
    fields["filterable"], fields["needs"] = tuple(fields["filterable"]), tuple(fields["needs"])
    slicing = fields["slicing"]
    fields["slicing"] = SlicingEntry(**{**_known(SlicingEntry, slicing), "places": _file(slicing["places"])})
    fields["segments"] = tuple(map(_segment, fields["segments"]))
    fields["vocabulary"] = tuple(FileEntry(one["name"], _stored(one["file"])) for one in fields["vocabulary"])
    fields["roots"] = tuple(map(_root, fields.get("roots", ())))
    return Manifest(**fields)


def _known(kind: type[Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that this version has. A later one may add others; those a reader must know are in `needs`."""
    names = {one.name for one in fields_of(kind)}
    return {name: value for name, value in entry.items() if name in names}


def _segment(entry: dict[str, Any]) -> SegmentEntry:
    files = {name: _stored(stored) for name, stored in entry["files"].items()}
    return SegmentEntry(**{**_known(SegmentEntry, entry), "files": files, "deletions": _file(entry["deletions"])})


def _root(entry: dict[str, Any]) -> RootEntry:
    parts, files = tuple(entry["parts"]), _file(entry["files"])
    return RootEntry(**{**_known(RootEntry, entry), "parts": parts, "files": files})


def _file(entry: dict[str, Any] | None) -> FileEntry | None:
    return None if entry is None else FileEntry(entry["name"], _stored(entry["file"]))


def _stored(entry: dict[str, Any]) -> StoredFile:
    return StoredFile(**_known(StoredFile, entry))


def _digest(body: Mapping[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
