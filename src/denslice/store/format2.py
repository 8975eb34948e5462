"""The reader of format 2 for `denslice upgrade`: each array is a .npy file, beside the SQLite file of documents."""

from __future__ import annotations

import fcntl
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from denslice.errors import LockedError
from denslice.records import Doc
from denslice.slicing import Slicing
from denslice.store import manifest as manifests
from denslice.store.files import cannot_read, damaged, load_array, sha256_of
from denslice.store.folder import Folder
from denslice.store.segment import ForwardIndex
from denslice.store.segment_writer import StoredBatch
from denslice.vectors import Ints


class Format2:
    """An index of format 2. The checksum of every file is verified before it is read, so no damage is copied."""

    def __init__(self, home: Folder) -> None:
        self.folder = home.path
        path = self.folder / manifests.MANIFEST_FILE
        manifest = json.loads(home.read(manifests.MANIFEST_FILE))
        self.body = manifests.checked_body(path, manifest)
        self.commit = str(manifest["checksum"])  # format 2 has no other name for a commit
        self.docs = sum(one["rows"] - one["deleted"] for one in self.body["segments"])

    @property
    def average_length(self) -> float:
        """The average length of the documents in words, by which BM25 weighs new ones."""
        return float(sum(one["length"] for one in self.body["segments"]) / max(1, self.docs)) or 1.0

    @cached_property
    def words(self) -> list[str]:
        """The words of the vocabulary, in the order of their ids."""
        found: list[str] = []
        for piece in self.body["vocabulary"]:
            folder = self._checked("vocabulary", piece)
            text, starts = load_array(folder / "words.npy").tobytes(), load_array(folder / "starts.npy").tolist()
            found += [text[start:end].decode("utf-8", errors="surrogatepass") for start, end in pairwise(starts)]
        return found

    @cached_property
    def slicing(self) -> Slicing | None:
        """The slicing, or None if the index never had a document."""
        entry = self.body["slicing"]
        if entry["vocab"] is None:
            return None
        if entry["places"] is None:
            return Slicing.stride(entry["vocab"], entry["slices"], entry["skip"])
        self._check_file(self.folder / "slicing.npy", entry["places"])
        places = load_array(self.folder / "slicing.npy")
        return Slicing.checked(entry["kind"], entry["slices"], entry["skip"], places)

    def check_no_reader(self) -> None:
        """Raise LockedError if a process has the index open, since the upgrade removes the files it reads."""
        with (self.folder / manifests.MANIFEST_FILE).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise LockedError(f"{self.folder}: a process is reading this index; end it, then upgrade") from None

    def segments(self) -> Iterator[tuple[int, Iterator[StoredBatch]]]:
        """Yield the number of live documents of each segment and, in batches, all that is stored of them."""
        for entry in self.body["segments"]:
            yield entry["rows"] - entry["deleted"], self._batches(entry)

    def _batches(self, entry: dict[str, Any], size: int = 2_048) -> Iterator[StoredBatch]:
        folder = self._checked("segments", entry)
        rows = np.arange(entry["rows"])
        if entry["deletions"] is not None:
            bits = load_array(folder / f"deleted-{entry['deletions']:08d}.npy")
            rows = np.flatnonzero(np.unpackbits(bits, count=entry["rows"], bitorder="little") == 0)
        lengths = load_array(folder / "lengths.npy").astype(np.int64)
        dense = load_array(folder / "dense.npy") if "dense.npy" in entry["files"] else None
        kept, lost = _rows(folder, "row"), _rows(folder, "lost")
        for start in range(0, len(rows), size):
            some = rows[start : start + size]
            vectors = None if dense is None else dense[some]
            yield StoredBatch(_docs(folder, some), kept.of(some), lost.of(some), lengths[some], vectors)

    def _checked(self, part: str, entry: dict[str, Any]) -> Path:
        folder = self.folder / part / str(entry["name"])
        for name, stored in entry["files"].items():
            self._check_file(folder / name, stored)
        return folder

    def _check_file(self, path: Path, stored: dict[str, Any]) -> None:
        try:
            if path.stat().st_size != stored["bytes"] or sha256_of(path) != stored["sha256"]:
                raise damaged(path, "its contents differ from what was written")
        except OSError as error:
            raise cannot_read(path, error) from error


def _rows(folder: Path, name: str) -> ForwardIndex:
    starts, keys, weights = (load_array(folder / f"{name}_{part}.npy") for part in ("starts", "keys", "weights"))
    return ForwardIndex(folder, starts, keys, weights.view(np.uint16))


def _docs(folder: Path, rows: Ints) -> list[Doc]:
    address = f"{(folder / 'docs.sqlite').as_uri()}?mode=ro&immutable=1"
    select = "SELECT docs.id, text, title, meta FROM json_each(?) AS wanted JOIN docs ON docs.row = wanted.value"
    with closing(sqlite3.connect(address, uri=True)) as connection:
        found = connection.execute(f"{select} ORDER BY docs.row", [json.dumps(rows.tolist())]).fetchall()
    return [Doc(id, text, title, json.loads(meta)) for id, text, title, meta in found]
