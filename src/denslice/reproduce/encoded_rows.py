"""Encoded texts on disk: .npz files, each named after its rows and written completely or not at all.

`00000000-00004096.npz` holds rows 0 to 4095: `starts`, `tokens` and `weights` as in a CSR matrix, and `dense`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import scipy.sparse as sp

from denslice.errors import InputError
from denslice.store.files import replace_file
from denslice.vectors import Encoded

PART_BYTES = 12 << 20  # approximate limit of a file, so that files are easy to copy
Rows = tuple[int, int]  # the first, and the one after the last
Precision = type[np.float16] | type[np.float32]


def gaps(folder: Path, count: int) -> list[Rows]:
    """Return the rows, of `count` rows, that no file holds."""
    ends = [0, *(end for _, end in _held(folder))]
    starts = [*(start for start, _ in _held(folder)), count]
    return [(end, start) for end, start in zip(ends, starts, strict=True) if end < start]


def write_rows(folder: Path, first: int, encoded: Encoded, precision: Precision) -> None:
    """Write rows that start at `first`, in as few files as their size allows."""
    _check_range(encoded, precision)
    for start, end in _cuts(encoded, precision):
        _write(folder, first + start, encoded.rows(slice(start, end)), precision)


def read_rows(folder: Path, vocab: int) -> Iterator[Encoded]:
    """Yield the rows of each file, as float32."""
    for rows in _held(folder):
        yield _read(folder / _name(rows), vocab)


def read_all(folder: Path, vocab: int) -> Encoded:
    """The rows of all files."""
    return Encoded.joined(list(read_rows(folder, vocab)))


def _held(folder: Path) -> list[Rows]:
    names = (path.stem.split("-") for path in sorted(folder.glob("*.npz")))
    return [(int(start), int(end)) for start, end in names]


def _name(rows: Rows) -> str:
    return f"{rows[0]:08d}-{rows[1]:08d}.npz"


def _write(folder: Path, first: int, encoded: Encoded, precision: Precision) -> None:
    rows = encoded.lexical
    arrays: dict[str, Any] = {
        "starts": rows.indptr.astype(np.uint32),
        "tokens": rows.indices.astype(_token_type(rows)),
        "weights": rows.data.astype(precision),
    }
    if encoded.dense is not None:
        arrays["dense"] = encoded.dense.astype(precision)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    replace_file(folder / _name((first, first + rows.shape[0])), buffer.getvalue())


def _read(path: Path, vocab: int) -> Encoded:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:  # numpy does not close damaged files
            shape = (len(arrays["starts"]) - 1, vocab)
            parts = (arrays["weights"].astype(np.float32), arrays["tokens"].astype(np.int32), arrays["starts"])
            rows = sp.csr_array(parts, shape)
            rows.check_format(full_check=True)
            rows.eliminate_zeros()  # weights that float16 rounds to 0
            return Encoded(rows, arrays["dense"].astype(np.float32) if "dense" in arrays else None)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise InputError(f"{path}: damaged ({error}); remove it and encode again, which fills the gap") from None


def _cuts(encoded: Encoded, precision: Precision) -> Iterator[Rows]:
    """Yield ranges of rows with at most about PART_BYTES each."""
    rows = encoded.lexical
    width = 0 if encoded.dense is None else encoded.dense.shape[1]
    value = np.dtype(precision).itemsize
    sizes = np.diff(rows.indptr) * (value + np.dtype(_token_type(rows)).itemsize) + width * value
    before = np.concatenate([[0], np.cumsum(sizes)])
    start = 0
    while start < rows.shape[0]:
        end = int(np.searchsorted(before, before[start] + PART_BYTES, side="right")) - 1
        yield start, max(end, start + 1)
        start = max(end, start + 1)


def _token_type(rows: sp.csr_array) -> type[np.uint16] | type[np.uint32]:
    return np.uint16 if rows.shape[1] <= 1 << 16 else np.uint32


def _check_range(encoded: Encoded, precision: Precision) -> None:
    largest = float(np.finfo(precision).max)
    for values in (encoded.lexical.data, encoded.dense):
        if values is not None and not (np.abs(values) <= largest).all():
            raise InputError(f"the model gives numbers that are not finite, or above {largest:,.0f}")
