"""Inputs cut into parts that workers can read side by side, in the order a single reader would."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from denslice.corpus.datasets import is_dataset
from denslice.corpus.documents import (
    JSON_ENDINGS,
    distinct_docs,
    file_docs,
    folder_files,
    is_folder,
    read_docs,
    read_vectors,
)
from denslice.corpus.lines import ending, is_gzip, reading
from denslice.errors import InputError
from denslice.records import Doc

if TYPE_CHECKING:
    import scipy.sparse as sp

READY = ".npz"
SMALLEST, LARGEST = 1 << 20, 64 << 20  # bytes of a part
MOST_FILES = 1_000  # of a part
PER_SHARD = 16  # parts there should be for each shard, where the input is large enough
LINES = (*JSON_ENDINGS, ".tsv")


@dataclass(frozen=True)
class InputPart:
    """Some files found in a folder, or one file, of that perhaps only some bytes, or some rows of ready vectors."""

    files: tuple[str, ...]
    root: str | None = None
    start: int = 0
    end: int | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it holds ready vectors."""
        return self.files[0].endswith(READY)

    def to_json(self) -> dict[str, Any]:
        """The part as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> InputPart:
        """The part that `to_json` told."""
        return cls(**{**told, "files": tuple(told["files"])})


def cut(inputs: Sequence[str], shards: int, size: int | None = None) -> list[InputPart]:
    """The inputs as parts of about `size` bytes, in order; by default of a size that suits the number of shards."""
    found = [one for name in inputs for one in _found(name)]
    sizes = [sum(_bytes(file) for file in files) for files, _ in found]
    size = size or min(max(sum(sizes) // (PER_SHARD * shards), SMALLEST), LARGEST)
    return [part for files, root in found for part in _parts(files, root, size)]


def read_part(part: InputPart) -> Iterator[Doc]:
    """The documents of a part, which is not of ready vectors."""
    if is_dataset(part.files[0]):
        return read_docs(part.files)
    root = Path(part.root) if part.root else None
    docs = distinct_docs([file_docs(Path(file), root, part.start, part.end) for file in part.files])
    return _renumbered(docs, part) if part.start else docs


def read_ready(part: InputPart) -> tuple[list[str], sp.csr_array]:
    """The ids and vectors of a part of ready vectors."""
    ids, weights = _vectors(part.files[0])
    return ids[part.start : part.end], weights[part.start : part.end]


def columns(inputs: Sequence[str]) -> int:
    """How many columns the ready vectors of all these files have."""
    widths = {name: _shape(name)[1] for name in inputs}
    for name, width in widths.items():
        if width != widths[inputs[0]]:
            raise InputError(f"{name}: vectors have {width:,} columns, those of {inputs[0]} {widths[inputs[0]]:,}")
    return widths[inputs[0]]


def stamps(parts: Sequence[InputPart]) -> dict[str, list[int]]:
    """Size and time of change of each file, by which a build knows that its inputs are still the same."""
    files = dict.fromkeys(file for part in parts for file in part.files if not is_dataset(file))
    return {file: [Path(file).stat().st_size, Path(file).stat().st_mtime_ns] for file in files}


def _found(name: str) -> list[tuple[list[str], str | None]]:
    """What is read of a named input: files that go together, and the folder they were found in."""
    if is_dataset(name):
        return [([name], None)]
    path = Path(name).absolute()
    if not is_folder(path):
        return [([str(path)], None)]
    files = [str(file) for file in folder_files(path)]
    tables = [file for file in files if ending(Path(file)) in LINES]
    return [([file], str(path)) for file in tables] if tables else [(files, str(path))]


def _parts(files: list[str], root: str | None, size: int) -> Iterator[InputPart]:
    path = Path(files[0])
    if is_dataset(files[0]):
        yield InputPart(tuple(files))
    elif path.suffix == READY:
        rows = _shape(str(path))[0]
        step = max(1, rows * size // max(1, _bytes(str(path))))
        yield from (InputPart((str(path),), None, start, min(start + step, rows)) for start in range(0, rows, step))
    elif len(files) > 1:
        yield from (InputPart(tuple(some), root) for some in _grouped(files, size))
    elif is_gzip(path) or ending(path) not in LINES or _bytes(files[0]) <= size:
        yield InputPart((str(path),), root)
    else:
        yield from (InputPart((str(path),), root, start, end) for start, end in pairwise(_line_starts(path, size)))


def _grouped(files: list[str], size: int) -> Iterator[list[str]]:
    some, held = list[str](), 0
    for file in files:
        some.append(file)
        held += _bytes(file)
        if held >= size or len(some) >= MOST_FILES:
            yield some
            some, held = [], 0
    if some:
        yield some


def _line_starts(path: Path, size: int) -> list[int]:
    """Places where lines begin, about `size` bytes apart, from the file's first byte to its end."""
    total = path.stat().st_size
    starts = [0]
    with reading(path), path.open("rb") as file:
        while starts[-1] + size < total:
            file.seek(starts[-1] + size - 1)
            file.readline()
            starts.append(file.tell())
    return [*starts, total] if starts[-1] < total else starts


def _renumbered(docs: Iterator[Doc], part: InputPart) -> Iterator[Doc]:
    """The documents; an error about a line names its number in the file and not in the part."""
    try:
        yield from docs
    except InputError as error:
        file = part.files[0]
        with Path(file).open("rb") as whole:
            before = sum(whole.read(min(1 << 20, part.start - at)).count(b"\n") for at in range(0, part.start, 1 << 20))
        told = re.sub(
            rf"^{re.escape(file)}:(\d+): ", lambda found: f"{file}:{before + int(found[1])}: ", str(error), count=1
        )
        raise InputError(told) from None


def _bytes(name: str) -> int:
    with reading(Path(name)):
        return 0 if is_dataset(name) else Path(name).stat().st_size


def _shape(name: str) -> tuple[int, int]:
    """The shape of the matrix in an .npz file, without reading the matrix."""
    try:
        with reading(Path(name)), np.load(name, allow_pickle=False) as arrays:
            rows, width = arrays["shape"].tolist()
            return int(rows), int(width)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{name}: not a scipy sparse .npz: {error}") from None


@lru_cache(maxsize=1)
def _vectors(name: str) -> tuple[list[str], sp.csr_array]:
    return read_vectors(name)
