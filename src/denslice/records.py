"""The records that move through denslice: documents and queries in, hits and explanations out.

All are frozen: a step returns new records and never edits old ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, overload

import numpy as np

from denslice.errors import InputError
from denslice.frames import ArrowStream, records_of
from denslice.hit_tables import arrow_table, pandas_table
from denslice.marked_text import Highlight
from denslice.scalars import is_whole, python_scalar

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ID_FIELDS = ("id", "_id", "docid")
TEXT_FIELDS = ("text", "contents", "content")
META_FIELDS = ("meta", "metadata")
SCORE_FIELDS = ("score", "lexical", "dense")
FOUND_FIELDS = (*SCORE_FIELDS, "passages", "terms", "lost", "explanation", "cut")  # that a search adds to a document
CLAUSES = {"word": "{}", "phrase": '"{}"', "prefix": "{}*", "fuzzy": "{}~"}  # how each kind is typed
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
        id, text = _take(rest, ID_FIELDS), _take(rest, TEXT_FIELDS)
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
        id, text = checked_id(_take(rest, (*ID_FIELDS, "qid"))), _take(rest, (*TEXT_FIELDS, "query"))
        if not isinstance(text, str | None):
            raise InputError(f"text is {type(text).__name__}, expected a string")
        return cls(id, text or "", checked_vector(rest.get("vector")))


class Place(NamedTuple):
    """Where a passage is in the text of its document: its characters, the headings above it, and its page from 1."""

    start: int
    end: int
    heading: str = ""
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document that matches: its number in the document from 0, its text, where that is, and its scores.

    `start`, `end` and `document_length` count the characters of the document's text. A passage is scored as a document
    of its own.
    """

    number: int
    text: str
    start: int
    end: int
    heading: str = ""
    page: int | None = None
    score: float = 0.0
    lexical: float = 0.0
    dense: float = 0.0
    document_length: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the passage is all of its document."""
        return self.end - self.start == self.document_length


@dataclass(frozen=True, slots=True)
class Hit:
    """One result. `score` is `lexical` plus `dense`, which is λ times the dense inner product.

    `passages` are the document's best passages, best first. If passages were searched, a hit is one passage: `text` is
    its text, and the id, title and metadata are those of its document.
    """

    id: str
    score: float
    lexical: float
    dense: float
    text: str = ""
    title: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    passages: tuple[Passage, ...] = ()
    asked: AskedQuery | None = field(default=None, repr=False, compare=False)

    @property
    def highlights(self) -> tuple[Highlight, ...]:
        """Snippets of the title and the passages in which the words of the query are marked, best passage first."""
        return self.asked.highlights(self) if self.asked else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the hit as a JSON object, from which `Doc.from_dict` reads the document."""
        scores = {"id": self.id, "score": self.score, "lexical": self.lexical, "dense": self.dense}
        passages = {"passages": [asdict(passage) for passage in self.passages]}
        return scores | Doc(self.id, self.text, self.title, self.meta).to_dict() | passages


FoundDoc = tuple[Doc, tuple[Passage, ...]]  # a document that was found, with its best passages


class Correction(NamedTuple):
    """A word of a query that the collection does not have, and the word that it is taken for."""

    typed: str
    meant: str

    def __str__(self) -> str:
        return f"{self.typed} → {self.meant}"


class AskedQuery(Protocol):
    """The query of a ranking as it was encoded, with the commit that was searched."""

    def corrections(self) -> tuple[Correction, ...]:
        """Return the words that the collection does not have, with those that they are taken for."""

    def highlights(self, hit: Hit) -> tuple[Highlight, ...]:
        """Return snippets of a hit with the words of the query marked."""

    def tokens(self) -> set[str]:
        """Return the query's tokens."""

    def explain(self, id: str, passage: int | None = None) -> Explanation:
        """Explain the score of the document with this id, or of one of its passages."""


class MatchCounts(NamedTuple):
    """How many documents match a query, and how many of them have each value of some fields."""

    matching: int
    facets: Mapping[str, Mapping[Any, int]] = {}


class SearchedPage(Protocol):
    """The page of results that a ranking is."""

    @property
    def has_facets(self) -> bool:
        """Whether values of fields are to be counted."""

    @property
    def is_arranged(self) -> bool:
        """Whether the hits are sorted by a field or in groups."""

    def counts(self) -> MatchCounts:
        """Count the documents that match."""

    def cursor(self) -> str | None:
        """Return what continues after the page, or None if no more follow."""


