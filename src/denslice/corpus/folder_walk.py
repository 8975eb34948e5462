"""The files of a folder at any depth that can be documents, in an order that is the same on every machine.

What is left out without a word: left_out_files.py, and what .gitignore and .densliceignore files name. What cannot be
read is reported.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from denslice.corpus.formats.source_file import Problem
from denslice.corpus.ignore_chain import IgnoreChain, Unread, chain_above
from denslice.corpus.left_out_files import is_left_out_folder, is_left_out_name
from denslice.corpus.lines import reading
from denslice.corpus.printable_names import printable_name

BEIR_CORPUS, BEIR_QUERIES = "corpus.jsonl", "queries.jsonl"
EFFECTIVE_IDS = os.access in os.supports_effective_ids

Entry = os.DirEntry[str]


class FoundFile(NamedTuple):
    """A file in a folder. `relative` is its path there as printable text, with / and unique; `path` opens it."""

    path: Path
    relative: str
    size: int  # bytes
    modified_ns: int


def walk(folder: Path, report: Callable[[Problem], None]) -> Iterator[FoundFile]:
    """Yield the files of a folder in the order of the parts of their relative paths; report what cannot be read.

    A link is followed if what it leads to is not in the walk by itself, and once. Of a BEIR folder, only the corpus is
    yielded. Raise InputError if the folder itself cannot be read.
    """
    with reading(folder):
        os.scandir(folder).close()
    return FolderWalk(folder, report).files()


def beir_corpus(folder: Path) -> Path | None:
    """Return the corpus of a BEIR folder, which has queries beside it, or None if the folder is none."""
    with reading(folder):
        return _one_of(folder, BEIR_CORPUS) if _one_of(folder, BEIR_QUERIES) else None


def _one_of(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


class WalkedFolder(NamedTuple):
    """A folder in the walk."""

    path: Path  # opens it
    real: Path  # the same without links
    relative: str  # from the walked folder, with a slash at the end; "" for that folder
    chain: IgnoreChain  # for what is in it; without its own ignore files until it is opened
    is_linked: bool = False  # it was reached through a link

    def inner(self, name: str, chain: IgnoreChain) -> WalkedFolder:
        """Return the folder of this name in this folder, as if it were no link."""
        return WalkedFolder(self.path / name, self.real / name, f"{self.relative}{name}/", chain, self.is_linked)


class FolderWalk:
    """One walk, and what it has seen, so that nothing is followed twice."""

    def __init__(self, folder: Path, report: Callable[[Problem], None]) -> None:
        self._report = report
        chain, self._above = chain_above(folder, self._unread)
        self._top = WalkedFolder(folder, _real(folder), "", chain)
        self._starts: dict[Path, WalkedFolder] = {}  # by real path: the walked folder, and those that links led to
        self._above_starts: set[Path] = set()
        self._seen: set[tuple[int, int]] = set()  # device and inode of folders
        self._followed: set[Path] = set()  # real paths of files that were reached through links
        self._opened: dict[str, WalkedFolder | None] = {}  # by relative path, for links into them

    def files(self) -> Iterator[FoundFile]:
        """Yield the files of the walk."""
        self._is_new(self._top.path.stat())
        self._start(self._top)
        stack = [self._inside(self._top)]
        while stack:
            if (one := next(stack[-1], None)) is None:
                stack.pop()
                continue
            found = self._found(*one)
            if isinstance(found, FoundFile):
                yield found
            elif found:
                stack.append(self._inside(found))

    def _inside(self, folder: WalkedFolder) -> Iterator[tuple[WalkedFolder, Entry]]:
        """Yield what may be of use in a folder, in order, each with the folder."""
        try:
            entries = _entries(folder)
        except OSError as error:
            self._problem(folder.relative.removesuffix("/"), "unreadable folder", _reason(error))
            return
        if opened := self._open(folder, entries, self._unread):
            yield from ((opened, entry) for entry in _visible(opened, entries))

    def _open(self, folder: WalkedFolder, entries: Mapping[str, Entry], unread: Unread) -> WalkedFolder | None:
        """Return the folder with its own ignore files, or None if it is left out for what is in it."""
        if folder.relative and is_left_out_folder(entries):
            return None
        chain = folder.chain.with_files_of(folder.path, self._above + folder.relative, unread)
        return folder._replace(chain=chain)

    def _found(self, folder: WalkedFolder, entry: Entry) -> FoundFile | WalkedFolder | None:
        try:
            return self._folder(folder, entry) if entry.is_dir() else self._file(folder, entry)
        except OSError as error:
            if self._keeps(folder, entry.name):
                self._not_found(folder.relative + entry.name, _is_link(entry), error)
            return None

    def _folder(self, folder: WalkedFolder, entry: Entry) -> WalkedFolder | None:
        """Return a folder in a folder, or None if it is left out or was seen before."""
        chain = folder.chain.below(self._above + folder.relative + entry.name)
        if chain is None:
            return None
        inner = folder.inner(entry.name, chain)
        if entry.is_symlink():
            inner = inner._replace(real=_real(inner.path), is_linked=True)
            if inner.real in self._above_starts or self._is_walked(inner.real, True):
                return None
        if not self._is_new(entry.stat()):
            return None
        if entry.is_symlink():
            self._start(inner)
        return inner

    def _file(self, folder: WalkedFolder, entry: Entry) -> FoundFile | None:
        """Return a file in a folder, or None if it is left out, or cannot be read, which is reported."""
        relative = folder.relative + entry.name
        if not self._keeps(folder, entry.name):
            return None
        status = entry.stat()
        if not stat.S_ISREG(status.st_mode):
            self._problem(relative, "special file", _special(status.st_mode))
        elif not self._is_elsewhere(folder, entry):
            if os.access(entry.path, os.R_OK, effective_ids=EFFECTIVE_IDS):
                return FoundFile(Path(entry.path), printable_name(relative), status.st_size, status.st_mtime_ns)
            self._problem(relative, "unreadable file", os.strerror(errno.EACCES))
        return None

    def _keeps(self, folder: WalkedFolder, name: str) -> bool:
        return folder.chain.keeps(self._above + folder.relative + name, False)

    # --- links

    def _start(self, folder: WalkedFolder) -> None:
        """Remember a folder that is walked though no folder above it is."""
        self._starts[folder.real] = folder
        self._above_starts.update(folder.real.parents)

    def _is_new(self, status: os.stat_result) -> bool:
        """Return whether a folder was not seen before, and remember it."""
        identity = (status.st_dev, status.st_ino)
        is_new = identity not in self._seen
        self._seen.add(identity)
        return is_new

    def _is_elsewhere(self, folder: WalkedFolder, entry: Entry) -> bool:
        """Return whether a file that is reached through a link has another place in the walk."""
        if not (folder.is_linked or entry.is_symlink()):
            return False
        real = _real(Path(entry.path)) if entry.is_symlink() else folder.real / entry.name
        if real in self._followed or (entry.is_symlink() and self._is_walked(real, False)):
            return True
        self._followed.add(real)
        return False

    def _is_walked(self, real: Path, is_folder: bool) -> bool:
        """Return whether the walk comes to a path by itself, now or later."""
        above = (self._starts[one] for one in (real, *real.parents) if one in self._starts)
        return any(self._leads(start, real, is_folder) for start in above)

    def _leads(self, start: WalkedFolder, real: Path, is_folder: bool) -> bool:
        if real == start.real:
            return True
        *names, last = real.relative_to(start.real).parts
        folder = self._opened_once(start)
        for name in names:
            chain = folder.chain.below(self._above + folder.relative + name) if folder else None
            if folder is None or chain is None or is_left_out_name(name):
                return False
            folder = self._opened_once(folder.inner(name, chain))
        if folder is None or is_left_out_name(last):
            return False
        path = self._above + folder.relative + last
        return folder.chain.below(path) is not None if is_folder else folder.chain.keeps(path, False)

    def _opened_once(self, folder: WalkedFolder) -> WalkedFolder | None:
        """Return the folder with its own ignore files, or None if it is left out or cannot be read."""
        if folder.relative not in self._opened:
            try:
                opened = self._open(folder, _entries(folder), _ignored)
            except OSError:
                opened = None
            self._opened[folder.relative] = opened
        return self._opened[folder.relative]

    # --- problems

    def _problem(self, relative: str, kind: str, problem: str) -> None:
        self._report(Problem(printable_name(relative) or ".", kind, problem))

    def _not_found(self, relative: str, is_link: bool, error: OSError) -> None:
        """Report a link to nothing, or a file that the system refuses; a file that is gone is no problem."""
        if is_link and error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            self._problem(relative, "broken link", "leads to no file")
        elif error.errno != errno.ENOENT:
            self._problem(relative, "unreadable file", _reason(error))

    def _unread(self, path: Path, reason: str) -> None:
        """Report an ignore file that does not count."""
        self._problem(os.path.relpath(path, self._top.path), "unreadable file", reason)


def _entries(folder: WalkedFolder) -> dict[str, Entry]:
    with os.scandir(folder.path) as entries:
        return {entry.name: entry for entry in entries}


def _visible(folder: WalkedFolder, entries: Mapping[str, Entry]) -> list[Entry]:
    """Return the entries of a folder without those that are left out for their names, in order."""
    is_beir = BEIR_QUERIES in entries or f"{BEIR_QUERIES}.gz" in entries
    if is_beir and (corpus := beir_corpus(folder.path)):
        return [entries[corpus.name]]
    visible = [entry for name, entry in entries.items() if not is_left_out_name(name)]
    return sorted(visible, key=lambda entry: printable_name(entry.name))


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))  # Path.resolve raises RuntimeError for links in a loop


def _is_link(entry: Entry) -> bool:
    try:
        return entry.is_symlink()
    except OSError:  # of a file system that does not list the types of files
        return False


def _special(mode: int) -> str:
    kinds = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return f"{kinds.get(stat.S_IFMT(mode), 'a device')}, which is not opened"


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _ignored(path: Path, reason: str) -> None:
    """Report nothing: the walk itself comes to this ignore file."""
