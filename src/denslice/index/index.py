"""Index: an encoder, a folder on disk and search behind a few methods."""

from __future__ import annotations

import errno
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy.typing as npt

from denslice.errors import DensliceError, GpuMemoryError, IndexFormatError, InputError, NotShownError
from denslice.index.create import new_manifest
from denslice.index.deepening import Pace, not_quick
from denslice.index.doc_batches import ready_batches
from denslice.index.listing import ListedDoc, list_docs
from denslice.index.merge_thread import Merging
from denslice.index.reader import Reader
from denslice.index.search_verbs import SearchVerbs
from denslice.index.sync import FileCounter, FolderSync, Synced
from denslice.index.writer import Overtaken, Writer
from denslice.options import IndexOptions, MoreIndexKeywords, OpenOptions, ReadOptions, takes
from denslice.records import GivenDocs, Progress, checked_id
from denslice.search.devices import searcher_on
from denslice.store import lock, snapshot, tiers
from denslice.store import manifest as manifests
from denslice.store.backup import back_up
from denslice.store.folder import Folder
from denslice.store.manifest import FULL, Manifest, SegmentEntry
from denslice.store.snapshot import Snapshot
from denslice.vectors import dense_rows, lexical_csr

if TYPE_CHECKING:
    import scipy.sparse as sp

AT_ONCE = 512  # documents that are deepened in one commit
QUICKLY = 2_048  # documents that are merged while the caller waits
OVERDUE = 3  # with this many times the segments that a tier should have, the caller waits for a large merge too
MERGE_WAIT = 10.0  # seconds that a merge in a thread waits for other writers
log = logging.getLogger(__name__)
Work = Callable[[Writer], int]  # what a commit does, and the count that it returns
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


