"""Sync: makes an index hold what the folders that it follows hold, in one commit.

A document belongs to the first file, in the order of roots and paths, that has its id: two tables may both have it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Protocol

from denslice.corpus.formats.source_file import Problem
from denslice.corpus.reading_pool import FileRead, FileTask, read_files
from denslice.corpus.roots import Root
from denslice.errors import InputError
from denslice.index.doc_batches import CutDoc
from denslice.index.followed_paths import followed_roots
from denslice.index.sync_plan import RootPlan, listed_file, plan, scopes
from denslice.index.writer import Writer
from denslice.options import ReadOptions
from denslice.records import Doc
from denslice.store.followed_files import FileList, FollowedRoot, read_list
from denslice.store.manifest import FULL
from denslice.store.snapshot import Snapshot

MISSING_PACKAGE = "missing package"
RETRIED = (MISSING_PACKAGE, "slow file")  # kinds of problems that may be gone at the next sync
DUPLICATE = "duplicate id"
Key = tuple[int, list[str]]  # the place of a file in the order of roots and paths


class FileCounter(Protocol):
    """Shows the progress of reading files."""

    def expect_files(self, files: int, size: int) -> None:
        """Set how many files, of how many bytes in all, are to be read."""

    def advance_files(self, files: int, size: int) -> None:
        """Add to the files and bytes that are done."""


@dataclass(frozen=True)
class Synced:
    """What a sync found and did. Counts are of files, but for `documents`, `deleted` and passages."""

    added: int = 0
    changed: int = 0
    renamed: int = 0
    removed: int = 0
    unchanged: int = 0
    gone: int = 0  # files that are gone, and whose documents were kept
    documents: int = 0  # written
    deleted: int = 0  # documents
    encoded: int = 0  # passages
    reused: int = 0  # passages whose vectors were in the index already
    problems: tuple[Problem, ...] = ()  # of all followed files, those that did not change included
    remarks: tuple[str, ...] = ()


@dataclass
class FolderSync:
    """The sync of some roots: what it has to do, and the work for a writer that does it."""

    plans: list[RootPlan]
    options: ReadOptions
    deletes: bool = True
    counter: FileCounter | None = None
    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    deleted: int = 0
    _lists: list[FileList] = field(default_factory=list)
    _before: dict[str, str] = field(default_factory=dict)  # of a document, the one whose passages may be reused
    _claims: dict[str, Key] = field(default_factory=dict)  # the first file that has each id
    _written: set[str] = field(default_factory=set)
    _expected: list[int] = field(default_factory=list)  # the sizes of all files that have changed, if some are left

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        paths: Sequence[Path],
        options: ReadOptions,
        deletes: bool = True,
        counter: FileCounter | None = None,
    ) -> FolderSync:
        """Look at the folders and return what has to be done."""
        entries = {entry.name: entry for entry in snapshot.manifest.roots}
        known = followed_roots(snapshot.manifest)
        chosen, plans = scopes(paths, known), list[RootPlan]()
        roots = list({root.name: root for root in [*known, *(one.root for one in chosen)]}.values())
        for scope in chosen:
            entry = entries.get(scope.root.name)
            listed = read_list(snapshot.followed[entry.files.name]) if entry else {}
            named = options.text_field or (entry.text_field if entry else None)
            if entry and named != entry.text_field:
                listed = {name: file._replace(digest="") for name, file in listed.items()}
            plans.append(plan(scope, listed, named, roots))
        order = {root.name: number for number, root in enumerate(roots)}
        return cls(sorted(plans, key=lambda one: order[one.root.name]), options, deletes, counter)

    @property
    def roots(self) -> list[Root]:
        """The folders that are looked at."""
        return [one.root for one in self.plans]

    def counts(self) -> Synced:
        """Return what a sync would find, before it reads any file."""
        moved = sum(len(one.renamed) for one in self.plans)
        gone = sum(len(one.gone) for one in self.plans)
        return Synced(
            added=sum(len(one.added) for one in self.plans) + (0 if self.deletes else moved),
            changed=sum(len(one.changed) for one in self.plans),
            renamed=moved if self.deletes else 0,
            removed=gone - moved if self.deletes else 0,
            unchanged=sum(len(one.found) - len(one.to_read) for one in self.plans),
            gone=0 if self.deletes else gone,
            problems=tuple(problem for one in self.plans for problem in one.problems),
        )

    def read_only(self, files: int) -> int:
        """Read at most so many of the files that have changed, and return how many are left for the next sync."""
        self._expected = [self.plans[number].found[name].size for number, name in self._tasks()]
        left = 0
        for one in self.plans:
            left += max(0, len(one.to_read) - files)
            one.to_read = one.to_read[:files]
            files -= len(one.to_read)
        return left

    def work(self, writer: Writer, level: str = FULL) -> int:
        """Read what changed, and write and delete its documents; return how many documents were written."""
        self._begin(writer.base)
        self._check_known_problems()
        written = writer.add_cut(self._docs(writer.base), self._before, level)
        replaced = sum(map(len, writer.gone.values()))
        self.deleted = writer.delete(sorted(self._old_ids() - self._claims.keys())) - replaced
        for one, files in zip(self.plans, self._lists, strict=True):
            order = sorted(files, key=lambda name: name.split("/"))
            root, listed = one.root, {name: files[name] for name in order}
            writer.follow(FollowedRoot(root.name, root.location, root.whole, root.parts, one.text_field, listed))
        return written

    def synced(self, writer: Writer, documents: int) -> Synced:
        """Return what was done."""
        problems = [Problem(*told) for files in self._lists for file in files.values() for told in file.problems]
        return replace(
            self.counts(),
            documents=documents,
            deleted=self.deleted,
            encoded=writer.encoded_passages,
            reused=writer.reused_passages,
            problems=(*self.counts().problems, *problems),
            remarks=tuple(self.remarks),
        )

    # --- the documents

    def _begin(self, base: Snapshot) -> None:
        """Start from the files that are unchanged, and from the ids that they have."""
        self._lists = [dict(one.kept) for one in self.plans]
        for number, (one, files) in enumerate(zip(self.plans, self._lists, strict=True)):
            if not self.deletes:
                files |= {name: one.listed[name] for name in one.gone}
            _read_what_is_missing(one, files, base)
            for name, file in files.items():
                self._claim(one.ids(name, file), _key(number, name))

    def _check_known_problems(self) -> None:
        """Raise InputError for what could not be read before, or found in a folder, if reading is strict."""
        told = [tuple(problem) for one in self.plans for problem in one.problems]
        told += [one for files in self._lists for file in files.values() for one in file.problems]
        if self.options.strict and told:
            raise InputError(f"{told[0][0]}: {told[0][2]}")

    def _claim(self, ids: Iterable[str], key: Key) -> None:
        for id in ids:
            if id not in self._claims or key < self._claims[id]:
                self._claims[id] = key

    def _old_ids(self) -> set[str]:
        """Return the ids of the documents that files had which are gone now, or were read again."""
        return {
            id
            for one, files in zip(self.plans, self._lists, strict=True)
            for name, file in one.listed.items()
            if name in one.to_read or name not in files
            for id in one.ids(name, file)
        }

    def _docs(self, base: Snapshot) -> Iterator[CutDoc]:
        """Yield the documents to write: of new and changed files, then those that a file left to another one."""
        tasks = self._tasks()
        sizes = self._expected or [self.plans[number].found[name].size for number, name in tasks]
        if self.counter:
            self.counter.expect_files(len(sizes), sum(sizes))
        yield from self._read(tasks, base, None)
        for number, names in self._inherited().items():
            yield from self._read([(number, name) for name in names], base, self._old_ids() - self._written)

    def _tasks(self) -> list[tuple[int, str]]:
        """Return the files to read, with the numbers of their roots."""
        return [(number, name) for number, one in enumerate(self.plans) for name in one.to_read]

    def _inherited(self) -> dict[int, list[str]]:
        """Return the unchanged files that own a document now, because the file that owned it has it no longer."""
        free = {id: key for id in self._old_ids() - self._written if (key := self._claims.get(id))}
        found = dict[int, list[str]]()
        for number, path in {(key[0], "/".join(key[1])) for key in free.values()}:
            found.setdefault(number, []).append(path)
        return {number: sorted(names, key=lambda name: name.split("/")) for number, names in sorted(found.items())}

    def _read(self, files: Sequence[tuple[int, str]], base: Snapshot, wanted: set[str] | None) -> Iterator[CutDoc]:
        """Read files and yield the documents that the index does not have as they are; only wanted ones, if given."""
        tasks = [self._task(number, name) for number, name in files]
        ids, problems = list[str](), list[Problem]()
        left = iter(files)
        number, name = next(left, (0, ""))
        for read in read_files(tasks, cut=base.manifest.passages):
            problems += read.problems
            self._check(read)
            own = self._own(read, _key(number, name), ids, problems)
            yield from _new_or_changed(base, [doc for doc in own if wanted is None or doc.doc.id in wanted])
            if read.done:
                self._list(number, name, ids, problems)
                ids, problems = [], []
                number, name = next(left, (0, ""))

    def _task(self, number: int, name: str) -> FileTask:
        one = self.plans[number]
        return FileTask(str(one.found[name].path), one.id_of(name), one.text_field, self.options.strict)

    def _check(self, read: FileRead) -> None:
        self.remarks += read.remarks
        if self.options.strict and read.problems:
            place, _, problem = read.problems[0]
            raise InputError(f"{place}: {problem}")

    def _own(self, read: FileRead, key: Key, ids: list[str], problems: list[Problem]) -> Iterator[CutDoc]:
        """Yield the documents of a file whose ids no file before it has; note all its ids."""
        twin = self._twin(key)
        for doc, places in read.docs:
            ids.append(doc.id)
            owner = self._claims.get(doc.id)
            if doc.id in self._written or (owner and owner < key):
                self._refuse(Problem(read.task.name, DUPLICATE, f"id {doc.id!r} was already used"), problems)
                continue
            self._written.add(doc.id)
            if twin and doc.id.startswith(read.task.name):
                self._before[doc.id] = twin + doc.id.removeprefix(read.task.name)
            yield CutDoc(doc, places)

    def _twin(self, key: Key) -> str | None:
        """Return the name of the listed file with the same bytes as a file to read."""
        one = self.plans[key[0]]
        twin = one.twins.get("/".join(key[1]))
        return one.id_of(twin) if twin else None

    def _refuse(self, problem: Problem, problems: list[Problem]) -> None:
        if self.options.strict:
            raise InputError(f"{problem.place}: {problem.problem}; ids must be unique")
        problems.append(problem)

    def _list(self, number: int, name: str, ids: list[str], problems: list[Problem]) -> None:
        """Note what was read of a file."""
        one = self.plans[number]
        alone = ids == [one.id_of(name)]
        retry = any(problem.kind in RETRIED for problem in problems)
        entry = listed_file(one, name, None if alone else tuple(ids), problems, time.time_ns(), retry)
        self._lists[number][name] = entry
        self._claim(ids, _key(number, name))
        if self.counter:
            self.counter.advance_files(1, one.found[name].size)


def _key(number: int, name: str) -> Key:
    return number, name.split("/")


def _read_what_is_missing(one: RootPlan, files: FileList, base: Snapshot) -> None:
    """Read files again whose documents the index has lost, as when somebody deleted them."""
    ids = {id: name for name, file in files.items() for id in one.ids(name, file) if name in one.found}
    names, every = set[str](), iter(ids)
    while some := list(islice(every, 2_048)):
        there = {id for segment in base.segments for id in segment.live_rows(some)}
        names |= {ids[id] for id in some if id not in there}
    for name in names:
        del files[name]
    one.to_read = sorted({*one.to_read, *names}, key=lambda name: name.split("/"))


def _new_or_changed(base: Snapshot, docs: Sequence[CutDoc]) -> Iterator[CutDoc]:
    """Yield the documents that the snapshot does not have exactly so."""
    there: dict[str, Doc] = {}
    ids = [doc.doc.id for doc in docs]
    for segment in base.segments:
        rows = segment.live_rows(ids)
        there |= {doc.id: doc for doc in segment.documents.fetch(list(rows.values())).values()}
    yield from (doc for doc in docs if there.get(doc.doc.id) != doc.doc)
