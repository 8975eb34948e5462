"""The ignore files that count in a folder: its own, and those of the folders above it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from stat import S_ISREG
from typing import NamedTuple

from denslice.corpus.ignore_rules import IgnoreRules, parse_rules

GIT_IGNORE, OWN_IGNORE = ".gitignore", ".densliceignore"
LARGEST_IGNORE_FILE = 1 << 20  # bytes

Unread = Callable[[Path, str], None]  # is called with the path of an ignore file, and why it does not count


class ScopedRules(NamedTuple):
    """The rules of an ignore file, and the length of its folder's path, which they do not match."""

    scope: int
    rules: IgnoreRules


class IgnoreChain(NamedTuple):
    """The ignore files that count in a folder, the nearest first. Paths are relative to the uppermost one's folder.

    Any .densliceignore wins over any .gitignore. Git leaves out all that is in a folder it leaves out; here, a negated
    rule of a .densliceignore keeps paths below such a folder: `!data/kept.md`.
    """

    own: tuple[ScopedRules, ...] = ()
    git: tuple[ScopedRules, ...] = ()
    left_out: bool = False  # the folder itself: in it, only what a .densliceignore keeps is kept

    def keeps(self, path: str, is_folder: bool) -> bool:
        """Return whether a file or folder directly in this chain's folder is kept."""
        if (own := _decision(self.own, path, is_folder)) is not None:
            return not own
        return not (self.left_out or _decision(self.git, path, is_folder))

    def below(self, folder: str) -> IgnoreChain | None:
        """Return the chain for what is in a folder, or None if nothing in it is kept."""
        if self.keeps(folder, True):
            return self._replace(left_out=False) if self.left_out else self
        if _decision(self.own, folder, True) is None and self._may_keep_below(folder):
            return self._replace(left_out=True)
        return None

    def _may_keep_below(self, folder: str) -> bool:
        return any(rules.may_keep_below(folder[scope:]) for scope, rules in self.own)

    def with_files_of(self, folder: Path, path: str, unread: Unread) -> IgnoreChain:
        """Return the chain with the ignore files of a folder, whose path from the uppermost one ends in a slash."""
        own, git = (_read(folder / name, unread) for name in (OWN_IGNORE, GIT_IGNORE))
        return self._replace(
            own=(ScopedRules(len(path), own), *self.own) if own else self.own,
            git=(ScopedRules(len(path), git), *self.git) if git else self.git,
        )


def chain_above(folder: Path, unread: Unread) -> tuple[IgnoreChain, str]:
    """Return the chain of the folders above a folder in its git repository, and the path from the uppermost to it.

    It is empty outside of a repository, and if the repository leaves out the folder itself: somebody who names such a
    folder wants what is in it.
    """
    above = _in_repository(Path(os.path.realpath(folder)))
    chain, path = IgnoreChain(), ""
    for outer, inner in pairwise(above):
        chain = chain.with_files_of(outer, path, unread)
        path += inner.name
        below = chain.below(path)
        if below is None or below.left_out:
            return IgnoreChain(), ""
        path += "/"
    return chain, path


def _in_repository(folder: Path) -> list[Path]:
    """Return the folders from the root of a folder's repository to the folder, which is alone without a repository."""
    upwards: list[Path] = []
    for one in (folder, *folder.parents):
        upwards.append(one)
        if os.path.lexists(one / ".git"):
            return upwards[::-1]
    return [folder]


def _decision(nearest_first: Iterable[ScopedRules], path: str, is_folder: bool) -> bool | None:
    """Return whether the nearest ignore file with a rule for a path leaves it out, or None if none has one."""
    for scope, rules in nearest_first:
        if (decision := rules.leaves_out(path[scope:], is_folder)) is not None:
            return decision
    return None


def _read(path: Path, unread: Unread) -> IgnoreRules | None:
    """Return the rules of an ignore file, or None if there is none. Like git, do not follow a link."""
    try:
        if not S_ISREG(path.lstat().st_mode):
            return None
        with path.open("rb") as file:
            raw = file.read(LARGEST_IGNORE_FILE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        unread(path, str(error.strerror or error))
        return None
    if len(raw) > LARGEST_IGNORE_FILE:
        unread(path, f"larger than {LARGEST_IGNORE_FILE >> 20} MB")
        return None
    return parse_rules(raw)
