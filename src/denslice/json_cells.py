"""The cells of tables as JSON holds them: numbers, dates and nested values of numpy, pandas, polars and Arrow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

import numpy as np

from denslice.scalars import python_scalar

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 1_000  # that are Python's objects at the same time
LARGEST_EXPONENT = 18  # of a whole Decimal that becomes an int

Row = dict[str, Any]


def json_cell(value: object) -> Any:
    """Return a cell as JSON holds it, or None if it is missing, binary, or a number that is not finite.

    Dates and times become ISO 8601 strings, durations seconds. What has no form in JSON is returned unchanged.
    """
    value = python_scalar(value)
    if isinstance(value, str | bool | int):
        return value
    if value is None or isinstance(value, bytes | bytearray | memoryview) or _is_missing(value):
        return None
    if isinstance(value, float | Decimal):
        return _number(value)
    if isinstance(value, timedelta | np.timedelta64):
        return float(value / np.timedelta64(1, "s")) if isinstance(value, np.timedelta64) else value.total_seconds()
    if isinstance(value, Mapping):
        return row_of(map(str, value), value.values())
    if isinstance(value, np.ndarray | list | tuple):
        return _list(value)
    return _named(value)


def row_of(names: Iterable[str], cells: Iterable[object], keep: Sequence[str] = ()) -> Row:
    """Return the cells of a row by the names of their columns, without those that are missing, unless to be kept."""
    row = zip(names, map(json_cell, cells), strict=True)
    return {name: cell for name, cell in row if cell is not None or name in keep}


def arrow_rows(batches: Iterable[pa.RecordBatch], keep: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the rows of Arrow's record batches, a part of a batch at a time."""
    for batch in batches:
        names = distinct_names(batch.schema.names)
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            columns = [_arrow_cells(column) for column in batch.slice(start, ROWS_AT_ONCE).columns]
            yield from (row_of(names, cells, keep) for cells in zip(*columns, strict=True))


def distinct_names(names: Iterable[object]) -> list[str]:
    """Return the names of columns as strings, each once: the second `a` is called `a 2`."""
    found: dict[str, None] = {}
    for position, given in enumerate(names, 1):
        name = str(given).strip() or f"column {position}"
        number = 2
        while name in found:
            name, number = f"{str(given).strip()} {number}", number + 1
        found[name] = None
    return list(found)


def _is_missing(value: object) -> bool:
    """Return whether a value is NaN, pandas' NA or NaT, or numpy's NaT."""
    return type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, np.generic) and bool(np.isnat(value)))


def _number(value: float | Decimal) -> int | float | None:
    if not math.isfinite(value):
        return None
    if isinstance(value, Decimal) and value == value.to_integral_value() and value.adjusted() <= LARGEST_EXPONENT:
        return int(value)
    return float(value) if math.isfinite(float(value)) else None


def _list(value: Iterable[object]) -> Any:
    """Return a list of cells; a map of Arrow, which comes as a list of pairs, becomes an object."""
    items = list(value)
    if items and all(isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in items):
        return row_of(*zip(*items, strict=True))
    return [json_cell(item) for item in items]


def _named(value: object) -> object:
    """Return the text of a time of day, a UUID, or a period or interval of pandas; anything else unchanged."""
    if isinstance(value, time):
        return value.isoformat()
    is_text = isinstance(value, UUID) or type(value).__name__ in ("Period", "Interval")
    return str(value) if is_text else value


def _arrow_cells(column: pa.Array) -> list[Any]:
    """Return the values of a column, with None for what Python cannot hold, such as a date in the year 12000."""
    import pyarrow as pa

    if is_binary(column.type):
        return [None] * len(column)
    try:
        return list(_in_microseconds(column).to_pylist())
    except (ValueError, OverflowError, pa.ArrowException):
        return [_python_value(scalar) for scalar in column]


def _python_value(scalar: pa.Scalar) -> Any:
    import pyarrow as pa

    try:
        return scalar.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return None


def is_binary(type: pa.DataType) -> bool:
    """Return whether a column of this type holds bytes."""
    from pyarrow import types

    return bool(
        types.is_binary(type)
        or types.is_large_binary(type)
        or types.is_fixed_size_binary(type)
        or types.is_binary_view(type)
    )


def _in_microseconds(column: pa.Array) -> pa.Array:
    """Return times in microseconds, since Python's have no nanoseconds; any other column unchanged."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if pa.types.is_duration(column.type) and column.type.unit == "ns":
        return column.cast(pa.duration("us"), safe=False)
    if pa.types.is_time64(column.type) and column.type.unit == "ns":
        return column.cast(pa.time64("us"), safe=False)
    return column
