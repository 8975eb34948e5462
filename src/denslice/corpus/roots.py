"""Roots: the folders that an index follows, and the ids of files in them: the root's name and the path in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path

from denslice.corpus.printable_names import printable_name


@dataclass(frozen=True)
class Root:
    """A followed folder: the name that ids begin with, and its absolute path without links."""

    name: str
    location: str
    whole: bool = True  # whether all of its files are followed, or only some


def located(path: Path, known: Sequence[Root], is_folder: bool) -> tuple[Root, str]:
    """Return the root that a path belongs to and its path in it: a known root, or a new one that no known one contains.

    A new root is the folder itself, or the folder of a single file.
    """
    real = path.resolve()
    folder = real if is_folder else real.parent
    inside = [root for root in known if _contains(root, real, is_folder)]
    if inside:
        root = max(inside, key=lambda one: len(Path(one.location).parts))
    else:
        root = _moved(folder, known) or Root(_free_name(folder, known), str(folder), is_folder)
    return root, "/".join(map(printable_name, real.relative_to(root.location).parts))


def _contains(root: Root, real: Path, is_folder: bool) -> bool:
    """Return whether a root has a path in it. A root of single files has no folders but itself."""
    if is_folder and not root.whole:
        return str(real) == root.location
    if not root.whole:
        return str(real.parent) == root.location
    return real.is_relative_to(root.location)


def _moved(folder: Path, known: Sequence[Root]) -> Root | None:
    """Return the root of the same name whose folder is gone, with the new place."""
    gone = [root for root in known if root.name == _name(folder.parts[-1:]) and not Path(root.location).is_dir()]
    return replace(gone[0], location=str(folder)) if gone else None


def _free_name(folder: Path, known: Sequence[Root]) -> str:
    taken = [root.name for root in known]
    return next(name for name in _names(folder) if not any(_clash(name, other) for other in taken))


def _names(folder: Path) -> Iterator[str]:
    """Yield possible names: the folder's own, with more and more of the folders above it, and at last numbered ones."""
    longer = (_name(folder.parts[-depth:]) for depth in range(1, len(folder.parts)))
    first = _name(folder.parts[-1:])
    return chain(longer, [first], (f"{first}-{number}" for number in count(2)))


def _name(parts: Sequence[str]) -> str:
    return "/".join(printable_name(part) for part in parts if part != "/") or "root"


def _clash(one: str, other: str) -> bool:
    """Return whether files of two roots could have the same id."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
