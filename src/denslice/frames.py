"""Tables in memory as records: frames of pandas and polars, Arrow tables, and datasets of Hugging Face.

None of these packages is imported here before an object of it is given.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, cast

from denslice.errors import InputError, MissingExtraError
from denslice.json_cells import ROWS_AT_ONCE, Row, arrow_rows, distinct_names, row_of


class ArrowStream(Protocol):
    """A table of any package that hands out its rows as an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object:
        """Return the stream in a PyCapsule."""


def records_of(given: object, keep: Sequence[str] = ()) -> object:
    """Return the rows of a table as an iterator of dicts whose values JSON can hold; anything else unchanged.

    Missing cells, NaN, infinite numbers and bytes are left out. A missing cell of a column in `keep` is None.
    """
    if _is_a(given, "pandas", "DataFrame"):
        return _pandas_rows(given, keep)
    if _is_a(given, "polars", "LazyFrame"):
        return _polars_rows(cast(Any, given).collect(), keep)
    if _is_a(given, "polars", "DataFrame"):
        return _polars_rows(given, keep)
    if _is_a(given, "datasets", "Dataset") or _is_a(given, "datasets", "IterableDataset"):
        return _dataset_rows(given, keep)
    if hasattr(given, "__arrow_c_stream__") and not isinstance(given, type):
        return _stream_rows(cast(ArrowStream, given), keep)
    return given


def _is_a(given: object, package: str, name: str) -> bool:
    """Return whether an object is of a class of a package, which then is imported already."""
    kind = getattr(sys.modules.get(package), name, None)
    return isinstance(kind, type) and isinstance(given, kind)


def _pandas_rows(frame: Any, keep: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a pandas frame. The levels of its index that have a name are columns too."""
    levels = [level for level, name in enumerate(frame.index.names) if name is not None]
    levels = [level for level in levels if frame.index.names[level] not in frame.columns]
    names = distinct_names([*(frame.index.names[level] for level in levels), *frame.columns])
    for start in range(0, len(frame), ROWS_AT_ONCE):
        part = frame.iloc[start : start + ROWS_AT_ONCE]
        columns = [part.index.get_level_values(level) for level in levels]
        columns += [part.iloc[:, position] for position in range(part.shape[1])]
        for cells in zip(*map(_pandas_cells, columns), strict=True):
            yield row_of(names, cells, keep)


def _pandas_cells(column: Any) -> list[Any]:
    values = zip(column.tolist(), column.isna().tolist(), strict=True)
    return [None if is_missing else value for value, is_missing in values]


def _polars_rows(frame: Any, keep: Sequence[str]) -> Iterator[Row]:
    names = distinct_names(frame.columns)
    return (row_of(names, cells, keep) for cells in frame.iter_rows())


def _dataset_rows(dataset: Any, keep: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a dataset of Hugging Face; as Arrow, so that no image or sound is decoded."""
    tables = dataset.with_format("arrow").iter(batch_size=ROWS_AT_ONCE)
    return arrow_rows((batch for table in tables for batch in table.to_batches()), keep)


def _stream_rows(table: ArrowStream, keep: Sequence[str]) -> Iterator[Row]:
    """Return the rows of anything that hands out an Arrow stream; raise InputError if it is not a table."""
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingExtraError(f"reading {type(table).__name__}", "files") from None
    try:
        batches: Iterable[Any] = pa.RecordBatchReader.from_stream(table)
    except pa.ArrowInvalid:
        raise InputError(f"documents come in a table or a list, not as one {type(table).__name__}") from None
    return arrow_rows(batches, keep)
