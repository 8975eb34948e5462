"""Parts of the inputs that workers read in parallel. Read one after the other, they yield the same documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from denslice.corpus import documents
from denslice.corpus.compression import ending, is_compressed
from denslice.corpus.datasets import is_dataset
from denslice.corpus.folder_walk import beir_corpus, walk
from denslice.corpus.formats.source_file import SourceFile
from denslice.corpus.formats.text_fields import KNOWN_NAMES
from denslice.corpus.lines import parse_json_object, read_lines, reading
from denslice.corpus.reading_pool import FileTask
from denslice.corpus.roots import Root, located
from denslice.errors import InputError
from denslice.records import ID_FIELDS, TEXT_FIELDS, Doc

if TYPE_CHECKING:
    import scipy.sparse as sp

VECTORS_SUFFIX = ".npz"
MIN_PART_BYTES, MAX_PART_BYTES = 1 << 20, 64 << 20
MAX_PART_FILES = 1_000
CUT_FORMATS = (".jsonl", ".ndjson", ".tsv")
PARTS_PER_SHARD = 16  # if the parts are then large enough


@dataclass(frozen=True)
class InputPart:
    """Some files of a folder, or one file or a part of it: a range of bytes, or of rows of ready vectors.

    `names` are those of the files in ids. A file that the user named must be readable; files of a folder need not.
    """

    files: tuple[str, ...]
    names: tuple[str, ...] = ()
    start: int = 0
    end: int | None = None
    strict: bool = True

    @property
    def is_ready(self) -> bool:
        """Whether the part holds ready vectors."""
        return self.files[0].endswith(VECTORS_SUFFIX)


def cut(inputs: Sequence[str], shards: int, size: int | None = None) -> list[InputPart]:
    """Cut the inputs into parts of about `size` bytes, in order. The default size depends on the number of shards."""
    roots: list[Root] = []
    found = [_found(name, roots) for name in inputs]
    sizes = [sum(map(_bytes, one.files)) for one in found]
    size = size or min(max(sum(sizes) // (PARTS_PER_SHARD * shards), MIN_PART_BYTES), MAX_PART_BYTES)
    return [part for one in found for part in _parts(one, size)]


def read_part(part: InputPart) -> Iterator[Doc]:
    """Read the documents of a part of texts. What is skipped in a folder is reported as a warning."""
    if is_dataset(part.files[0]):
        return documents.read_docs(part.files)
    if not part.strict:
        return documents.folder_docs(map(FileTask, part.files, part.names))
    path, name = part.files[0], part.names[0]
    file = SourceFile(Path(path), name, strict=True, place=path, start=part.start, end=part.end)
    docs = documents.distinct_docs(documents.named_file_docs(file))
    return _renumbered(docs, part) if part.start else docs


def read_ready(part: InputPart) -> tuple[list[str], sp.csr_array]:
    """Read the ids and vectors of a part of ready vectors."""
    ids, weights = _vectors(part.files[0])
    return ids[part.start : part.end], weights[part.start : part.end]


def columns(inputs: Sequence[str]) -> int:
    """Return the number of columns of ready vectors. Raise InputError if the files differ."""
    widths = {name: _shape(name)[1] for name in inputs}
    for name, width in widths.items():
        if width != widths[inputs[0]]:
            expected = f"expected {widths[inputs[0]]:,} as in {inputs[0]}"
            raise InputError(f"{name}: vectors have {width:,} columns, {expected}")
    return widths[inputs[0]]


def stamps(parts: Sequence[InputPart]) -> dict[str, list[int]]:
    """Return the size and modification time of each file, which tell whether the inputs have changed."""
    files = dict.fromkeys(file for part in parts for file in part.files if not is_dataset(file))
    return {file: [Path(file).stat().st_size, Path(file).stat().st_mtime_ns] for file in files}


class FoundInput(NamedTuple):
    """The files of a named input, or of a folder, with their names in ids."""

    files: list[str]
    names: list[str]
    strict: bool = True


def _found(name: str, roots: list[Root]) -> FoundInput:
    """Return the files of a named input."""
    if is_dataset(name):
        return FoundInput([name], [name])
    path = Path(name).absolute()
    if documents.is_folder(path):
        path = beir_corpus(path) or path
    root, within = located(path, roots, path.is_dir())
    roots.append(root)
    if not path.is_dir():
        return FoundInput([str(path)], [f"{root.name}/{within}"])
    found = list(walk(path, documents.warn_of))
    if not found:
        raise InputError(f"{path}: nothing to read in this folder")
    return FoundInput([str(file.path) for file in found], [f"{root.name}/{file.relative}" for file in found], False)


def _parts(found: FoundInput, size: int) -> Iterator[InputPart]:
    path = Path(found.files[0])
    if is_dataset(found.files[0]):
        yield InputPart((found.files[0],))
    elif path.suffix == VECTORS_SUFFIX:
        rows = _shape(str(path))[0]
        step = max(1, rows * size // max(1, _bytes(str(path))))
        yield from (InputPart((str(path),), (), start, min(start + step, rows)) for start in range(0, rows, step))
    elif not found.strict:
        named = dict(zip(found.files, found.names, strict=True))
        for some in _grouped(found.files, size):
            yield InputPart(tuple(some), tuple(named[file] for file in some), strict=False)
    elif _bytes(str(path)) <= size or not _can_be_cut(path):
        yield InputPart((str(path),), tuple(found.names))
    else:
        starts = pairwise(_line_starts(path, size))
        yield from (InputPart((str(path),), tuple(found.names), start, end) for start, end in starts)


def _can_be_cut(path: Path) -> bool:
    """Return whether every line is a record with an id and a text under their usual names, wherever a part begins."""
    if is_compressed(path) or ending(path) not in CUT_FORMATS:
        return False
    _, line = next(read_lines(path), (0, ""))
    if ending(path) == ".tsv":
        return "\t" in line and not set(line.casefold().split("\t")) & KNOWN_NAMES
    try:
        fields = parse_json_object(line)
    except InputError:
        return True  # it is reported where it is read
    return any(name in fields for name in ID_FIELDS) and any(name in fields for name in (*TEXT_FIELDS, "vector"))


def _grouped(files: list[str], size: int) -> Iterator[list[str]]:
    some, total = list[str](), 0
    for file in files:
        some.append(file)
        total += _bytes(file)
        if total >= size or len(some) >= MAX_PART_FILES:
            yield some
            some, total = [], 0
    if some:
        yield some


def _line_starts(path: Path, size: int) -> list[int]:
    """Return offsets at which lines begin, about `size` bytes apart, from 0 to the size of the file."""
    total = path.stat().st_size
    starts = [0]
    with reading(path), path.open("rb") as file:
        while starts[-1] + size < total:
            file.seek(starts[-1] + size - 1)
            file.readline()
            starts.append(file.tell())
    return [*starts, total] if starts[-1] < total else starts


def _renumbered(docs: Iterator[Doc], part: InputPart) -> Iterator[Doc]:
    """Yield the documents. The line number in an error becomes that of the file, not of the part."""
    try:
        yield from docs
    except InputError as error:
        file = part.files[0]
        with Path(file).open("rb") as whole:
            before = sum(whole.read(min(1 << 20, part.start - at)).count(b"\n") for at in range(0, part.start, 1 << 20))
        place, message = rf"^{re.escape(file)}:(\d+): ", str(error)
        raise InputError(re.sub(place, lambda found: f"{file}:{before + int(found[1])}: ", message, count=1)) from None


def _bytes(name: str) -> int:
    with reading(Path(name)):
        return 0 if is_dataset(name) else Path(name).stat().st_size


def _shape(name: str) -> tuple[int, int]:
    """Return the shape of the matrix in an .npz file without reading the matrix."""
    try:
        with reading(Path(name)), np.load(name, allow_pickle=False) as arrays:
            rows, width = arrays["shape"].tolist()
            return int(rows), int(width)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{name}: not a scipy sparse .npz: {error}") from None


_vectors = lru_cache(maxsize=1)(documents.read_vectors)