@dataclass(frozen=True)
class Ranking(Sequence[Hit]):
    """The documents found for one query, best first: a sequence of hits, or the lines of one query in a run.

    Texts and metadata are fetched with the first access to a hit, from the snapshot that was searched.
    """

    query_id: str
    ids: tuple[str, ...]
    scores: tuple[float, ...]
    parts: tuple[tuple[float, float], ...] = field(default=(), repr=False)  # lexical and weighted dense score of each
    documents: Callable[[], Sequence[FoundDoc]] | None = field(default=None, repr=False, compare=False)
    asked: AskedQuery | None = field(default=None, repr=False, compare=False)
    missing: tuple[str, ...] = ()  # shards of a cluster that did not answer: their documents are missing
    passages: tuple[int, ...] = ()  # the number of each passage in its document, if passages were searched
    page: SearchedPage | None = field(default=None, repr=False, compare=False)

    @cached_property
    def _hits(self) -> tuple[Hit, ...]:
        docs: Sequence[FoundDoc] = self.documents() if self.documents else [(Doc(id), ()) for id in self.ids]
        parts = self.parts or [(score, 0.0) for score in self.scores]
        found = zip(docs, self.scores, parts, strict=True)
        asked = self.asked
        return tuple(Hit(d.id, score, *both, d.text, d.title, d.meta, some, asked) for (d, some), score, both in found)

    @cached_property
    def _counts(self) -> MatchCounts:
        if self.page is None:
            raise InputError("this ranking was read from a run, and only a search counts the documents that match")
        return self.page.counts()

    @property
    def matching(self) -> int:
        """How many documents match: they have a word of the query and pass its filter. Counted on first access.

        If the query has no words, or is searched by dense vectors alone, all documents that pass the filter match.
        """
        return self._counts.matching

    @property
    def facets(self) -> Mapping[str, Mapping[Any, int]]:
        """For each field of the option `facets`, how many matching documents have each value, most frequent first."""
        return self._counts.facets if self.page and self.page.has_facets else {}

    @cached_property
    def cursor(self) -> str | None:
        """What the option `cursor` takes to continue after the last hit, or None if no more follow."""
        return self.page.cursor() if self.page else None

    def explain(self, id: str | int, passage: int | None = None) -> Explanation:
        """Explain the score of the document with this id, or of its passage with this number.

        The query is not encoded again.
        """
        if self.asked is None:
            raise InputError("this ranking was read from a run, and only a search can explain its scores")
        return self.asked.explain(given_id(id), passage)

    def explanations(self) -> list[Explanation]:
        """Explain the score of each hit, in their order."""
        numbers: Sequence[int | None] = self.passages or [None] * len(self.ids)
        return [self.explain(id, number) for id, number in zip(self.ids, numbers, strict=True)]

    @property
    def corrections(self) -> tuple[Correction, ...]:
        """The words of the query that the collection does not have, with those that they are taken for."""
        return self.asked.corrections() if self.asked else ()

    def tokens(self) -> set[str]:
        """Return the query's tokens, to find them in the texts of the hits."""
        return self.asked.tokens() if self.asked else set()

    def to_pandas(self) -> pd.DataFrame:
        """Return the hits as a data frame: rank, id, score, lexical, dense, title, text, and the fields of metadata.

        A field of metadata that has the name of another column is called `meta.NAME`.
        """
        return pandas_table([hit.to_dict() for hit in self], self.passages)

    def to_arrow(self) -> pa.Table:
        """Return the hits as an Arrow table with the columns of `to_pandas`."""
        return arrow_table([hit.to_dict() for hit in self], self.passages)

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
    """The contribution of one token to a score: query_weight · doc_weight.

    `token` is the word or phrase of the document. Phrases share token ids by a hash: if `collision` is true, the query
    and the document have different phrases with this id, and some or all of the contribution is due to chance.
    """

    token: str
    query_weight: float
    doc_weight: float
    contribution: float
    collision: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a document's score: the contributions of `terms` and `dense` sum to `score`.

    `lost` are query tokens that the document has and the slicing dropped, with the contributions they would have made.
    In a document of several passages, `dense` is the sum of `best`, which its best passage adds, and `mean`, which
    comes from all of them. `passage` is the number of the best passage by dense score, or of the one explained.
    `conditions` are those of the query, as people type them, and `corrections` its words that were taken for others.
    """

    id: str
    score: float
    lexical: float
    dense: float
    terms: tuple[Term, ...]
    lost: tuple[Term, ...]
    best: float = 0.0
    mean: float = 0.0
    passage: int | None = None
    conditions: tuple[str, ...] = ()
    corrections: tuple[str, ...] = ()


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


def _take(fields: dict[str, Any], names: tuple[str, ...]) -> Any:
    found = [name for name in names if name in fields]
    return fields.pop(found[0]) if found else None


def _object(value: object, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InputError(f"{name} is {type(value).__name__}, expected an object")
    return value
