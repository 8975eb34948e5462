"""Rankings from the JSON of a server: their hits, and what they ask the server for when it is first looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, NamedTuple

from denslice.client.api_calls import ApiCall, Result, Sender
from denslice.client.questions import Question
from denslice.computed_once import computed_once
from denslice.errors import InputError, warn
from denslice.marked_text import Highlight
from denslice.rankings import Correction, Explanation, FoundDoc, Hit, MatchCounts, Passage, Ranking, Term
from denslice.records import Doc

HitJson = Mapping[str, Any]
PassageKey = tuple[str, int | None]  # an id, and the number of the passage if hits are passages
Fetch = Callable[[str], Doc | None]  # returns the whole document with an id
CHANGED = "the index has changed since this search; search again"


class MatchedQuery(NamedTuple):
    """How many documents match a query, and the tokens of the query."""

    matching: int
    tokens: frozenset[str]


class ServedSearch:
    """A search that a server answered: what its ranking tells of the query, and asks the server for on first use.

    The server explains, marks and counts the commit that it shows. If that is not the one that was searched, InputError
    is raised, as with a cursor: scores of two commits do not fit together.
    """

    def __init__(self, question: Question, page: Mapping[str, Any], generation: int, send: Sender) -> None:
        self._question, self._page, self._generation, self._send = question, page, generation, send

    def corrections(self) -> tuple[Correction, ...]:
        """Return the words that the collection does not have, with those that they are taken for."""
        return tuple(Correction(**one) for one in self._page["corrections"])

    def explain(self, id: str, passage: int | None = None) -> Explanation:
        """Explain the score of the document with this id, or of one of its passages."""
        return self._send(self.explain_call(id, passage))

    def explain_call(self, id: str, passage: int | None) -> ApiCall[Explanation]:
        """Return the request for an explanation."""
        return self._question.explain(id, passage, self._of_this_commit(explanation))

    def highlights(self, hit: Hit) -> tuple[Highlight, ...]:
        """Return snippets of a hit with the words of the query marked. The first call asks for those of all hits."""
        is_grouped = self._question.options.group
        return self._marked.get((hit.id, None if is_grouped else hit.passages[0].number), ())

    def tokens(self) -> set[str]:
        """Return the query's tokens."""
        return set(self._matched.tokens)

    @property
    def has_facets(self) -> bool:
        """Whether values of fields were counted."""
        return bool(self._question.options.facets)

    @property
    def is_arranged(self) -> bool:
        """Whether the hits are sorted by a field or in groups."""
        return self._question.options.sort_by is not None or self._question.options.group_by is not None

    def counts(self) -> MatchCounts:
        """Return the counts of the answer, or ask for the number of matching documents if it has none."""
        told: int | None = self._page["matching"]
        facets = {
            field: {one["value"]: one["count"] for one in values} for field, values in self._page["facets"].items()
        }
        return MatchCounts(self._matched.matching if told is None else told, facets)

    def cursor(self) -> str | None:
        """Return what continues after the page, or None if no more follow."""
        cursor: str | None = self._page["cursor"]
        return cursor

    @computed_once
    def _matched(self) -> MatchedQuery:
        return self._send(self._question.matching(self._of_this_commit(_matched)))

    @computed_once
    def _marked(self) -> dict[PassageKey, tuple[Highlight, ...]]:
        read = partial(_marks, is_grouped=self._question.options.group)
        return self._send(self._question.search(self._of_this_commit(read), highlight=True))

    def _of_this_commit(self, read: Callable[[Any], Result]) -> Callable[[Any], Result]:
        """Return a function that reads an answer, and raises InputError if it is of another commit."""

        def checked(answer: Any) -> Result:
            if answer["generation"] != self._generation:
                raise InputError(f"{CHANGED}: it was of commit {self._generation}, and is {answer['generation']} now")
            return read(answer)

        return checked


def rankings_of(answer: Any, questions: Sequence[Question], send: Sender, fetch: Fetch) -> list[Ranking]:
    """Return the rankings of the JSON of a search. Texts that it has in part are fetched when a hit is looked at."""
    for message in answer["warnings"]:
        warn(message)
    pages, generation = _pages(answer), answer["generation"]
    return [_ranking(one, page, generation, send, fetch) for one, page in zip(questions, pages, strict=True)]


def shortened_ids(answer: Any, is_grouped: bool) -> list[str]:
    """Return the ids of the hits in the JSON of a search of which the server sent only a part, each once."""
    hits = (hit for page in _pages(answer) for hit in page["hits"])
    return list(dict.fromkeys(hit["id"] for hit in hits if _is_shortened(hit, is_grouped)))


def _pages(answer: Any) -> list[Any]:
    """Return a page for each query. The answer to a search for similar documents is the page itself."""
    pages: list[Any] = answer.get("results", [answer])
    return pages


