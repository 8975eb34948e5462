"""Conversions of scalars from callers: numpy's become Python's, dates become ISO 8601 strings, numbers are checked."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from denslice.errors import InputError


def python_scalar(value: object) -> Any:
    """Return the value as JSON and SQLite store it: a numpy scalar as Python's, a date or datetime in ISO 8601.

    A datetime with a time zone is converted to UTC, so that the order of the strings is the order of time.
    """
    if isinstance(value, np.datetime64):
        return _iso(value)
    if isinstance(value, np.longdouble):  # item() returns the longdouble itself
        return float(value)
    if isinstance(value, np.generic) and not isinstance(value, np.timedelta64):
        return value.item()
    if isinstance(value, date) and value == value:  # pandas' NaT is a datetime that does not equal itself
        aware = isinstance(value, datetime) and value.utcoffset() is not None
        return (value.astimezone(UTC) if aware and isinstance(value, datetime) else value).isoformat()
    return value


def is_whole(value: object) -> bool:
    """Return whether a value is an integer of Python or numpy, and not a bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_number(value: object) -> bool:
    """Return whether a value is a finite number of Python or numpy, and not a bool."""
    return is_whole(value) or (isinstance(value, float | np.floating) and math.isfinite(value))


def whole_number(name: str, value: object, least: int) -> int:
    """Return the value of an option as an int; raise InputError if it is not a whole number or is too small."""
    if not is_whole(value) or value < least:  # type: ignore[operator]
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def number(name: str, value: object, least: float = -math.inf, most: float = math.inf, above: bool = False) -> float:
    """Return the value of an option as a float; raise InputError if it is not a finite number in the range.

    With `above`, `least` itself is out of the range.
    """
    if not is_number(value) or not least <= value <= most or (above and value == least):  # type: ignore[operator]
        raise InputError(f"{name} must be {_range(least, most, above)}, not {value!r}")
    return float(value)  # type: ignore[arg-type]


def _range(least: float, most: float, above: bool) -> str:
    low = f"a number above {least:g}" if above else f"a number of {least:g} or more"
    if most == math.inf:
        return low
    return f"{low.removesuffix(' or more')} and at most {most:g}" if above else f"a number from {least:g} to {most:g}"


def _iso(value: np.datetime64) -> object:
    if np.isnat(value):
        return value
    rounded = value.astype("datetime64[us]")
    is_day = np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D")
    made = (value if is_day else rounded).item()
    return made.isoformat() if isinstance(made, date) and rounded == value else str(value)
