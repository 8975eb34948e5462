"""Parts of the inputs that workers read in parallel. Read one after the other, they yield the same documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from denslice.corpus import documents
from denslice.corpus.compression import ending, is_compressed
from denslice.corpus.datasets import is_dataset
from denslice.corpus.documents import LINE_FORMATS
from denslice.corpus.lines import reading
from denslice.errors import InputError
from denslice.records import Doc

if TYPE_CHECKING:
    import scipy.sparse as sp

VECTORS_SUFFIX = ".npz"
MIN_PART_BYTES, MAX_PART_BYTES = 1 << 20, 64 << 20
MAX_PART_FILES = 1_000
PARTS_PER_SHARD = 16  # if the parts are then large enough


@dataclass(frozen=True)
class InputPart:
    """Some files of a folder, or one file or a part of it: a range of bytes, or of rows of ready vectors."""

    files: tuple[str, ...]
    root: str | None = None
    start: int = 0
    end: int | None = None

    @property
    def is_ready(self) -> bool:
        """Whether the part holds ready vectors."""
        return self.files[0].endswith(VECTORS_SUFFIX)


def cut(inputs: Sequence[str], shards: int, size: int | None = None) -> list[InputPart]:
    """Cut the inputs into parts of about `size` bytes, in order. The default size depends on the number of shards."""
    found = [one for name in inputs for one in _found(name)]
    sizes = [sum(_bytes(file) for file in files) for files, _ in found]
    size = size or min(max(sum(sizes) // (PARTS_PER_SHARD * shards), MIN_PART_BYTES), MAX_PART_BYTES)
    return [part for files, root in found for part in _parts(files, root, size)]


def read_part(part: InputPart) -> Iterator[Doc]:
    """Read the documents of a part of texts."""
    if is_dataset(part.files[0]):
        return documents.read_docs(part.files)
    root = Path(part.root) if part.root else None
    docs = documents.distinct_docs([documents.file_docs(Path(file), root, part.start, part.end) for file in part.files])
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


def _found(name: str) -> list[tuple[list[str], str | None]]:
    """Return groups of files of a named input, each with the folder that it was found in."""
    if is_dataset(name):
        return [([name], None)]
    path = Path(name).absolute()
    if not documents.is_folder(path):
        return [([str(path)], None)]
    files = [str(file) for file in documents.folder_files(path)]
    tables = [file for file in files if ending(Path(file)) in LINE_FORMATS]
    return [([file], str(path)) for file in tables] if tables else [(files, str(path))]


def _parts(files: list[str], root: str | None, size: int) -> Iterator[InputPart]:
    path = Path(files[0])
    if is_dataset(files[0]):
        yield InputPart(tuple(files))
    elif path.suffix == VECTORS_SUFFIX:
        rows = _shape(str(path))[0]
        step = max(1, rows * size // max(1, _bytes(str(path))))
        yield from (InputPart((str(path),), None, start, min(start + step, rows)) for start in range(0, rows, step))
    elif len(files) > 1:
        yield from (InputPart(tuple(some), root) for some in _grouped(files, size))
    elif is_compressed(path) or ending(path) not in LINE_FORMATS or _bytes(files[0]) <= size:
        yield InputPart((str(path),), root)
    else:
        yield from (InputPart((str(path),), root, start, end) for start, end in pairwise(_line_starts(path, size)))


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
