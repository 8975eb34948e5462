"""The things that move through denslice: documents and queries in, hits and explanations out.

All are frozen: a step returns new records and never edits old ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

from denslice.errors import InputError

ID_FIELDS = ("id", "_id", "docid")
TEXT_FIELDS = ("text", "contents", "content")
META_FIELDS = ("meta", "metadata")
SCORE_FIELDS = ("score", "lexical", "dense")
FOUND_FIELDS = (*SCORE_FIELDS, "terms", "lost", "explanation", "cut")  # what a search writes beside a document
DEEPEST_META = 64  # levels of metadata: what one front door takes, every other can return


@dataclass(frozen=True, slots=True)
class Doc:
    """One document. Title and text are searched together; `meta` is kept beside them and can be filtered on."""

    id: str
    text: str = ""
    title: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    vector: Mapping[str, float] | None = None

    @property
    def contents(self) -> str:
        """What an encoder reads."""
        return f"{self.title} {self.text}" if self.title else self.text

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Doc:
        """A document from a JSON object: what `to_dict` or a search wrote, or anything with an id.

        Metadata is what stands in `meta` (or `metadata`, as in BEIR), and every other field that is not id, text, title
        or vector. The scores and explanations of a search are no metadata.
        """
        rest = _without_scores(fields)
        meta = {name: value for field in META_FIELDS for name, value in _object(rest.pop(field, None), field).items()}
        doc_id = checked_id(_take(rest, ID_FIELDS))
        text = _string(_take(rest, TEXT_FIELDS), "text")
        title = _string(rest.pop("title", None), "title")
        vector = rest.pop("vector", None)
        if vector is not None:
            vector = _object(vector, "vector")
        return cls(doc_id, text, title, {**meta, **rest}, vector)

    def to_dict(self) -> dict[str, Any]:
        """The document as the JSON object that `from_dict` reads back unchanged, whatever its metadata is called."""
        fields: dict[str, Any] = {"id": self.id, "title": self.title, "text": self.text, "meta": dict(self.meta)}
        return fields if self.vector is None else {**fields, "vector": dict(self.vector)}

    def meta_json(self) -> str:
        """The metadata as JSON text, refused when JSON cannot hold it."""
        if not self.meta:
            return "{}"
        if is_nested_deeper(self.meta, DEEPEST_META):
            raise InputError(
                f"metadata of document {self.id!r} is nested deeper than {DEEPEST_META} levels; flatten it"
            )
        try:
            if not all(isinstance(name, str) for name in self.meta):
                raise TypeError("names of fields must be strings")
            return json.dumps(dict(self.meta), ensure_ascii=False, allow_nan=False, sort_keys=True)
        except (TypeError, ValueError) as error:
            raise InputError(f"metadata of document {self.id!r} is not JSON: {error}") from None


@dataclass(frozen=True, slots=True)
class Query:
    """One query: a text, or a ready vector for indexes of ready vectors."""

    id: str
    text: str = ""
    vector: Mapping[str, float] | None = None

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Query:
        """A query from a JSON object; other fields are ignored, as collections carry notes there."""
        rest = dict(fields)
        vector = rest.get("vector")
        return cls(
            checked_id(_take(rest, (*ID_FIELDS, "qid"))),
            _string(_take(rest, (*TEXT_FIELDS, "query")), "text"),
            None if vector is None else _object(vector, "vector"),
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """One result. `score` is `lexical` plus `dense`, the latter being λ times the dense inner product."""

    id: str
    score: float
    lexical: float
    dense: float
    text: str = ""
    title: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The hit as a JSON object, from which `Doc.from_dict` reads the document back."""
        scores = {"id": self.id, "score": self.score, "lexical": self.lexical, "dense": self.dense}
        return scores | Doc(self.id, self.text, self.title, self.meta).to_dict()


