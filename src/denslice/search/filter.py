"""Filters over metadata: a plain definition of what a `where` means, and the rows of a segment that pass it.

A filter is an object as in JSON: {"year": {"gte": 2020}, "lang": "en"}; {"and": […]}, {"or": […]}, {"not": …}.
All conditions of one object have to hold. docs/filters.md describes the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.errors import IndexFormatError, InputError
from denslice.records import json_value
from denslice.scalars import is_whole
from denslice.search.query import NO_ROWS
from denslice.store.docs_sqlite import Documents, kind_and_value
from denslice.store.field_values import PRESENT
from denslice.store.recent_masks import RowMask
from denslice.store.segment import Segment

OPERATORS = ("eq", "ne", "in", "gt", "gte", "lt", "lte", "exists")
DEEPEST = 32  # levels of a filter
Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Condition:
    """A field is compared with an operand by an operator."""

    field: str
    operator: str
    operand: Any


@dataclass(frozen=True)
class Every:
    """Every part has to hold. Without parts it always holds."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Some:
    """At least one part has to hold. Without parts it never holds."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True)
class Not:
    """The part must not hold."""

    part: Filter


Filter = Condition | Every | Some | Not


def parse(where: object, depth: int = 0) -> Filter:
    """Return the filter that a value describes. Raise InputError if a part of it is not valid."""
    if depth > DEEPEST:
        raise InputError(f"where is nested deeper than {DEEPEST} levels")
    if not isinstance(where, Mapping):
        raise InputError(f'where is {type(where).__name__}, expected an object such as {{"year": {{"gte": 2020}}}}')
    return _all([_parse_item(key, value, depth) for key, value in where.items()])


def matches(filter: Filter, fields: Fields) -> bool:
    """Return whether a document with these fields (`records.filter_fields`) passes: the definition of a filter."""
    match filter:
        case Every(parts):
            return all(matches(part, fields) for part in parts)
        case Some(parts):
            return any(matches(part, fields) for part in parts)
        case Not(part):
            return not matches(part, fields)
        case Condition(field, "exists", operand):
            return (field in fields) is operand
        case Condition(field, "ne", operand):
            return not matches(Condition(field, "eq", operand), fields)
        case Condition(field, operator, operand):
            return field in fields and _holds(operator, fields[field], operand)


def named_fields(filter: Filter) -> set[str]:
    """Return the fields that the filter has conditions on."""
    match filter:
        case Every(parts) | Some(parts):
            return {field for part in parts for field in named_fields(part)}
        case Not(part):
            return named_fields(part)
        case Condition(field, _, _):
            return {field}


def passing(filter: Filter, segment: Segment, filterable: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Return a 1 for each row of the segment that passes; the latest filters are remembered."""
    found = partial(_passing, filter, segment, filterable)
    return segment.documents.recent_masks.mask(repr(filter), segment.rows, found).view(np.uint8)


def _passing(filter: Filter, segment: Segment, filterable: Sequence[str]) -> RowMask:
    """Return whether each row passes, from the tables of filterable fields where possible."""
    parts = filter.parts if isinstance(filter, Every) else (filter,)
    quick = [part for part in parts if _is_indexed(part, filterable)]
    slow = [part for part in parts if not _is_indexed(part, filterable)]
    mask = _indexed(Every(tuple(quick)), segment.documents, segment.rows)
    for row, fields in segment.documents.fields(np.flatnonzero(mask).tolist()) if slow else ():
        mask[row] = matches(Every(tuple(slow)), fields)
    return mask


def _parse_item(key: object, value: Any, depth: int) -> Filter:
    if key in ("and", "or"):
        if not isinstance(value, list | tuple):
            raise InputError(f'"{key}" in where takes a list of conditions, not {type(value).__name__}')
        parts = tuple(parse(part, depth + 1) for part in value)
        return Every(parts) if key == "and" else Some(parts)
    if key == "not":
        return Not(parse(value, depth + 1))
    if not isinstance(key, str):
        raise InputError(f"field {key!r} in where is not a string")
    conditions = value if isinstance(value, Mapping) else {"eq": value}
    return _all([_parse_test(key, operator, operand) for operator, operand in conditions.items()])


def _parse_test(field: str, operator: object, operand: Any) -> Condition:
    if operator not in OPERATORS:
        raise InputError(f"unknown operator {operator!r} for {field!r} in where; known: {', '.join(OPERATORS)}")
    if operator == "in" and not isinstance(operand, list | tuple):
        raise InputError(f'"in" for {field!r} in where takes a list, not {type(operand).__name__}')
    operand = _json_operand(field, str(operator), operand)
    if operator == "exists" and not isinstance(operand, bool):
        raise InputError(f'"exists" for {field!r} in where takes true or false, not {operand!r}')
    if operator in ("gt", "gte", "lt", "lte") and (
        isinstance(operand, bool) or not isinstance(operand, str | int | float)
    ):
        raise InputError(f'"{operator}" for {field!r} in where takes a number or a string, not {operand!r}')
    return Condition(field, str(operator), operand)


