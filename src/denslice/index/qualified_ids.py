"""Ids of documents in several indexes: NAME:ID, with the name of the index and the document's own id.

An id is unique in its index only. The name has no colon, so that the first one ends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from denslice.errors import InputError
from denslice.search.filter import parse

COLON = ":"
ALL: dict[str, Any] = {}  # a filter that every document passes
NONE: dict[str, Any] = {"or": []}  # a filter that no document passes
COMPARED = {"gt": False, "gte": False, "lt": True, "lte": True}  # whether what comes before the operand passes


def names_of(paths: Sequence[str | Path]) -> dict[str, Path]:
    """Return the paths of indexes by their names: that of the folder, without .idx."""
    named: dict[str, Path] = {}
    for path in map(Path, paths):
        name = path.absolute().name.removesuffix(".idx")
        if name in named:
            told = f"{named[name]} and {path} would both be named {name!r} in the ids of their documents"
            raise InputError(f"{told}; rename a folder, or in Python give {{name: path}}")
        named[name] = path
    return named


def prefix_of(name: str) -> str:
    """Return what stands before the ids of an index; raise InputError if the name cannot be told from an id."""
    if not name or COLON in name:
        raise InputError(f"{name!r} cannot be the name of an index: it must not be empty or have a colon")
    return name + COLON


def own_filter(where: Mapping[str, Any], prefix: str) -> Mapping[str, Any]:
    """Return what a filter over several indexes means in the one whose ids have this prefix."""
    parse(where)  # it raises InputError if a part of it is not valid
    return _own(where, prefix)


def _own(where: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    own: dict[str, Any] = {}
    tests: list[Any] = []
    for key, value in where.items():
        if key == "id":
            tests = _own_tests(value if isinstance(value, Mapping) else {"eq": value}, prefix)
        elif key in ("and", "or"):
            own[key] = [_own(part, prefix) for part in value]
        else:
            own[key] = _own(value, prefix) if key == "not" else value
    return own | {"and": [*own.get("and", ()), *tests]} if tests else own


def _own_tests(tests: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    return [_own_test(operator, operand, prefix) for operator, operand in tests.items()]


def _own_test(operator: str, operand: Any, prefix: str) -> dict[str, Any]:
    """Return a test of ids here, given that of qualified ids."""
    if operator == "in":
        return {"id": {"in": [one.removeprefix(prefix) for one in map(str, operand) if one.startswith(prefix)]}}
    if operator == "exists":
        return {"id": {operator: operand}}
    if isinstance(operand, str) and operand.startswith(prefix):
        return {"id": {operator: operand.removeprefix(prefix)}}
    if operator in COMPARED and isinstance(operand, str):  # then all ids here are on one side of it
        return ALL if (prefix < operand) == COMPARED[operator] else NONE
    return ALL if operator == "ne" else NONE
