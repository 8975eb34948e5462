"""Paths and ids: which file a document was read from, and which document a path names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from denslice.corpus.printable_names import original_name
from denslice.corpus.roots import Root, located
from denslice.store.manifest import Manifest


def followed_roots(manifest: Manifest) -> list[Root]:
    """Return the folders that an index follows."""
    return [Root(one.name, one.location, one.whole, one.parts) for one in manifest.roots]


def file_of(manifest: Manifest, meta: Mapping[str, Any]) -> Path | None:
    """Return the file that a document with this metadata was read from, if it is there."""
    name = meta.get("path")
    if not isinstance(name, str):
        return None
    for root in followed_roots(manifest):
        if name.startswith(f"{root.name}/"):
            path = root.folder / original_name(name.removeprefix(f"{root.name}/"))
            return path if path.exists() else None
    return None


def id_at(manifest: Manifest, path: Path) -> str | None:
    """Return the id of the document that a file is, or None if the index does not follow the file's folder."""
    roots = followed_roots(manifest)
    root, within = located(path, roots, is_folder=False)
    return root.id_of(within) if root in roots else None