@dataclass(frozen=True)
class Ranking(Sequence[Hit]):
    """The documents found for one query, best first: a sequence of hits, and a line group of a run file.

    Texts and metadata are fetched when a hit is first looked at, from the index as it was when it was searched.
    """

    query_id: str
    ids: tuple[str, ...]
    scores: tuple[float, ...]
    parts: tuple[tuple[float, float], ...] = field(default=(), repr=False)  # lexical and weighted dense score of each
    documents: Callable[[], Sequence[Doc]] | None = field(default=None, repr=False, compare=False)
    missing: tuple[str, ...] = ()  # shards of a cluster that gave no answer: documents of theirs may be missing here

    @cached_property
    def _hits(self) -> tuple[Hit, ...]:
        docs = self.documents() if self.documents else [Doc(id) for id in self.ids]
        parts = self.parts or [(score, 0.0) for score in self.scores]
        found = zip(docs, self.scores, parts, strict=True)
        return tuple(Hit(doc.id, score, *both, doc.text, doc.title, doc.meta) for doc, score, both in found)

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Hit: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Hit]: ...

    def __getitem__(self, at: int | slice) -> Hit | Sequence[Hit]:
        return self._hits[at]


@dataclass(frozen=True, slots=True)
class Term:
    """One token's share of a score: contribution = query_weight · doc_weight.

    `token` names what the document's own text holds. Phrases share tokens by a hash: where `collision` is true, the
    query and the document do not have one and the same phrase there, and some or all of the share comes from chance.
    """

    token: str
    query_weight: float
    doc_weight: float
    contribution: float
    collision: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a document scored what it did. The contributions of `terms` and `dense` sum to `score`.

    `lost` are query tokens the document had and the slicing dropped: their contributions are what was missed.
    """

    id: str
    score: float
    lexical: float
    dense: float
    terms: tuple[Term, ...]
    lost: tuple[Term, ...]


def checked_doc(given: object) -> Doc:
    """The document, from a Doc or a JSON-shaped mapping, if its id, title and text are what they should be."""
    if not isinstance(given, Doc):
        if isinstance(given, Mapping):
            return Doc.from_dict(given)
        raise InputError(f"a document is a Doc or a dict, not {type(given).__name__}")
    checked_id(given.id)
    for name, value in (("title", given.title), ("text", given.text)):
        if not isinstance(value, str):
            raise InputError(f"{name} of document {given.id!r} is {type(value).__name__}, expected a string")
    return given


def checked_id(value: object) -> str:
    """The id, if it is one: a string that is not empty and holds no control characters or lone surrogates."""
    if value is None:
        raise InputError(f"no id (looked for {', '.join(ID_FIELDS)})")
    if not isinstance(value, str):
        raise InputError(f"id {value!r} is not a string; write it in quotes")
    if not value.strip():
        raise InputError("the id is empty")
    if not value.isprintable():
        raise InputError(f"id {value!r} has characters that cannot be printed")
    return value


def is_nested_deeper(value: object, levels: int) -> bool:
    """Whether objects and lists lie within each other more than so many levels deep. It does not recurse itself."""
    left = [(value, 1)]
    while left:
        one, level = left.pop()
        if isinstance(one, Mapping | list | tuple):
            if level > levels:
                return True
            left += [(inner, level + 1) for inner in (one.values() if isinstance(one, Mapping) else one)]
    return False


def _without_scores(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without what a search adds, where they are of a hit; InputError where its text is not whole."""
    if not all(name in fields for name in ("meta", *SCORE_FIELDS)):
        return dict(fields)
    if fields.get("cut"):
        raise InputError(
            "a search returned only a part of this document; fetch it with GET /documents/ID and send that"
        )
    return {name: value for name, value in fields.items() if name not in FOUND_FIELDS}


def _take(fields: dict[str, Any], names: tuple[str, ...]) -> object:
    found = [name for name in names if name in fields]
    return fields.pop(found[0]) if found else None


def _string(value: object, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{name} is {type(value).__name__}, expected a string")
    return value


def _object(value: object, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"{name} is {type(value).__name__}, expected an object")
    return value
