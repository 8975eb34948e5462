"""A snapshot: one commit of an index, open for reading. Folders of indexes and writers are created and swept here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path

import numpy as np

from denslice.errors import DensliceError, IndexFormatError, InputError, UnavailableError
from denslice.slicing import Slicing
from denslice.store import lock
from denslice.store import manifest as manifests
from denslice.store.container import ENDING, Container
from denslice.store.docs_sqlite import MovedError
from denslice.store.files import NEW, damaged
from denslice.store.folder import Folder
from denslice.store.manifest import FileEntry, Manifest
from denslice.store.segment import DELETIONS, SEGMENTS, Segment
from denslice.store.vocabulary import Piece, Vocabulary
from denslice.vectors import Ints

VOCABULARY = "vocabulary"  # its pieces, and the slicing of its tokens
UPGRADE = "upgrade"  # the new index that an upgrade builds
UPGRADE_REMAINS = (UPGRADE, "old", "slicing.npy")  # left by an upgrade that died after its commit; two are of format 2
FOLLOWED = "followed"  # the lists of files of the folders that the index follows
WRITING = "writing"  # segments that are not committed yet
SUBFOLDERS = (SEGMENTS, DELETIONS, VOCABULARY, FOLLOWED, WRITING)
SESSION_LOCK = ".lock"  # suffix of the lock that a live writer holds
OPEN_ATTEMPTS = 20  # while commits follow one another


class Snapshot:
    """One commit of an index. It does not change, whatever happens to the folder: every file is open.

    Files that an earlier snapshot (`before`) has open are shared. `descends` tells that this commit was made from that
    one, so that its vocabulary can only have grown.
    """

    home: Folder
    manifest: Manifest
    segments: tuple[Segment, ...]
    pieces: dict[str, Container]  # of the vocabulary, by name
    places: Container | None  # the slice of each token
    followed: dict[str, Container]  # the lists of files of the folders that are followed, by the names of the lists

    def __init__(self, path: Path, before: Snapshot | None = None, descends: bool = False) -> None:
        self._found_before = before.words.found if before and descends else None
        self._open(path, before)

    @property
    def folder(self) -> Path:
        """The index's folder."""
        return self.home.path

    @property
    def docs(self) -> int:
        """The number of live documents."""
        return self.manifest.docs

    @cached_property
    def passages(self) -> int:
        """The number of passages of live documents."""
        return sum(segment.live_passages for segment in self.segments)

    @cached_property
    def words(self) -> Vocabulary:
        """The words of the documents; empty if token ids are columns of ready vectors."""
        pieces: list[Piece] = []
        for container in self.pieces.values():
            base = pieces[-1].base + len(pieces[-1]) if pieces else 0
            pieces.append(Piece.of(container, base))
        return Vocabulary(pieces, self._found_before)

    @cached_property
    def slicing(self) -> Slicing | None:
        """The slicing; None until the first documents decide it, and always if the index has no slices."""
        entry = self.manifest.slicing
        if entry.vocab is None or entry.slices is None or entry.kind is None:
            return None
        if self.places is None:
            return Slicing.stride(entry.vocab, entry.slices, entry.skip).grown(len(self.words))
        slice_of = self.places.array("slice_of", "int32", entry.vocab)
        try:
            return Slicing.checked(entry.kind, entry.slices, entry.skip, slice_of).grown(len(self.words))
        except InputError as error:
            raise damaged(self.places.path, str(error)) from error

    def passage_frequencies(self, keys: Ints) -> Ints:
        """Return how many passages have each token."""
        return sum((s.passage_frequencies(keys) for s in self.segments), np.zeros(len(keys), dtype=np.int64))

    def find(self, id: str) -> tuple[Segment, int] | None:
        """Return the segment and the row of the document with this id."""
        for segment in self.segments:
            if rows := segment.live_rows([id]):
                return segment, rows[id]
        return None

    def verify(self) -> None:
        """Read every file in full; raise IndexFormatError naming the first that has changed."""
        for part in (*self.segments, *self.pieces.values(), *self.followed.values(), self.places):
            if part is not None:
                part.verify()

    def bytes(self) -> int:
        """Return the size of the index on disk."""
        manifest = self.manifest
        files = [file for entry in manifest.segments for file in entry.files.values()]
        single = [*manifest.vocabulary, manifest.slicing.places, *(entry.deletions for entry in manifest.segments)]
        single += [root.files for root in manifest.roots]
        return sum(file.bytes for file in files) + sum(entry.file.bytes for entry in single if entry)

    def _open(self, path: Path, before: Snapshot | None) -> None:
        """Open every file of the last commit; try again if a writer commits meanwhile."""
        for _ in range(OPEN_ATTEMPTS):
            found = Folder(path)
            self.home = before.home if before and before.home == found else found  # one handle for both
            self.manifest = manifests.read(self.home)
            try:
                return self._open_files(before)
            except (IndexFormatError, MovedError) as error:
                if isinstance(error, IndexFormatError) and not self._is_outdated():
                    raise
        raise UnavailableError(f"{path}: the index changes faster than it can be opened; try again")

    def _open_files(self, before: Snapshot | None) -> None:
        home, manifest = self.home, self.manifest
        known = {segment.entry.name: segment for segment in before.segments} if before else {}
        opened = (known.get(entry.name) or Segment(home, entry, manifest.block) for entry in manifest.segments)
        both = zip(opened, manifest.segments, strict=True)
        self.segments = tuple(segment.with_deletions_of(home, entry) for segment, entry in both)
        pieces = before.pieces if before else {}
        self.pieces = {one.name: pieces.get(one.name) or _mapped(home, one) for one in manifest.vocabulary}
        lists = before.followed if before else {}
        files = [root.files for root in manifest.roots]
        self.followed = {one.name: lists.get(one.name) or _mapped(home, one, FOLLOWED) for one in files}
        places = manifest.slicing.places
        shared = before.places if before and before.manifest.slicing.places == places else None
        self.places = None if places is None else shared or _mapped(home, places)

    def _is_outdated(self) -> bool:
        try:
            return manifests.read(Folder(self.folder)).commit != self.manifest.commit
        except DensliceError:
            return False


