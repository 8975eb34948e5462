"""The documents that move through denslice, and the checks of what callers give.

All are frozen: a step returns new records and never edits old ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from denslice.errors import InputError
from denslice.frames import ArrowStream, records_of
from denslice.scalars import is_whole, python_scalar

ID_FIELDS = ("id", "_id", "docid")
TEXT_FIELDS = ("text", "contents", "content")
META_FIELDS = ("meta", "metadata")
SCORE_FIELDS = ("score", "lexical", "dense")
# Fields that a search adds to a document.
FOUND_FIELDS = (*SCORE_FIELDS, "passages", "terms", "lost", "explanation", "cut", "highlights")
DEEPEST_META = 64  # levels of metadata, the same for Python, HTTP and files
LARGEST_FLOAT32 = 3.4028234e38
Progress = Callable[[int], None]  # is called with the number of documents that were done since the last call


@dataclass(frozen=True, slots=True)
class Doc:
    """One document. Title and text are searched together; `meta` is stored with them and can be filtered on."""

    id: str
    text: str = ""
    title: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    vector: Mapping[str, float] | None = None

    @property
    def contents(self) -> str:
        """The text that an encoder reads: title and text."""
        return f"{self.title} {self.text}" if self.title else self.text

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Doc:
        """Return the document of a JSON object: one that `to_dict` or a search wrote, or any with an id.

        Metadata are the fields of `meta` (or `metadata`, as in BEIR) and every other field that is not id, text, title
        or vector. The scores and explanations of a search are left out, and so are the places that a
        server adds.
        """
        rest = _without_places(_without_scores(fields))
        meta = {name: value for field in META_FIELDS for name, value in _object(rest.pop(field, None), field).items()}
        id, text = take_field(rest, ID_FIELDS), take_field(rest, TEXT_FIELDS)
        title, vector = rest.pop("title", None), rest.pop("vector", None)
        if text is None and title is None and vector is None:
            _check_for_text(fields)
        given = cls(id, "" if text is None else text, "" if title is None else title, {**meta, **rest}, vector)
        return _checked(given)

    def to_dict(self) -> dict[str, Any]:
        """Return the document as a JSON object that `from_dict` reads back unchanged, with any names of metadata."""
        fields: dict[str, Any] = {"id": self.id, "title": self.title, "text": self.text, "meta": dict(self.meta)}
        return fields if self.vector is None else {**fields, "vector": dict(self.vector)}

    def meta_json(self) -> str:
        """Return the metadata as JSON text; raise InputError if JSON cannot hold it."""
        if not self.meta:
            return "{}"
        if is_nested_deeper(self.meta, DEEPEST_META):
            problem = f"nested deeper than {DEEPEST_META} levels; flatten it"
            raise InputError(f"metadata of document {self.id!r} is {problem}")
        try:
            if not all(isinstance(name, str) for name in self.meta):
                raise TypeError("the names of fields must be strings")
            meta = dict(self.meta)
            return json.dumps(meta, ensure_ascii=False, allow_nan=False, sort_keys=True, default=_known_to_json)
        except (TypeError, ValueError) as error:
            raise InputError(f"metadata of document {self.id!r} is not JSON: {error}") from None


GivenDocs = Iterable[Doc | Mapping[str, Any]] | ArrowStream  # documents as callers give them, also in a data frame


class Place(NamedTuple):
    """Where a passage is in the text of its document: its characters, the headings above it, and its page from 1."""

    start: int
    end: int
    heading: str = ""
    page: int | None = None


def checked_docs(docs: object, first: int = 0) -> Iterator[Doc]:
    """Yield documents from Docs, mappings or the rows of a table, such as a data frame.

    An error names the position, counted from `first`, and the id. Errors of reading, which name a file and a line, pass
    unchanged.
    """
    records = records_of(docs, keep=TEXT_FIELDS)
    if isinstance(records, str | Mapping | Doc) or not isinstance(records, Iterable):
        raise InputError(f"documents come in a list, not as one {type(docs).__name__}")
    for position, given in enumerate(records, first):
        try:
            if not isinstance(given, Doc | Mapping):
                raise InputError(f"a document is a Doc or a dict, not {type(given).__name__}")
            doc = _checked(given) if isinstance(given, Doc) else Doc.from_dict(given)
        except InputError as error:
            raise InputError(f"document {position}{_id_note(given)}: {error}") from None
        yield doc


def checked_id(value: object) -> str:
    """Return the id as a string; raise InputError if it is empty or has control characters or lone surrogates."""
    if value is None:
        raise InputError(f"no id (looked for {', '.join(ID_FIELDS)})")
    id = given_id(value)
    if not id.strip():
        raise InputError("the id is empty")
    if not id.isprintable():
        raise InputError(f"id {id!r} has characters that cannot be printed")
    return id


def checked_ids(ids: Iterable[object]) -> list[str]:
    """Return the ids as strings, each once; raise InputError if they are one string or one is not valid."""
    if isinstance(ids, str):
        raise InputError(f"ids come in a list, not as one string: [{ids!r}]")
    return list(dict.fromkeys(map(checked_id, ids)))


def is_nested_deeper(value: object, levels: int) -> bool:
    """Return whether objects and lists are nested deeper than so many levels, without recursion."""
    left = [(value, 1)]
    while left:
        one, level = left.pop()
        if isinstance(one, Mapping | list | tuple):
            if level > levels:
                return True
            left += [(inner, level + 1) for inner in (one.values() if isinstance(one, Mapping) else one)]
    return False


def _without_scores(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields, of a hit without those that a search adds; raise InputError if its text is truncated."""
    if not all(name in fields for name in ("meta", *SCORE_FIELDS)):
        return dict(fields)
    if fields.get("cut"):
        advice = "fetch it with GET /documents/ID and send that"
        raise InputError(f"a search returned only a part of this document; {advice}")
    return {name: value for name, value in fields.items() if name not in FOUND_FIELDS}