def _json_operand(field: str, operator: str, operand: Any) -> Any:
    """Return the operand as metadata are stored. For the field `id`, whole numbers become strings."""
    name = f'"{operator}" for {field!r} in where'
    try:
        operand = json_value(operand, name)
    except RecursionError:
        raise InputError(f"{name} is nested too deeply, or contains itself") from None
    if field == "id" and operator in ("eq", "ne", "in"):
        return [_id(item) for item in operand] if isinstance(operand, list) else _id(operand)
    return operand


def _id(operand: Any) -> Any:
    return str(operand) if is_whole(operand) else operand


def _all(parts: list[Any]) -> Filter:
    flat = [inner for part in parts for inner in (part.parts if isinstance(part, Every) else (part,))]
    return flat[0] if len(flat) == 1 else Every(tuple(flat))


def _holds(operator: str, value: object, operand: Any) -> bool:
    """Return whether a value, or any element of a list, passes. "eq" also compares a list as a whole."""
    if operator == "in":
        return any(_holds("eq", value, item) for item in operand)
    if operator == "eq" and _same(value, operand):
        return True
    elements = value if isinstance(value, list) else [value]
    return any(_COMPARE[operator](element, operand) for element in elements)


def _same(a: object, b: object) -> bool:
    """Return whether two JSON values are equal: true is not 1, and 1 is 1.0."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return a == b


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a comparison that holds only between two numbers or two strings."""

    def holds(a: Any, b: Any) -> bool:
        numbers = isinstance(a, int | float) and isinstance(b, int | float) and not isinstance(a, bool)
        return (numbers or (isinstance(a, str) and isinstance(b, str))) and compare(a, b)

    return holds


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": _same,
    "gt": _ordered(lambda a, b: a > b),
    "gte": _ordered(lambda a, b: a >= b),
    "lt": _ordered(lambda a, b: a < b),
    "lte": _ordered(lambda a, b: a <= b),
}


def _is_indexed(filter: Filter, filterable: Sequence[str]) -> bool:
    """Return whether the tables of ids and of filterable fields can answer the filter."""
    match filter:
        case Every(parts) | Some(parts):
            return all(_is_indexed(part, filterable) for part in parts)
        case Not(part):
            return _is_indexed(part, filterable)
        case Condition(field, operator, operand):
            operands = operand if operator == "in" else [operand]
            return (field == "id" or field in filterable) and all(_fits_the_table(item) for item in operands)


def _fits_the_table(operand: object) -> bool:
    if isinstance(operand, int):
        return -(2**63) <= operand < 2**63
    return operand is None or isinstance(operand, float) or (isinstance(operand, str) and operand.isprintable())


def _indexed(filter: Filter, documents: Documents, count: int) -> RowMask:
    match filter:
        case Every(parts):
            return _reduced(np.logical_and, parts, documents, count)
        case Some(parts):
            return _reduced(np.logical_or, parts, documents, count)
        case Not(part):
            return ~_indexed(part, documents, count)
        case Condition(field, "ne", operand):
            return ~_indexed(Condition(field, "eq", operand), documents, count)
        case Condition("id", operator, operand):
            return _with_ids(operator, operand, documents, count)
        case Condition(field, "in", operand):
            return _indexed(Some(tuple(Condition(field, "eq", item) for item in operand)), documents, count)
        case Condition(field, "exists", operand):
            present = _rows_mask(documents, documents.having("exists", field, PRESENT), count)
            return present if operand else ~present
        case Condition(field, operator, operand):
            kind, value = kind_and_value(operand) or (PRESENT, None)
            return _rows_mask(documents, documents.having(operator, field, kind, value), count)


def _with_ids(operator: str, operand: Any, documents: Documents, count: int) -> RowMask:
    """Return the rows whose id passes. An id is a string, and every document has one."""
    if operator == "exists":
        return np.full(count, operand)
    if operator == "in":
        found = documents.rows([item for item in operand if isinstance(item, str)]).values()
        return _rows_mask(documents, np.fromiter(found, np.int64), count)
    rows = documents.having_id(operator, operand) if isinstance(operand, str) else NO_ROWS
    return _rows_mask(documents, rows, count)


def _reduced(join: np.ufunc, parts: tuple[Filter, ...], documents: Documents, count: int) -> RowMask:
    mask = np.full(count, join.identity, dtype=np.bool_)
    for part in parts:
        join(mask, _indexed(part, documents, count), out=mask)
    return mask


def _rows_mask(documents: Documents, rows: npt.NDArray[np.int64], count: int) -> RowMask:
    if rows.max(initial=0) >= count or rows.min(initial=0) < 0:
        raise IndexFormatError(f"{documents.path}: the file names a row that does not exist; the index is damaged")
    mask = np.zeros(count, dtype=np.bool_)
    mask[rows] = True
    return mask
