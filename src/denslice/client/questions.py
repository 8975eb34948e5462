"""Question: a query as a server is asked it, with the options of its search, and the requests about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from denslice.client.api_calls import ApiCall, Result, document_path, json_bytes, post
from denslice.errors import InputError
from denslice.options import PAGE_OPTIONS, SearchOptions, shown
from denslice.queries import Clause, Query
from denslice.records import json_value

NOT_ASKED_AGAIN = ("k", "min_score", *PAGE_OPTIONS)  # these choose hits, and change neither scores nor matches


@dataclass(frozen=True)
class Question:
    """A query, or the id of a document to which others are similar, and how to search."""

    query: str | Query | None
    options: SearchOptions
    like: str = ""

    @property
    def query_id(self) -> str:
        """The id of a Query; a text has none."""
        return self.query.id if isinstance(self.query, Query) else ""

    def search(self, read: Callable[[Any], Result], highlight: bool = False) -> ApiCall[Result]:
        """Return the request for the hits, with marked snippets if they are asked for."""
        marked = {"highlight": True} if highlight else {}
        if self.query is None:
            asked = urlencode(_parameters(options_json(self.options) | marked), doseq=True)
            return ApiCall("GET", f"{document_path(self.like)}/similar?{asked}", read)
        return post("/search", {"query": query_json(self.query)} | options_json(self.options) | marked, read)

    def explain(self, id: str, passage: int | None, read: Callable[[Any], Result]) -> ApiCall[Result]:
        """Return the request for the explanation of a document's score."""
        return post("/explain", self._again() | {"id": id, "passage": passage}, read)

    def matching(self, read: Callable[[Any], Result]) -> ApiCall[Result]:
        """Return the request for the number of matching documents."""
        return post("/matching", self._again(), read)

    def _again(self) -> dict[str, Any]:
        asked = {"like": self.like} if self.query is None else {"query": query_json(self.query)}
        options = options_json(self.options)
        return asked | {name: value for name, value in options.items() if name not in NOT_ASKED_AGAIN}


def batch_questions(texts: Sequence[str | Query], options: SearchOptions) -> list[Question]:
    """Return a question for each text; raise InputError if they are not a list."""
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise InputError(f"search_batch takes a list of texts, not {type(texts).__name__}; search takes one text")
    return [Question(text, options) for text in texts]


def in_parts(questions: Sequence[Question], most: int) -> Iterator[Sequence[Question]]:
    """Yield the questions in parts of at most so many."""
    return (questions[start : start + most] for start in range(0, len(questions), most))


def batch_search(questions: Sequence[Question], read: Callable[[Any], Result]) -> ApiCall[Result]:
    """Return the request for the hits of several queries with the same options."""
    queries = [query_json(one.query, at) for at, one in enumerate(questions)]
    return post("/search", {"queries": queries} | options_json(questions[0].options), read)


def options_json(options: SearchOptions) -> dict[str, Any]:
    """Return the options that are not the defaults, as JSON holds them."""
    given = {one.name: (getattr(options, one.name), one.default) for one in shown(SearchOptions)}
    return {name: json_value(value, name) for name, (value, default) in given.items() if value != default}


def query_json(query: object, at: int = 0) -> str | dict[str, Any]:
    """Return a query as the server takes it; an error numbers it."""
    if isinstance(query, str):
        return query
    if not isinstance(query, Query):
        raise InputError(f"query {at} is {type(query).__name__}, expected a text")
    if query.vector is not None:
        raise InputError(f"query {at} is a ready vector, and queries over HTTP are texts; search it from Python")
    if not isinstance(query.text, str):
        raise InputError(f"query {at} is {type(query.text).__name__}, expected a text")
    parts = {"must": query.must, "must_not": query.must_not, "phrases": query.phrases, "should": query.should}
    return {"text": query.text} | {name: _clauses_json(some) for name, some in parts.items() if some}


def _clauses_json(some: Sequence[Any]) -> list[Any]:
    return [_clauses_json(one) if isinstance(one, tuple) else _clause_json(one) for one in some]


def _clause_json(one: str | Clause) -> str | dict[str, str]:
    return one if isinstance(one, str) else {"text": one.text, "kind": one.kind, "field": one.field}


def _parameters(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as the query of an address has them: objects and truth values as JSON."""
    return {
        name: json_bytes(value, name) if isinstance(value, dict | bool) else value for name, value in options.items()
    }
