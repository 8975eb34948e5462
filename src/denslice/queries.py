"""Queries: what people look for, as a text with conditions on documents, or as a ready vector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from denslice.errors import InputError
from denslice.records import ID_FIELDS, TEXT_FIELDS, checked_id, checked_vector, take_field

CLAUSES = {"word": "{}", "phrase": '"{}"', "prefix": "{}*", "fuzzy": "{}~"}  # how each kind is typed


@dataclass(frozen=True, slots=True)
class Clause:
    """What a document may hold: a word, a phrase, any word with this prefix, or any word that is spelt like this one.

    `field` is the title or a field of metadata. Without one, a clause is about the title and the text.
    """

    text: str
    kind: str = "word"
    field: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not isinstance(self.field, str):
            raise InputError(f"the text and the field of a clause are strings, not {self.text!r} and {self.field!r}")
        if self.kind not in CLAUSES:
            raise InputError(f"a clause of kind {self.kind!r}; choose one of {', '.join(CLAUSES)}")

    def __str__(self) -> str:
        """Return the clause as people type it."""
        return (f"{self.field}:" if self.field else "") + CLAUSES[self.kind].format(self.text)


@dataclass(frozen=True, slots=True)
class Query:
    """One query: a text, or a ready vector for an index of ready vectors, and conditions on the documents to return.

    A document has to hold every word or clause of `must`, of several in a tuple at least one, every phrase of
    `phrases`, and nothing of `must_not`. A word stands for all words with its stem; the words of a phrase follow each
    other as they are. Conditions add nothing to a score: `text` and the clauses of `should` are scored.
    """

    id: str = ""
    text: str = ""
    vector: Mapping[str, float] | None = None
    must: Sequence[str | Clause | Sequence[str | Clause]] = ()
    must_not: Sequence[str | Clause] = ()
    phrases: Sequence[str] = ()
    should: Sequence[str | Clause] = ()

    def __post_init__(self) -> None:
        for name in ("must", "must_not", "phrases", "should"):
            if (given := getattr(self, name)) != ():
                object.__setattr__(self, name, _listed(name, given))

    @property
    def required(self) -> tuple[tuple[Clause, ...], ...]:
        """What a document has to hold: at least one clause of each tuple."""
        phrases = [(Clause(phrase, "phrase"),) for phrase in self.phrases]
        return (*phrases, *(tuple(map(_clause, _alternatives(one))) for one in self.must))

    @property
    def excluded(self) -> tuple[Clause, ...]:
        """What a document must not hold."""
        return tuple(map(_clause, self.must_not))

    @property
    def optional(self) -> tuple[Clause, ...]:
        """What is scored beside the words of the text."""
        return tuple(map(_clause, self.should))

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions as people type them."""
        required = (" OR ".join(map(_required, some)) for some in self.required)
        return (*required, *(f"-{one}" for one in self.excluded))

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Query:
        """Return the query of a JSON object; other fields are ignored."""
        rest = dict(fields)
        id, text = checked_id(take_field(rest, (*ID_FIELDS, "qid"))), take_field(rest, (*TEXT_FIELDS, "query"))
        if not isinstance(text, str | None):
            raise InputError(f"text is {type(text).__name__}, expected a string")
        return cls(id, text or "", checked_vector(rest.get("vector")))


def _listed(name: str, given: object) -> tuple[Any, ...]:
    """Return the words and clauses of a query as a tuple; raise InputError if they are anything else."""
    if isinstance(given, str | Clause) or not isinstance(given, Iterable):
        raise InputError(f"{name} is {given!r}, expected a list such as [{str(given)!r}]")
    listed = tuple(_listed(name, one) if name == "must" and isinstance(one, list | tuple) else one for one in given)
    kinds = str if name == "phrases" else str | Clause | tuple if name == "must" else str | Clause
    if wrong := [one for one in listed if not isinstance(one, kinds)]:
        raise InputError(f"{name} has {wrong[0]!r}, which is {type(wrong[0]).__name__}; expected a string or a Clause")
    return listed


def _alternatives(one: str | Clause | Sequence[str | Clause]) -> Sequence[str | Clause]:
    return (one,) if isinstance(one, str | Clause) else one


def _clause(one: str | Clause) -> Clause:
    return Clause(one) if isinstance(one, str) else one


def _required(clause: Clause) -> str:
    """Return a clause as people require it: a phrase and a field need no sign."""
    return str(clause) if clause.field or clause.kind == "phrase" else f"+{clause}"