class Index(SearchVerbs):
    """A searchable collection in a folder. It shows the commit at which it was opened, and its own later ones.

    Any number of threads may use one Index. `close`, or the end of a `with` block, releases its files. Only its path is
    pickled: unpickling opens the index at that path, which must be the same index.
    """

    def __init__(self, reader: Reader) -> None:
        self._shown: Reader | None = reader
        self._showing = Lock()
        self._merging = Merging(self._merge_due)

    @property
    def reader(self) -> Reader:
        """The reader of the commit that is shown."""
        if self._shown is None:
            raise InputError("this index is closed; open it again")
        return self._shown

    @classmethod
    @takes(IndexOptions)
    def create(cls, path: str | Path, encoder: str = "mini", **options: Unpack[MoreIndexKeywords]) -> Index:
        """Create an empty index in a folder that does not exist yet, and open it.

        Documents keep every token. With `slices` they keep the largest weight of each slice, and `query` is "full"
        (every query token is scored against what they keep) or "sliced" (as in the paper).
        `options` are further settings of the encoder, such as {"k1": 1.2}.
        """
        snapshot.create(Path(path), new_manifest(IndexOptions(encoder, **options)))
        return cls.open(path)

    @classmethod
    def open(
        cls,
        path: str | Path,
        device: str = "cpu",
        *,
        leave_out: Sequence[str] = (),
        queries: str = FULL,
        progress: Progress | None = None,
    ) -> Self:
        """Open the index in a folder at its last commit.

        On device "cuda", or "cuda:0,1" for several GPUs, searches run there and return the same results. `leave_out`
        names what is not uploaded: without "rows", exact scores take longer; without "dense", search is lexical only.
        With `queries` "quick", a table of words reads queries instead of the model, which is faster and finds less.
        """
        on = OpenOptions(device, leave_out, queries)
        return cls(Reader(Snapshot(Path(path)), searcher_on(on), progress, queries=on.queries))

    def close(self) -> None:
        """Release all files and GPU memory. A second call has no effect, and rankings remain readable."""
        self._merging.stop()
        self._shown = None

    def __repr__(self) -> str:
        if self._shown is None:
            return f"<{type(self).__name__}, closed>"
        told = f"{len(self):,} documents, {self.reader.snapshot.manifest.encoder}, generation {self.generation}"
        return f"<{type(self).__name__} {str(self.path)!r}: {told}>"

    def _repr_html_(self) -> str | None:
        """Return the index as a notebook shows it; None, for which its text is shown, if it is closed."""
        return None if self._shown is None else self.info()._repr_html_()

    def __reduce__(self) -> tuple[Any, ...]:
        identity, options = self.reader.snapshot.manifest.identity, self.reader.searcher.options
        return _reopened, (type(self), str(self.path), identity, options.device, options.leave_out, self.reader.queries)

    @property
    def path(self) -> Path:
        """The index's folder."""
        return self.reader.snapshot.folder

    def list_docs(self, where: Mapping[str, Any] | None = None) -> Iterator[ListedDoc]:
        """Yield the id, title, passages and characters of each document that passes the filter, as they are stored."""
        return list_docs(self.reader, where)

    def add(
        self,
        docs: GivenDocs,
        *,
        level: str = FULL,
        wait: float = lock.WAIT_SECONDS,
        progress: Progress | None = None,
    ) -> int:
        """Add documents in one commit and return how many were added. A document replaces the one with its id.

        With level "quick", a table of words gives the dense vectors instead of the model, which is much faster;
        `deepen` does the rest later. After any error the index is unchanged. Other writers may commit
        while documents are read and encoded; the commit at the end waits up to `wait` seconds for their lock.
        """
        return self.write(lambda writer: writer.add_docs(docs, level), wait, progress)

    def deepen(
        self,
        count: int | None = None,
        *,
        wait: float = lock.WAIT_SECONDS,
        progress: Progress | None = None,
        pace: Pace | None = None,
    ) -> int:
        """Encode documents of the quick level fully and return how many: at most `count`.

        Those that searches of this Index have returned most often come first, then the newest; some hundred are encoded
        in each commit. An index that is deepened completely is what it would be if every document had been added at
        the level "full". All cores encode, on Linux at low priority; with a `pace`, one thread does, for a share of the
        time.
        """
        done = 0
        while count is None or done < count:
            some = AT_ONCE if count is None else min(AT_ONCE, count - done)
            often = self.reader.found_counts.often(some)
            work = partial(Writer.deepen, count=some, often=often, pace=pace)
            if not (deepened := self.write(work, wait, progress)):
                break
            self.reader.found_counts.forget(not_quick(self.reader.snapshot.segments, often))
            done += deepened
        return done

    def sync(
        self,
        paths: str | Path | Sequence[str | Path] = (),
        *,
        level: str = FULL,
        delete: bool = True,
        text_field: str | None = None,
        strict: bool = False,
        dry_run: bool = False,
        wait: float = lock.WAIT_SECONDS,
        counter: FileCounter | None = None,
    ) -> Synced:
        """Make the index hold what folders and files hold, in one commit, and return what changed.

        Without paths, everything that the index follows is looked at. Only new and changed files are read, and only
        passages that the index does not have are encoded; with level "quick", a table of words reads them, as in `add`.
        With `delete` false, documents of files that are gone stay; with `dry_run`, nothing is changed.
        """
        given = [Path(one) for one in ([paths] if isinstance(paths, str | Path) else paths)]
        options = ReadOptions(text_field, strict)
        if dry_run:
            return FolderSync.of(self.reader.snapshot, given, options, delete).counts()
        done: list[Synced] = []

        def work(writer: Writer) -> int:
            found = FolderSync.of(writer.base, given, options, delete, counter)
            done.append(found.synced(writer, found.work(writer, level)))
            return done[0].documents

        self.write(work, wait)
        return done[0]

    def add_vectors(
        self,
        ids: Sequence[str],
        weights: sp.csr_array,
        texts: Sequence[str] | None = None,
        dense: npt.ArrayLike | None = None,
        *,
        wait: float = lock.WAIT_SECONDS,
        progress: Progress | None = None,
    ) -> int:
        """Add ready vectors, the rows of (documents, vocab) and of `dense`, and return how many were added."""
        checked = lexical_csr(weights, self.reader.columns())
        vectors = None if dense is None else dense_rows(dense, checked.shape[0])
        batches = ready_batches(ids, checked, texts, vectors)
        return self.write(lambda writer: writer.add_encoded(batches), wait, progress)

    def update(self, id: str, meta: Mapping[str, Any], *, wait: float = lock.WAIT_SECONDS) -> bool:
        """Replace the metadata of a document in one commit, without encoding it again; return whether it exists."""
        changes = {checked_id(id): dict(meta)}
        return bool(self.write(lambda writer: writer.update(changes), wait, alone=True))

    def delete(self, ids: Iterable[str], *, wait: float = lock.WAIT_SECONDS) -> int:
        """Delete the documents with these ids in one commit, and return how many were found."""
        return self.write(lambda writer: writer.delete(ids), wait)

    def merge(self, *, wait: float = lock.WAIT_SECONDS) -> int:
        """Rewrite segments that are small or have many deletions as fewer, full ones, and return how many.

        Search results do not change. If the merge is interrupted, neither does the index.
        """
        return self._merged(tiers.worn, wait)

    def backup(self, to: str | Path) -> None:
        """Copy the last commit to a new folder, as hard links if the file system has them."""
        back_up(self.path, Path(to))

    def refresh(self) -> bool:
        """Move on to the last commit, of any process, and return whether it was not shown yet.

        The commit of another index that was moved into this folder counts too.
        """
        reader = self.reader
        if manifests.read(Folder(self.path)).commit == reader.commit:
            return False
        self._show(Snapshot(self.path, reader.snapshot))
        return True

    def verify(self) -> None:
        """Read every file in full. Raise IndexFormatError for the first that is damaged."""
        self.reader.snapshot.verify()

    def commit_only(
        self, work: Work, wait: float, progress: Progress | None = None, alone: bool = False, stop: Event | None = None
    ) -> int:
        """Do the work and commit it. With `alone`, the write lock is held from the start, not only for the commit."""
        place = Folder(self.path)
        try:
            with ExitStack() as held:
                if alone:
                    held.enter_context(lock.writing(self.path, wait))
                base = self._latest(self.reader.snapshot)
                self._check_identity(base.manifest)
                writer = held.enter_context(Writer(base, progress, stop))
                done = work(writer)
                writer.flush()
                if not alone:
                    held.enter_context(lock.writing(self.path, wait))
                self._finish(writer, base)
        except IndexFormatError:
            self._check_place(place)
            raise
        except (OSError, sqlite3.Error) as error:
            self._check_place(place)
            if reason := _unwritable(error, self.path):
                raise InputError(f"{self.path}: cannot be written ({reason})") from error
            raise
        return done

    def _finish(self, writer: Writer, base: Snapshot) -> None:
        """Commit the changes of the writer and show them. The caller holds the write lock."""
        latest = self._latest(base)
        self._check_identity(latest.manifest)
        try:
            manifest = writer.finish(latest)
            if manifest is not latest.manifest:
                self._write(manifest)
        except BaseException:
            with suppress(OSError, DensliceError):
                snapshot.sweep(self.path, manifests.read(Folder(self.path)))
            raise
        with suppress(OSError):  # the commit is made, and the next writer sweeps
            snapshot.sweep(self.path, manifest)
        if manifest.commit != self.reader.snapshot.manifest.commit:
            self._show_commit(latest, manifest)

    def _show_commit(self, latest: Snapshot, manifest: Manifest) -> None:
        """Show the new commit. Raise NotShownError if it was made but cannot be shown."""
        try:
            return self._show(Snapshot(self.path, latest, descends=True))
        except NotShownError:
            raise
        except (DensliceError, OSError, MemoryError) as error:
            raise NotShownError(str(self.path), manifest.generation, self.generation, str(error)) from error

    def _check_place(self, place: Folder) -> None:
        """Raise InputError if another folder has the path now, which explains any other error."""
        if Folder(self.path) != place:
            raise self._replaced()

    def _check_identity(self, found: Manifest) -> None:
        if found.identity != self.reader.snapshot.manifest.identity:
            raise self._replaced()

    def _replaced(self) -> InputError:
        return InputError(f"{self.path}: another index has taken its place; refresh or open it again, then write")

    def _latest(self, known: Snapshot) -> Snapshot:
        """Return the last commit, sharing the files that the known snapshot has open."""
        if manifests.read(Folder(self.path)).commit == known.manifest.commit:
            return known
        return Snapshot(self.path, known)

    def _show(self, newer: Snapshot) -> None:
        """Show a commit from now on, unless another thread shows a later one already.

        If the folder itself is at an earlier generation, a backup was restored, and that commit is shown.
        """
        with self._showing:
            shown, found = self.reader.snapshot.manifest, newer.manifest
            is_earlier = found.identity == shown.identity and found.generation < shown.generation
            if is_earlier and manifests.read(Folder(self.path)).commit != found.commit:
                return
            try:
                self._shown = self.reader.moved(newer)
                return
            except GpuMemoryError as error:
                reason = str(error)
        # Not raised from the error: its traceback would keep the new arrays in GPU memory.
        raise NotShownError(str(self.path), found.generation, shown.generation, reason)

    def _write(self, manifest: Manifest) -> None:
        """Commit the manifest. After its rename nothing is undone: the next writer removes unused files."""
        try:
            manifests.write(self.path, manifest)
        except OSError as error:
            told = f"could not be committed ({error.strerror}); open it again to see whether it was"
            raise InputError(f"{self.path}: {told}") from error

    def write(
        self, work: Work, wait: float, progress: Progress | None = None, alone: bool = False, in_thread: bool = True
    ) -> int:
        """Commit what `work` does with a writer and return its result; merge small segments, large ones `in_thread`."""
        done = self.commit_only(work, wait, progress, alone)
        try:
            self._keep_up(in_thread)
        except (DensliceError, OSError) as error:  # the change is committed
            log.warning("segments are not merged: %s", error)
        return done

    def _keep_up(self, in_thread: bool) -> None:
        """Merge small segments here, and larger ones in a thread unless it has fallen behind."""
        while group := tiers.due(self.reader.snapshot.manifest.segments):
            quick = sum(entry.docs for entry in group) <= QUICKLY
            if in_thread and not quick and len(group) < OVERDUE * tiers.FANOUT:
                return self._merging.start()
            if not self._merged(tiers.due, lock.WAIT_SECONDS):
                return None
        return None

    def _merge_due(self, stop: Event) -> None:
        """Merge until no segments are due, unless another process does so."""
        with lock.alive(self.path / lock.MERGE_FILE) as is_first:
            while is_first and tiers.due(self.reader.snapshot.manifest.segments):
                is_first = bool(self._merged(tiers.due, MERGE_WAIT, stop))

    def _merged(
        self, choose: Callable[[Sequence[SegmentEntry]], list[SegmentEntry]], wait: float, stop: Event | None = None
    ) -> int:
        """Merge the segments of the last commit that `choose` returns, and return how many were rewritten."""
        try:
            return self.commit_only(lambda writer: writer.merge(choose(writer.base.manifest.segments)), wait, stop=stop)
        except Overtaken:
            return 0


def open_index(
    path: str | Path,
    device: str = "cpu",
    *,
    leave_out: Sequence[str] = (),
    queries: str = FULL,
    progress: Progress | None = None,
) -> Index:
    """Open the index in a folder at its last commit, for search on the CPU or on GPUs: see `Index.open`."""
    return Index.open(path, device, leave_out=leave_out, queries=queries, progress=progress)


def _reopened(
    kind: type[Index], path: str, identity: str, device: str, leave_out: Sequence[str], queries: str
) -> Index:
    """Return the index that was pickled. Raise InputError if the folder holds another one."""
    index = kind.open(path, device, leave_out=leave_out, queries=queries)
    if index.reader.snapshot.manifest.identity != identity:
        raise InputError(f"{path}: another index is there than the one that was pickled")
    return index


def _unwritable(error: BaseException, folder: Path) -> str:
    """Return why the folder could not be written, or nothing if the error has another cause, such as the input."""
    if isinstance(error, sqlite3.OperationalError):
        return str(error)
    if not isinstance(error, OSError):
        return ""
    ours = error.errno in DISK_ERRORS or str(error.filename).startswith(str(folder))
    return error.strerror or str(error) if ours else ""