def _mapped(home: Folder, entry: FileEntry, part: str = VOCABULARY) -> Container:
    return Container.mapped(home, f"{part}/{entry.name}{ENDING}", entry.file)


def create(folder: Path, manifest: Manifest) -> None:
    """Create an empty index in a folder that is new or empty, or in which `create` was interrupted."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _check_free(folder)
        with lock.writing(folder):
            _check_free(folder)  # another process may have been faster
            for part in SUBFOLDERS:
                (folder / part).mkdir(exist_ok=True)
            manifests.write(folder, manifest)
    except OSError as error:
        raise InputError(f"{folder}: cannot make an index here ({error.strerror})") from error


def _check_free(folder: Path) -> None:
    """Raise InputError if the folder holds anything that an interrupted `create` does not leave."""
    if manifests.has_manifest(folder):
        raise InputError(f"{folder}: an index is already there; open it, or choose another folder")
    remains = {lock.LOCK_FILE, lock.TURNSTILE_FILE, manifests.MANIFEST_FILE + NEW}
    remains |= {part for part in SUBFOLDERS if not any((folder / part).glob("*"))}
    if {path.name for path in folder.iterdir()} - remains:
        raise InputError(f"{folder}: the folder is not empty; choose another one")


@contextmanager
def session(folder: Path) -> Iterator[Path]:
    """Make a folder that no other writer removes while this process is alive, and remove it in the end."""
    part = folder / WRITING
    part.mkdir(exist_ok=True)
    with ExitStack() as held:
        name = manifests.new_name()
        # If another writer sweeps the folder just before the lock is acquired, it removes the lock's file.
        while not (held.enter_context(lock.alive(_lock_path(part, name))) and _lock_path(part, name).exists()):
            name = manifests.new_name()
        try:
            (part / name).mkdir()
            yield part / name
        finally:
            shutil.rmtree(part / name, ignore_errors=True)
            with suppress(OSError):  # the commit may be made already, and the next writer removes the file
                _lock_path(part, name).unlink()


def _lock_path(part: Path, name: str) -> Path:
    return part / f"{name}{SESSION_LOCK}"


def sweep(folder: Path, manifest: Manifest) -> None:
    """Remove all files that the last commit does not name. The write lock must be held.

    Readers have their files open and go on reading them. The files of live writers are kept.
    """
    for name in UPGRADE_REMAINS:
        _remove(folder / name)
    kept = {folder.joinpath(*name.split("/")[:2]) for name in file_names(manifest)}  # files, and folders of segments
    for part in (SEGMENTS, DELETIONS, VOCABULARY, FOLLOWED):
        for path in (folder / part).iterdir() if (folder / part).exists() else ():
            if path not in kept:
                _remove(path)
    _sweep_writing(folder / WRITING)


def file_names(manifest: Manifest) -> list[str]:
    """Return the files of a manifest, as paths relative to the index folder."""
    segments = [f"{SEGMENTS}/{entry.name}/{name}" for entry in manifest.segments for name in entry.files]
    deletions = [f"{DELETIONS}/{e.deletions.name}{ENDING}" for e in manifest.segments if e.deletions]
    places = manifest.slicing.places
    single = [*manifest.vocabulary, *([places] if places else [])]
    followed = [f"{FOLLOWED}/{root.files.name}{ENDING}" for root in manifest.roots]
    return [*segments, *deletions, *followed, *(f"{VOCABULARY}/{entry.name}{ENDING}" for entry in single)]


def _sweep_writing(part: Path) -> None:
    """Remove the files of writers that have died."""
    for path in sorted(part.iterdir()) if part.exists() else ():
        name = path.name.removesuffix(SESSION_LOCK)
        with lock.alive(_lock_path(part, name)) as is_dead:
            if is_dead:
                _remove(part / name)
                _lock_path(part, name).unlink(missing_ok=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
