"""The manifest: the one file that says what an index holds. Renaming a new one into place is the commit."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from denslice.errors import IndexFormatError, InputError
from denslice.store.files import StoredFile, replace_file

FORMAT = 2  # 1 did not order postings by value
NAME = "manifest.json"
OLD = "old"
BLOCK = 65_536  # documents a posting block holds: as many as 16 bits can number, and scores fit a core's second cache


@dataclass(frozen=True)
class SlicingEntry:
    """How the index slices. `places` is the file of token places, once the first documents have settled them."""

    kind: str
    slices: int
    skip: int
    seed: int
    vocab: int | None = None
    places: StoredFile | None = None


@dataclass(frozen=True)
class PieceEntry:
    """A piece of the vocabulary."""

    name: str
    words: int
    files: Mapping[str, StoredFile]


@dataclass(frozen=True)
class SegmentEntry:
    """A segment: its rows, how many of them are deleted, its weights, the tokens of its live texts, and its files.

    `deletions` is the generation whose deletion files are in force.
    """

    name: str
    rows: int
    weights: int
    length: int
    files: Mapping[str, StoredFile]
    deleted: int = 0
    deletions: int | None = None

    @property
    def docs(self) -> int:
        """Documents that can be found."""
        return self.rows - self.deleted


@dataclass(frozen=True)
class Manifest:
    """Everything an index is, at one generation."""

    encoder: str
    encoder_options: Mapping[str, Any]
    slicing: SlicingEntry
    query: str  # "full" or "sliced"
    filterable: tuple[str, ...] = ()
    dimensions: int | None = None  # of the dense vectors, once there are any
    block: int = BLOCK
    generation: int = 0
    next_name: int = 1
    segments: tuple[SegmentEntry, ...] = ()
    vocabulary: tuple[PieceEntry, ...] = ()

    @property
    def docs(self) -> int:
        """Documents that can be found."""
        return sum(segment.docs for segment in self.segments)

    @property
    def encoder_hash(self) -> str:
        """A fingerprint of the encoder and its options."""
        return _digest({"encoder": self.encoder, "options": dict(self.encoder_options)})

    def next_generation(self, **changes: Any) -> Manifest:
        """The manifest after these changes."""
        return replace(self, generation=self.generation + 1, **changes)


def write(folder: Path, manifest: Manifest) -> None:
    """Commits: from here on the folder is at this manifest's generation.

    The manifest it takes the place of stays within reach in `old/`, where it tells the next sweep which files
    readers that hold it may still need.
    """
    body = {**asdict(manifest), "encoder_hash": manifest.encoder_hash}
    told = {"format": FORMAT, "checksum": _digest(body), "index": body}
    if manifest.generation:
        _link_old(folder, manifest.generation - 1)
    replace_file(folder / NAME, json.dumps(told, indent=1, ensure_ascii=False).encode())


def read(folder: Path) -> tuple[Manifest, int]:
    """The manifest of the last commit, and an open file that holds it.

    While the file is open no writer on this machine removes what the manifest names: sweeps try its lock first.
    """
    while True:
        handle = _open(folder / NAME)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
            if os.fstat(handle).st_nlink:  # else it was replaced, and its files swept, before we held it
                return parse(folder / NAME, os.pread(handle, os.fstat(handle).st_size, 0)), handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def still_held(folder: Path) -> list[Manifest]:
    """The replaced manifests that some reader holds; those that none holds are forgotten.

    A manifest is unlinked while its lock is ours: a reader that opened it but has no lock yet will find that it has
    no name any more, and start over.
    """
    held = []
    for path in sorted((folder / OLD).iterdir()):
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            except BlockingIOError:
                held.append(parse(path, file.read()))
    return held


def parse(path: Path, text: bytes) -> Manifest:
    """The manifest told by a file's text."""
    told = _json_object(path, text)
    found = told.get("format")
    if found != FORMAT:
        newer = isinstance(found, int) and found > FORMAT
        advice = "upgrade denslice to read it" if newer else "rebuild the index"
        raise IndexFormatError(f"{path}: index format {found!r}, this version reads format {FORMAT}; {advice}")
    body = told.get("index")
    if not isinstance(body, dict) or told.get("checksum") != _digest(body):
        raise IndexFormatError(f"{path}: contents differ from what was written; the index is damaged")
    return _manifest(body)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        if not path.parent.exists():
            raise InputError(f"{path.parent}: no such index") from None
        raise IndexFormatError(f"{path.parent}: not an index (no {NAME} in it)") from None
    except NotADirectoryError:
        raise IndexFormatError(f"{path.parent}: not an index, which is a folder") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def _link_old(folder: Path, generation: int) -> None:
    (folder / OLD).mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):  # a writer died between this and its commit
        os.link(folder / NAME, folder / OLD / f"{generation:08d}.json")


def _json_object(path: Path, text: bytes) -> dict[str, Any]:
    try:
        told = json.loads(text)
    except ValueError as error:
        raise IndexFormatError(f"{path}: not JSON ({error}); the index is damaged") from None
    if not isinstance(told, dict):
        raise IndexFormatError(f"{path}: not a manifest; the index is damaged")
    return told


def _manifest(body: dict[str, Any]) -> Manifest:
    fields = {name: value for name, value in body.items() if name != "encoder_hash"}
    fields["filterable"] = tuple(fields["filterable"])
    fields["slicing"] = SlicingEntry(**{**fields["slicing"], "places": _stored(fields["slicing"]["places"])})
    fields["segments"] = tuple(SegmentEntry(**{**s, "files": _files(s["files"])}) for s in fields["segments"])
    fields["vocabulary"] = tuple(PieceEntry(**{**p, "files": _files(p["files"])}) for p in fields["vocabulary"])
    return Manifest(**fields)


def _files(told: dict[str, Any]) -> dict[str, StoredFile]:
    return {name: StoredFile(**stored) for name, stored in told.items()}


def _stored(told: dict[str, Any] | None) -> StoredFile | None:
    return None if told is None else StoredFile(**told)


def _digest(body: Mapping[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
