"""The cluster folder: a head, which holds the slicing and the vocabulary but no documents, and the shards.

Head and shards are ordinary indexes. A hash of a document's id determines its shard.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from denslice.errors import IndexFormatError, InputError
from denslice.store.files import replace_file

CLUSTER_FORMAT = 1
CLUSTER_FILE = "cluster.json"
BUILD_FOLDER = "building"


@dataclass(frozen=True)
class Layout:
    """The paths of a cluster, and which shard owns a document."""

    folder: Path
    shards: int

    @property
    def head(self) -> Path:
        """The index without documents."""
        return self.folder / "head"

    def shard(self, number: int) -> Path:
        """Return the folder of a shard."""
        return self.folder / "shards" / f"{number:05d}"

    def owner(self, id: str) -> int:
        """Return the number of the shard that owns the document with this id."""
        return owner(id, self.shards)

    def by_owner(self, ids: Iterable[str]) -> dict[int, list[str]]:
        """Group ids by the shard that owns them."""
        owned: dict[int, list[str]] = {}
        for id in ids:
            owned.setdefault(self.owner(id), []).append(id)
        return owned

    def write(self) -> None:
        """Write cluster.json. From then on, the cluster can be opened."""
        content = {"format": CLUSTER_FORMAT, "shards": self.shards, "owner": "blake2b-8 of the id, modulo shards"}
        replace_file(self.folder / CLUSTER_FILE, json.dumps(content, indent=1).encode())


def owner(id: str, shards: int) -> int:
    """Return the shard that owns an id. It must never change: clusters on disk depend on it."""
    return int.from_bytes(hashlib.blake2b(id.encode(errors="surrogatepass"), digest_size=8).digest(), "big") % shards


def is_cluster(folder: Path) -> bool:
    """Return whether the folder holds a complete cluster."""
    return (folder / CLUSTER_FILE).is_file()


def read_layout(folder: Path) -> Layout:
    """Read the layout of the cluster in a folder."""
    path = folder / CLUSTER_FILE
    if not folder.exists():
        raise InputError(f"{folder}: no such cluster")
    if not path.exists():
        interrupted = "its build was interrupted; give the same `denslice index` command again"
        reason = interrupted if (folder / BUILD_FOLDER).is_dir() else f"no {CLUSTER_FILE}"
        raise IndexFormatError(f"{folder}: not a cluster ({reason})")
    try:
        content = json.loads(path.read_bytes())
        found, shards = content["format"], content["shards"]
    except (ValueError, KeyError, TypeError) as error:
        raise IndexFormatError(f"{path}: cannot be read ({error}); the cluster is damaged") from error
    if found != CLUSTER_FORMAT or not isinstance(shards, int) or shards < 1:
        problem = f"cluster format {found!r} with {shards!r} shards"
        raise IndexFormatError(f"{path}: {problem}; this version reads format {CLUSTER_FORMAT}")
    return Layout(folder, shards)
