"""The cluster folder: one head, which has the slicing and the vocabulary and no documents, and the shards.

Head and shards are ordinary indexes. A document belongs to the shard that a hash of its id names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from denslice.errors import IndexFormatError, InputError
from denslice.store.files import replace_file

FORMAT = 1
NAME = "cluster.json"
BUILDING = "building"


@dataclass(frozen=True)
class Layout:
    """Where the parts of a cluster are."""

    folder: Path
    shards: int

    @property
    def head(self) -> Path:
        """The index without documents."""
        return self.folder / "head"

    def shard(self, number: int) -> Path:
        """The index of one shard."""
        return self.folder / "shards" / f"{number:05d}"

    def owner(self, id: str) -> int:
        """The shard that a document with this id belongs to."""
        return owner(id, self.shards)

    def by_owner(self, ids: Iterable[str]) -> dict[int, list[str]]:
        """The ids, by the shard they belong to."""
        owned: dict[int, list[str]] = {}
        for id in ids:
            owned.setdefault(self.owner(id), []).append(id)
        return owned

    def write(self) -> None:
        """Makes the folder a cluster: from here on it can be opened."""
        told = {"format": FORMAT, "shards": self.shards, "owner": "blake2b-8 of the id, modulo shards"}
        replace_file(self.folder / NAME, json.dumps(told, indent=1).encode())


def owner(id: str, shards: int) -> int:
    """The shard of an id: the same in every process, on every machine, in every version of Python."""
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8).digest(), "big") % shards


def is_cluster(folder: Path) -> bool:
    """Whether a finished cluster is there."""
    return (folder / NAME).is_file()


def read_layout(folder: Path) -> Layout:
    """The cluster in a folder."""
    path = folder / NAME
    if not folder.exists():
        raise InputError(f"{folder}: no such cluster")
    if not path.exists():
        begun = (folder / BUILDING).is_dir()
        advice = "its build was interrupted: give the same `denslice index` command again" if begun else f"no {NAME}"
        raise IndexFormatError(f"{folder}: not a cluster ({advice})")
    try:
        told = json.loads(path.read_bytes())
        found, shards = told["format"], told["shards"]
    except (ValueError, KeyError, TypeError) as error:
        raise IndexFormatError(f"{path}: cannot be read ({error}); the cluster is damaged") from error
    if found != FORMAT or not isinstance(shards, int) or shards < 1:
        raise IndexFormatError(f"{path}: cluster format {found!r} with {shards!r} shards; this version reads {FORMAT}")
    return Layout(folder, shards)
