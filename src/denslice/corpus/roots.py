"""The folders that an index follows, and the names they give to documents: `notes/sub/a.md`.

However a path is written, it is resolved first, so that a file has one id.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from stat import S_ISDIR

from denslice.corpus.printable_names import original_name, printable_name


@dataclass(frozen=True, slots=True)
class Root:
    """A folder that an index follows: all of its files if it is `whole`, else its `parts`: files and folders in it.

    `location` is its absolute path without links, as printable text; `folder` opens it. No two roots of an index have
    names of which one is the other or begins with it and a slash, so their documents never share an id.
    """

    name: str
    location: str
    whole: bool = True
    parts: tuple[str, ...] = ()

    def with_part(self, within: str) -> Root:
        """Return the root with one more of its files or folders followed."""
        is_known = self.whole or any(f"{within}/".startswith(f"{part}/") for part in self.parts)
        return self if is_known else replace(self, parts=(*self.parts, within))

    @property
    def folder(self) -> Path:
        """The path of the folder."""
        return Path(original_name(self.location))

    def id_of(self, relative: str) -> str:
        """Return the id of the document at a path within the root."""
        return f"{self.name}/{relative}"


def located(path: Path, known: Sequence[Root], is_folder: bool) -> tuple[Root, str]:
    """Return the root that a path belongs to, and the path within it as printable text: "" for the root itself.

    It is the deepest known root that contains the path, else a new one: a folder itself, or the folder of a single
    file. A folder with the name of a known root whose folder is gone is that root, which was moved.
    """
    real = Path(os.path.realpath(path))
    if found := _containing(real, known) or _containing_a_link(path, known):
        root, within = found
        return (replace(root, whole=True) if is_folder and not within else root), within
    folder = real if is_folder else real.parent
    return _new_or_moved(folder, known, whole=is_folder), _text(real.relative_to(folder))


def _containing(real: Path, known: Sequence[Root]) -> tuple[Root, str] | None:
    """Return the deepest known root that contains a path without links, and the path within it."""
    containing = [root for root in known if real.is_relative_to(root.folder)]
    if not containing:
        return None
    deepest = max(containing, key=lambda root: len(root.folder.parts))
    return deepest, _text(real.relative_to(deepest.folder))


def _containing_a_link(path: Path, known: Sequence[Root]) -> tuple[Root, str] | None:
    """Return the known root in which a path goes through a link that leads out of it, and the path within the root.

    A walk through the root names files behind such a link in the same way.
    """
    absolute = Path.cwd() / path
    for folder in absolute.parents:
        behind = absolute.relative_to(folder)
        if ".." in behind.parts:  # what it leads to depends on the links before it
            return None
        if found := _containing(Path(os.path.realpath(folder)), known):
            root, within = found
            return root, f"{within}/{_text(behind)}".removeprefix("/")
    return None


def _new_or_moved(folder: Path, known: Sequence[Root], whole: bool) -> Root:
    """Return the root of a folder that no known root contains."""
    new = Root("", printable_name(str(folder)), whole)
    return next(root for name in _names(folder) if (root := _named(name, new, known)))


def _named(name: str, new: Root, known: Sequence[Root]) -> Root | None:
    """Return the root under a name: a new one if the name is free, a moved one if its folder is gone, else None."""
    is_gone = new.whole and any(root.name == name and _is_gone(root) for root in known)
    return replace(new, name=name) if is_gone or _is_free(name, known) else None


def _names(folder: Path) -> Iterator[str]:
    """Yield the names that a root may have, best first: `notes`, `work/notes`, `home/work/notes`, `notes-2` …"""
    parts = [printable_name(part) for part in folder.parts[1:]] or ["root"]
    for length in range(1, len(parts) + 1):
        yield "/".join(parts[-length:])
    yield from (f"{parts[-1]}-{number}" for number in count(2))


def _is_free(name: str, known: Sequence[Root]) -> bool:
    return not any(f"{root.name}/".startswith(f"{name}/") or f"{name}/".startswith(f"{root.name}/") for root in known)


def _is_gone(root: Root) -> bool:
    """Return whether a root's folder is not there any more; one that may not be looked at is not gone."""
    try:
        return not S_ISDIR(root.folder.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def _text(path: Path) -> str:
    return printable_name(path.as_posix()) if path.parts else ""