def _ranking(question: Question, page: Mapping[str, Any], generation: int, send: Sender, fetch: Fetch) -> Ranking:
    hits: list[HitJson] = page["hits"]
    searched, is_grouped = ServedSearch(question, page, generation, send), question.options.group
    return Ranking(
        question.query_id,
        tuple(hit["id"] for hit in hits),
        tuple(hit["score"] for hit in hits),
        _parts(hits),
        partial(_found_docs, hits, is_grouped, fetch),
        searched,
        tuple(page["missing"]),
        () if is_grouped else tuple(hit["passages"][0]["number"] for hit in hits),
        searched,
        page["exact"],
    )


# --- hits


def _parts(hits: Sequence[HitJson]) -> tuple[tuple[float, float], ...]:
    """Return the lexical and the dense score of each hit; nothing if words alone were scored, as an Index does."""
    if all(hit["lexical"] == hit["score"] for hit in hits):
        return ()
    return tuple((hit["lexical"], hit["dense"]) for hit in hits)


def _found_docs(hits: Sequence[HitJson], is_grouped: bool, fetch: Fetch) -> list[FoundDoc]:
    return [_found_doc(hit, is_grouped, fetch) for hit in hits]


def _found_doc(hit: HitJson, is_grouped: bool, fetch: Fetch) -> FoundDoc:
    """Return the document of a hit, or its passage, and its best passages. What was shortened is fetched whole."""
    title, text, whole = hit["title"], hit["text"], None
    length = _cut(hit, "text").get("length", len(text))
    if _is_shortened(hit, is_grouped):
        whole = _checked_whole(fetch(hit["id"]), hit)
        title, text = whole.title, whole.text
        if not is_grouped and hit["passages"]:
            text = text[hit["passages"][0]["start"] : hit["passages"][0]["end"]]
    passages = tuple(_passage(one, length, whole) for one in hit["passages"])
    return Doc(hit["id"], text, title, hit["meta"]), passages


def _passage(given: Mapping[str, Any], length: int, whole: Doc | None) -> Passage:
    start, end = given["start"], given["end"]
    text = whole.text[start:end] if whole and given["cut"] else given["text"]
    scores = given["score"], given["lexical"], given["dense"]
    return Passage(given["number"], text, start, end, given["heading"], given["page"], *scores, length)


def _is_shortened(hit: HitJson, is_grouped: bool) -> bool:
    """Return whether a text of the hit is longer than the server sends. The text of a passage is always a part."""
    if is_grouped or not hit["passages"]:
        return bool(hit["cut"])
    return bool(_cut(hit, "title") or hit["passages"][0]["cut"])


def _checked_whole(whole: Doc | None, hit: HitJson) -> Doc:
    """Return the document; raise InputError if it is not the one that was found."""
    if whole is None or not (_has_excerpt(whole.title, hit, "title") and _has_excerpt(whole.text, hit, "text")):
        raise InputError(f"document {hit['id']!r} is not as it was found: {CHANGED}")
    return whole


def _has_excerpt(text: str, hit: HitJson, field: str) -> bool:
    excerpt, cut = hit[field], _cut(hit, field)
    start, length = cut.get("start", 0), cut.get("length", len(excerpt))
    return len(text) == length and text[start : start + len(excerpt)] == excerpt


def _cut(hit: HitJson, field: str) -> Mapping[str, int]:
    """Return where the excerpt of a field begins and how long the field is; nothing if it is whole."""
    cut: Mapping[str, Mapping[str, int]] = hit["cut"] or {}
    return cut.get(field, {})


# --- answers about a query


def explanation(answer: Any) -> Explanation:
    """Return the explanation of the JSON of `POST /explain`."""
    parts: dict[str, Any] = {one.name: answer[one.name] for one in fields(Explanation)}
    parts |= {side: tuple(Term(**one) for one in answer[side]) for side in ("terms", "lost")}
    parts |= {name: tuple(answer[name]) for name in ("conditions", "corrections")}
    return Explanation(**parts)


def _matched(answer: Any) -> MatchedQuery:
    return MatchedQuery(int(answer["matching"]), frozenset(answer["tokens"]))


def _marks(answer: Any, is_grouped: bool) -> dict[PassageKey, tuple[Highlight, ...]]:
    return {
        (hit["id"], None if is_grouped else hit["passages"][0]["number"]): tuple(map(_highlight, hit["highlights"]))
        for page in _pages(answer)
        for hit in page["hits"]
    }


def _highlight(given: Mapping[str, Any]) -> Highlight:
    marks = tuple((start, end) for start, end in given["marks"])
    return Highlight(given["field"], given["text"], given["start"], marks)
