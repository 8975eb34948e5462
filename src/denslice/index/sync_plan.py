"""What a sync has to do: the files of a followed folder, compared with what was read from it before.

A file is unchanged if its size and time are. Otherwise a digest of its bytes decides, which also finds renamed files.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from denslice.corpus.folder_walk import FoundFile, walk
from denslice.corpus.formats.source_file import Problem
from denslice.corpus.printable_names import original_name
from denslice.corpus.roots import Root, located
from denslice.errors import InputError
from denslice.store.followed_files import FileList, FollowedFile

UNREADABLE_FOLDER = "unreadable folder"  # its files may be there, so nothing is deleted
RACY_NS = 2_000_000_000  # a file may change again within this time and keep its size and time
Report = Callable[[Problem], None]


@dataclass(frozen=True)
class Scope:
    """A root, and the part of it that is looked at: all of it if `within` is empty."""

    root: Root
    within: str = ""

    def has(self, relative: str) -> bool:
        """Return whether a file of the root is looked at."""
        return not self.within or relative == self.within or relative.startswith(f"{self.within}/")


@dataclass
class RootPlan:
    """The files of one root: which are unchanged, to be read, and gone. Paths are relative to the root."""

    root: Root
    text_field: str | None
    listed: FileList
    found: dict[str, FoundFile] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)  # of files that are new, or have another size or time
    to_read: list[str] = field(default_factory=list)
    kept: FileList = field(default_factory=dict)  # the others, with the times that they have now
    gone: list[str] = field(default_factory=list)
    twins: dict[str, str] = field(default_factory=dict)  # of a file to read, the listed file with the same bytes
    problems: list[Problem] = field(default_factory=list)

    @property
    def added(self) -> list[str]:
        """The new files, without renamed ones."""
        renamed = self.renamed
        return [name for name in self.to_read if name not in self.listed and name not in renamed]

    @property
    def changed(self) -> list[str]:
        """The files that were listed before and are to be read again."""
        return [name for name in self.to_read if name in self.listed]

    @property
    def renamed(self) -> dict[str, str]:
        """The new files that have the bytes of a file that is gone, with the names of those files; each counts once."""
        left, found = set(self.gone), dict[str, str]()
        for name in self.to_read:
            if name not in self.listed and self.twins.get(name) in left:
                found[name] = self.twins[name]
                left.remove(self.twins[name])
        return found

    def id_of(self, relative: str) -> str:
        """Return the name of a file in ids and problems."""
        return self.root.id_of(relative)

    def ids(self, relative: str, file: FollowedFile) -> tuple[str, ...]:
        """Return the ids of the documents that a listed file has."""
        return (self.id_of(relative),) if file.ids is None else file.ids


def scopes(paths: Sequence[Path], known: Sequence[Root]) -> list[Scope]:
    """Return what is looked at: the parts of roots that the paths name, or every known root if there are none."""
    if not paths:
        return [Scope(root) for root in known]
    roots, found = list(known), list[Scope]()
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder; nothing was changed")
        root, within = located(path, roots, path.is_dir())
        root = root.with_part(within)
        roots = [one for one in roots if one.name != root.name] + [root]
        found += [Scope(root, within)]
        found += [Scope(one) for one in roots if one.name != root.name and _is_in(one, path)]
    return list(dict.fromkeys(found))


def plan(scope: Scope, listed: FileList, text_field: str | None, others: Sequence[Root]) -> RootPlan:
    """Compare the files of a root with the list of what was read before."""
    done = RootPlan(scope.root, text_field, listed)
    now = time.time_ns()

    def report(problem: Problem) -> None:
        if scope.has(problem.place):
            done.problems.append(problem._replace(place=done.id_of(problem.place)))

    for file in _found_files(scope, others, report):
        done.found[file.relative] = file
        before = listed.get(file.relative)
        if before is not None and _is_same(file, before):
            done.kept[file.relative] = before
        else:
            _compare(done, file, before, now)
    hidden = [problem.place for problem in done.problems if problem.kind == UNREADABLE_FOLDER]
    unseen = {name for name in listed if not scope.has(name) or _is_below(done.id_of(name), hidden)}
    done.gone = [name for name in listed if name not in unseen and name not in done.found]
    done.kept |= {name: listed[name] for name in unseen}
    by_digest = {file.digest: name for name, file in listed.items() if file.digest}
    done.twins = {name: by_digest[one] for name in done.to_read if (one := done.digests.get(name, "")) in by_digest}
    return done


def listed_file(
    done: RootPlan, relative: str, ids: tuple[str, ...] | None, problems: Sequence[Problem], now: int, retry: bool
) -> FollowedFile:
    """Return the entry of a file that was read."""
    file = done.found[relative]
    digest = (
        "" if retry else done.digests.get(relative, done.listed[relative].digest if relative in done.listed else "")
    )
    return FollowedFile(file.size, _time(file, now), digest, ids, tuple(tuple(one) for one in problems))  # type: ignore[misc]


def _is_below(name: str, folders: Sequence[str]) -> bool:
    return any(name.startswith(f"{folder}/") for folder in folders)


def _is_in(root: Root, folder: Path) -> bool:
    return root.folder.is_relative_to(folder.resolve())


def _found_files(scope: Scope, others: Sequence[Root], report: Report) -> Iterator[FoundFile]:
    """Yield the files of the scope in order, without those of other roots in it."""
    folder = scope.root.folder
    if not folder.is_dir():
        advice = (
            "nothing was deleted; sync it from where it is now, or make an empty folder there to delete its documents"
        )
        raise InputError(f"{folder}: the folder is gone; {advice}")
    inner = [one.folder for one in others if one.name != scope.root.name and one.whole]
    inner = [path for path in inner if path.is_relative_to(folder)]
    for file in _root_files(scope.root, report):
        if scope.has(file.relative) and not any(file.path.is_relative_to(path) for path in inner):
            yield file


def _root_files(root: Root, report: Report) -> Iterator[FoundFile]:
    """Yield the files of a root: all of them, or those that are its parts or in them."""
    if root.whole:
        yield from walk(root.folder, report)
        return
    for part in sorted(root.parts, key=lambda part: part.split("/")):
        path = root.folder / original_name(part)
        if path.is_dir():
            inside = partial(_report_inside, report, part)
            yield from (file._replace(relative=f"{part}/{file.relative}") for file in walk(path, inside))
        elif path.is_file():
            stat = path.stat()
            yield FoundFile(path, part, stat.st_size, stat.st_mtime_ns)


def _report_inside(report: Report, part: str, problem: Problem) -> None:
    report(problem._replace(place=f"{part}/{problem.place}"))


def _is_same(file: FoundFile, before: FollowedFile) -> bool:
    return bool(before.digest) and (file.size, file.modified_ns) == (before.size, before.modified_ns)


def _compare(done: RootPlan, file: FoundFile, before: FollowedFile | None, now: int) -> None:
    """Decide by its bytes whether a file is to be read. Of a table, another time alone changes nothing."""
    digest = digest_of(file.path)
    done.digests[file.relative] = digest
    is_same = before is not None and before.digest != "" and before.digest == digest
    if before and is_same and (before.ids is not None or abs(before.modified_ns) == file.modified_ns):
        done.kept[file.relative] = before._replace(size=file.size, modified_ns=_time(file, now))
    else:
        done.to_read.append(file.relative)


def _time(file: FoundFile, now: int) -> int:
    return -file.modified_ns if file.modified_ns > now - RACY_NS else file.modified_ns


def digest_of(path: Path) -> str:
    """Return a digest of the bytes of a file, or nothing if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError:
        return ""
