"""Indexes files. A new index is built in a hidden folder and renamed, so that it exists complete or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

import scipy.sparse as sp

from denslice.corpus.compression import ending, is_compressed
from denslice.corpus.documents import LINE_FORMATS, read_docs, read_vectors
from denslice.errors import DensliceError, InputError, LockedError
from denslice.index.index import Index
from denslice.index.index_info import IndexInfo
from denslice.options import IndexKeywords
from denslice.records import Doc
from denslice.store import lock
from denslice.store import manifest as manifests
from denslice.store.files import sync_folder
from denslice.vectors import stacked

READY = ".npz"

Fill = Callable[[Index], int]
Vectors = tuple[list[str], sp.csr_array]


class Counter(Protocol):
    """Shows the progress of indexing."""

    def expect(self, total: int | None) -> None:
        """Set the number of documents, or None if it is unknown."""

    def advance(self, count: int) -> None:
        """Add to the number of documents that are done."""


def index_files(
    inputs: Sequence[str], to: Path, chosen: IndexKeywords, counter: Counter, wait: float = 0.0
) -> tuple[int, IndexInfo]:
    """Add the inputs to the index at `to`, which is created with the chosen options if it does not exist.

    Return how many documents were added, and the description of the index.
    """
    there = _existing(to, chosen)
    if any(name.endswith(READY) for name in inputs):
        ids, weights = _read_vectors(inputs, there, chosen)
        chosen = IndexKeywords(**{"encoder": "vectors", "vocab": weights.shape[1], **chosen})
        counter.expect(len(ids))
        return _fill(
            to, there, chosen, lambda index: index.add_vectors(ids, weights, wait=wait, progress=counter.advance)
        )
    docs = read_docs(inputs)
    if there is None and "encoder" not in chosen:
        docs = texts_only(docs)
    counter.expect(_expected([Path(name) for name in inputs]))
    return _fill(to, there, chosen, lambda index: index.add(docs, wait=wait, progress=counter.advance))


def new_index(to: Path, chosen: IndexKeywords, fill: Fill) -> Index:
    """Create an index, add documents with `fill`, and open it. After an error or Ctrl-C nothing of it is left."""
    _built(to, chosen, fill)
    return Index.open(to)


def _built(to: Path, chosen: IndexKeywords, fill: Fill) -> IndexInfo:
    with _out_of_sight(to) as hidden, Index.create(hidden, **chosen) as index:
        fill(index)
        return replace(index.info(), path=str(to))


def _fill(to: Path, there: Index | None, chosen: IndexKeywords, fill: Fill) -> tuple[int, IndexInfo]:
    if there is not None:
        return fill(there), there.info()
    made = _built(to, chosen, fill)
    return made.documents, made


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
    """Yield the documents; raise InputError if one has a ready vector, since it is unclear what to index."""
    for doc in docs:
        if doc.vector is not None:
            advice = "choose --encoder vectors to index the vectors, or --encoder mini to index the texts"
            raise InputError(f"document {doc.id!r} has a ready vector; {advice}")
        yield doc


def _expected(paths: Sequence[Path]) -> int | None:
    """Return the number of lines, which is that of the documents, or None if counting would be slow."""
    files = [path / "corpus.jsonl" if path.is_dir() else path for path in paths]
    if any(is_compressed(file) or ending(file) not in LINE_FORMATS or not file.is_file() for file in files):
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
