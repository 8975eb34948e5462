"""Indexes files. A new index is built in a hidden folder and renamed, so that it exists complete or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

import scipy.sparse as sp

from denslice import encoders
from denslice.analysis.languages import language_named
from denslice.corpus.compression import ending, is_compressed
from denslice.corpus.documents import is_collection, read_docs, read_vectors
from denslice.corpus.read_ahead import LINES, can_read_ahead, read_ahead
from denslice.errors import DensliceError, InputError, LockedError
from denslice.index.create import new_manifest
from denslice.index.doc_batches import CutDoc, cut_docs
from denslice.index.index import Index
from denslice.index.index_info import IndexInfo
from denslice.index.quick_pass import IndexingCounter, Intake
from denslice.index.sync import FileCounter, Synced
from denslice.options import IndexKeywords, IndexOptions, ReadOptions
from denslice.records import Doc, Place, checked_docs
from denslice.store import lock
from denslice.store import manifest as manifests
from denslice.store.files import sync_folder
from denslice.store.manifest import FULL, QUICK
from denslice.vectors import stacked

READY = ".npz"

Filled = TypeVar("Filled")
Vectors = tuple[list[str], sp.csr_array]


class Inputs(NamedTuple):
    """The inputs of an index: what is read once, and the folders and files that are followed from now on.

    A table, a BEIR folder or another collection with ids of its own is read once.
    """

    read_once: list[str]
    followed: list[Path]

    @classmethod
    def of(cls, names: Sequence[str]) -> Inputs:
        """Return the inputs by kind; raise InputError if one does not exist."""
        once = [name for name in names if is_collection(name)]
        return cls(once, [Path(name) for name in names if name not in once])


def index_files(
    inputs: Sequence[str],
    to: Path,
    chosen: IndexKeywords,
    reading: ReadOptions,
    counter: IndexingCounter,
    wait: float,
    level: str | None = None,
) -> tuple[Synced, IndexInfo]:
    """Add the inputs to the index at `to`, which is created with the chosen options if it does not exist.

    Documents are added at the level, or else at the quick one if the encoder has a quick side. Then a new index can be
    searched as soon as it has its first part. Return what was found and done, and the description of the index.
    """
    there = _existing(to, chosen)
    if any(name.endswith(READY) for name in inputs):
        ids, weights = _read_vectors(inputs, there, chosen)
        chosen = IndexKeywords(**{"encoder": "vectors", "vocab": weights.shape[1], **chosen})
        counter.expect(len(ids))

        def add(index: Index) -> Synced:
            return Synced(documents=index.add_vectors(ids, weights, wait=wait, progress=counter.advance))

        return _fill(to, there, chosen, add)
    once, followed = Inputs.of(inputs)
    docs = _cut_docs(once, reading.text_field, _does_cut(there, chosen))
    if there is None and "encoder" not in chosen:
        docs = (CutDoc(_text_only(doc), places) for doc, places in docs)
    if not followed:
        counter.expect(_expected([Path(name) for name in once]))
    level = level or _first_level(there, chosen)
    intake = Intake(docs, followed, reading, counter, wait)
    if there is None and level == QUICK:
        info = _grown(to, chosen, intake)
        return intake.done, info
    return _fill(to, there, chosen, lambda index: _taken(index, intake, level))


def sync_files(
    paths: Sequence[Path],
    to: Path,
    chosen: IndexKeywords,
    reading: ReadOptions,
    counter: FileCounter,
    wait: float,
    dry_run: bool = False,
    level: str = FULL,
) -> tuple[Index | None, Synced]:
    """Sync an index with folders and files, and return it; create it if it does not exist.

    Return no index after a dry run that would create one.
    """
    index = _existing(to, chosen)
    if index is None and not paths:
        raise InputError(f"{to}: no such index; name the folders to index")
    if index is None and not dry_run:
        done: list[Synced] = []
        fill = partial(_synced_into, done, paths, reading, counter, level)
        return new_index(to, chosen, fill), done[0]
    if index is None:
        with TemporaryDirectory() as folder, Index.create(Path(folder, "new"), "bm25") as empty:
            return None, empty.sync(paths, dry_run=True)
    named, strict = reading.text_field, reading.strict
    return index, index.sync(
        paths, level=level, text_field=named, strict=strict, dry_run=dry_run, wait=wait, counter=counter
    )


def _synced_into(
    done: list[Synced], paths: Sequence[Path], reading: ReadOptions, counter: FileCounter, level: str, index: Index
) -> int:
    done.append(index.sync(paths, level=level, text_field=reading.text_field, strict=reading.strict, counter=counter))
    return done[0].documents


def _first_level(there: Index | None, chosen: IndexKeywords) -> str:
    """Return the level at which documents are added first."""
    if there is None:
        encoder, options = IndexOptions(**chosen).encoder, dict(chosen.get("options") or {})
    else:
        info = there.info()
        encoder, options = info.encoder, dict(info.encoder_options)
    return QUICK if encoders.is_quicker(encoder, options) else FULL


def _taken(index: Index, intake: Intake, level: str) -> Synced:
    intake.take_all(index, level)
    return intake.done


def _grown(to: Path, chosen: IndexKeywords, intake: Intake) -> IndexInfo:
    """Create an index that is there with its first part and grows. After an error nothing is left of it.

    Ctrl-C leaves what it has.
    """
    more, info = _built(to, chosen, intake.take_part)
    if not more:
        return info
    try:
        with Index.open(to) as index:
            while intake.take_part(index):
                pass
            return index.info()
    except DensliceError:
        shutil.rmtree(to)
        raise


def new_index(to: Path, chosen: IndexKeywords, fill: Callable[[Index], object]) -> Index:
    """Create an index, add documents with `fill`, and open it. After an error or Ctrl-C nothing of it is left."""
    _built(to, chosen, fill)
    return Index.open(to)


def _built(to: Path, chosen: IndexKeywords, fill: Callable[[Index], Filled]) -> tuple[Filled, IndexInfo]:
    with _out_of_sight(to) as hidden, Index.create(hidden, **chosen) as index:
        return fill(index), replace(index.info(), path=str(to))


def _fill(
    to: Path, there: Index | None, chosen: IndexKeywords, fill: Callable[[Index], Synced]
) -> tuple[Synced, IndexInfo]:
    if there is not None:
        return fill(there), there.info()
    return _built(to, chosen, fill)


# --- the folder


def _existing(to: Path, chosen: IndexKeywords) -> Index | None:
    """Return the index to add to, or None if there is none; raise InputError if it has other settings."""
    if _is_free(to):
        return None
    if not to.is_dir():
        raise InputError(f"{to}: is a file; an index is a folder, choose another name")
    if not (to / manifests.MANIFEST_FILE).exists():
        raise InputError(f"{to}: is a folder with other things in it, not an index; choose another name")
    index = Index.open(to)
    check_options(index, chosen)
    return index


def check_options(index: Index, chosen: IndexKeywords) -> None:
    """Raise InputError if the index was created with other options than the chosen ones."""
    made = index.info().to_dict()
    made |= made["encoder_options"]
    for name, value in chosen.items():
        value = list(value) if name == "filterable" else value  # type: ignore[call-overload]
        value = language_named(value) if name == "language" else value  # type: ignore[arg-type]
        if made.get(name) != value:
            was = f"with --{name} {made[name]}" if made.get(name) is not None else f"without --{name}"
            raise InputError(f"{index.path}: was made {was}, not {value}; leave the option out or make another index")


def _is_free(to: Path) -> bool:
    """Return whether an index can be created there: the folder does not exist, or is empty."""
    return not to.exists() or (to.is_dir() and not any(to.iterdir()))


@contextmanager
def _out_of_sight(to: Path) -> Iterator[Path]:
    """Yield a hidden folder next to `to`, and rename it to `to` after the block, or remove it after an error."""
    if not _is_free(to):
        raise InputError(f"{to}: is there already; choose another name")
    hidden = to.with_name(f".{to.name}.building")
    new_parents = [folder for folder in hidden.parents if not folder.exists()]
    try:
        with _only_builder(hidden):
            yield hidden
            hidden.rename(to)
    except BaseException as error:
        for folder in new_parents:
            with suppress(OSError):
                folder.rmdir()
        if isinstance(error, DensliceError | OSError) and str(hidden) in str(error):
            raise InputError(str(error).replace(str(hidden), str(to))) from error
        raise
    sync_folder(to.parent)


@contextmanager
def _only_builder(hidden: Path) -> Iterator[None]:
    """Lock the hidden folder and remove what is in it before and after; raise LockedError if another run builds there.

    Nothing is removed without the lock, because the folder may be that of another run.
    """
    held = hidden.with_name(f"{hidden.name}.lock")
    with ExitStack() as stack:
        try:
            hidden.parent.mkdir(parents=True, exist_ok=True)
            is_ours = stack.enter_context(lock.alive(held))
        except OSError as error:
            raise InputError(f"{hidden}: cannot make an index here ({error.strerror})") from error
        if not is_ours:
            raise LockedError(f"{hidden}: {lock.holder(held)} is making this index; try again later")
        try:
            if hidden.exists():
                shutil.rmtree(hidden)
            yield
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
            with suppress(OSError):  # the index may be complete, and the next run can take the lock
                held.unlink()


# --- documents


def texts_only(docs: Iterable[Doc]) -> Iterator[Doc]:
    """Return the documents; raise InputError at one with a ready vector, since it is unclear what to index."""
    return map(_text_only, docs)


def _text_only(doc: Doc) -> Doc:
    if doc.vector is not None:
        advice = "choose --encoder vectors to index the vectors, or --encoder mini to index the texts"
        raise InputError(f"document {doc.id!r} has a ready vector; {advice}")
    return doc


def _cut_docs(names: Sequence[str], text_field: str | None, do_cut: bool) -> Iterator[CutDoc]:
    """Return documents cut into passages, or each as one: by other processes if the files are large."""
    if not can_read_ahead(names):
        return cut_docs(checked_docs(read_docs(names, text_field)), do_cut)
    found = read_ahead(names, text_field, do_cut)
    return (CutDoc(doc, places or [Place(0, len(doc.text))]) for doc, places in found)


def _does_cut(there: Index | None, chosen: IndexKeywords) -> bool:
    """Return whether the documents of the index are cut into passages."""
    return new_manifest(IndexOptions(**chosen)).passages if there is None else there.reader.snapshot.manifest.passages


def _expected(paths: Sequence[Path]) -> int | None:
    """Return the number of lines, which is that of the documents, or None if counting would be slow."""
    files = [path / "corpus.jsonl" if path.is_dir() else path for path in paths]
    if any(is_compressed(file) or ending(file) not in LINES or not file.is_file() for file in files):
        return None
    count = 0
    for path in files:
        with path.open("rb") as file:
            count += sum(chunk.count(b"\n") for chunk in iter(partial(file.read, 1 << 20), b""))
    return count


# --- ready vectors


def _read_vectors(inputs: Sequence[str], there: Index | None, chosen: IndexKeywords) -> Vectors:
    """Return the ids and weights of all files. Raise InputError if their columns are not those of the index."""
    for name in inputs:
        if not name.endswith(READY):
            raise InputError(f"{name}: is not {READY}; index ready vectors and other files one after the other")
    encoder = chosen.get("encoder", "vectors") if there is None else there.info().encoder
    if encoder != "vectors":
        raise InputError(f"{inputs[0]}: holds ready vectors, which an index with --encoder {encoder} cannot take")
    vocab = chosen.get("vocab") if there is None else there.info().vocabulary
    seen: dict[str, None] = {}
    parts: list[sp.csr_array] = []
    for name in inputs:
        ids, weights = read_vectors(name, vocab)
        if both := seen.keys() & ids:
            raise InputError(f"{name}: id {min(both)!r} was already used in a file before it; ids must be unique")
        seen |= dict.fromkeys(ids)
        parts.append(weights)
        vocab = weights.shape[1]
    return list(seen), stacked(parts)