def _without_places(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields, of a document that a server returned without the places of its passages."""
    found = fields.get("passages")
    if "meta" not in fields or not isinstance(found, list) or not found:
        return fields
    if not all(isinstance(one, Mapping) and one.keys() == set(Place._fields) for one in found):
        return fields
    return {name: value for name, value in fields.items() if name != "passages"}


def given_id(value: object) -> str:
    """Return the id that a caller gives: a string unchanged, a whole number as its decimal digits."""
    if is_whole(value):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f"id {value!r} is {type(value).__name__}, expected a string or a whole number")
    return str(value)


def filter_fields(id: str, title: str, meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a filter can name: the metadata, the id, and the title if there is one."""
    return {**meta, "id": id, **({"title": title} if title else {})}


def checked_vector(given: object) -> dict[str, float] | None:
    """Return ready weights by token, or None; raise InputError unless they are finite in float32 and 0 or more."""
    if given is None:
        return None
    return {_token(token): _weight(token, weight) for token, weight in _object(given, "vector").items()}


def json_value(value: object, name: str) -> Any:
    """Return the value as JSON holds it; raise InputError, which calls it `name`, if JSON cannot hold it."""
    value = python_scalar(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{name} is {value}, which JSON cannot hold; give a finite number or null")
        return value
    if isinstance(value, list | tuple):
        return [json_value(item, f"{name}[{at}]") for at, item in enumerate(value)]
    if isinstance(value, Mapping):
        return json_object(value, name)
    raise InputError(f"{name} is {type(value).__name__}, which JSON cannot hold; give a string or a number")


def json_object(fields: Mapping[Any, object], name: str = "") -> dict[str, Any]:
    """Return the fields as JSON holds them; an error calls their object `name`."""
    if wrong := [key for key in fields if not isinstance(key, str)]:
        raise InputError(f"{name or 'metadata'} has a field {wrong[0]!r}, and the names of fields must be strings")
    return {str(key): json_value(value, f"{name}.{key}" if name else f"field {key!r}") for key, value in fields.items()}


def _checked(doc: Doc) -> Doc:
    """Return the document with its id as a string and its metadata as JSON holds it; raise InputError if it cannot."""
    id = checked_id(doc.id)
    for name, value in (("title", doc.title), ("text", doc.text)):
        if not isinstance(value, str):
            raise InputError(f"{name} is {type(value).__name__}, expected a string")
    if is_nested_deeper(doc.meta, DEEPEST_META):
        raise InputError(f"metadata is nested deeper than {DEEPEST_META} levels; flatten it")
    return Doc(id, doc.text, doc.title, json_object(doc.meta), checked_vector(doc.vector))


def _check_for_text(fields: Mapping[str, Any]) -> None:
    """Raise InputError if a document without a text has a field of several words, which is likely its text."""
    if any(name in fields for name in TEXT_FIELDS):
        return
    words = [name for name, value in fields.items() if isinstance(value, str) and len(value.split()) > 1]
    if words:
        found = ", ".join(repr(name) for name in fields)
        raise InputError(
            f"no text (looked for {', '.join(TEXT_FIELDS)}); found {found}: rename {words[0]!r} to 'text'?"
        )


def _id_note(given: object) -> str:
    """Return a note on the id of what was given as a document, for an error, or nothing if it has none."""
    fields = given if isinstance(given, Mapping) else {"id": given.id} if isinstance(given, Doc) else {}
    found = next((fields[name] for name in ID_FIELDS if name in fields), None)
    return "" if found is None else f" (id {found!r})"


def _token(token: object) -> str:
    if not isinstance(token, str) and not is_whole(token):
        raise InputError(f"token {token!r} is {type(token).__name__}, expected a string or a column's number")
    return str(token)


def _weight(token: object, weight: object) -> float:
    if not isinstance(weight, int | float | np.integer | np.floating) or isinstance(weight, bool):
        raise InputError(f"the weight of token {token!r} is {weight!r}, expected a number")
    if not 0 <= weight <= LARGEST_FLOAT32:
        raise InputError(f"the weight of token {token!r} is {weight}, expected a finite number, 0 or more")
    return float(weight)


def _known_to_json(value: object) -> object:
    """Return a scalar that json cannot serialise as one that it can."""
    known = python_scalar(value)
    if known is value:
        raise TypeError(f"{type(value).__name__} is not a JSON value")
    return known


def take_field(fields: dict[str, Any], names: tuple[str, ...]) -> Any:
    found = [name for name in names if name in fields]
    return fields.pop(found[0]) if found else None


def _object(value: object, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"{name} is {type(value).__name__}, expected an object")
    return value
