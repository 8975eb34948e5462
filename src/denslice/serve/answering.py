"""A batch of queries to answers, in a worker's thread: search, documents, and explanations where asked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from denslice.errors import DensliceError, collected_warnings
from denslice.options import SearchOptions
from denslice.records import Explanation, Hit, Ranking
from denslice.search.matches import TextAnalyzer, excerpt, matches
from denslice.serve.api import SearchRequest
from denslice.serve.http_errors import busy
from denslice.serve.searchable import Searchable
from denslice.stage_timers import stage, timed

FoundDocument = dict[str, Any]  # as models.FoundDocument describes it
LEAD = 0.25  # of a part of a text that is before its best matches
TRIES = 5  # while commits come in between a search and its explanations


@dataclass(frozen=True)
class How:
    """How to search: queries that are searched alike may share a batch."""

    key: str  # the options as JSON, which can be compared and hashed
    options: SearchOptions = dataclasses.field(compare=False)
    explain: bool

    @classmethod
    def of(cls, asked: SearchRequest) -> How:
        """Return what a request asks for."""
        options = asked.options()
        return cls(json.dumps(options.keywords(), sort_keys=True), options, asked.explain)


@dataclass(frozen=True)
class AnswerPart:
    """What is shown of a document's title or text, and where in the whole it stands."""

    field: str
    shown: str
    start: int
    length: int  # of the whole

    @property
    def is_cut(self) -> bool:
        """Whether there is more than is shown."""
        return len(self.shown) < self.length


@dataclass(frozen=True)
class Answer:
    """What was found for one query, and the batch it was searched in."""

    hits: list[FoundDocument]
    generation: int
    batch: int
    seconds: dict[str, float]  # of the batch, by stage
    missing: tuple[str, ...] = ()  # shards of a cluster that gave no answer
    warnings: tuple[str, ...] = ()


def answers(searchable: Searchable, texts: Sequence[str], how: How, words: TextAnalyzer, max_text: int) -> list[Answer]:
    """An answer for each text. Search and explanations are of one commit: where a new one came between, once more.

    Of a title or a text longer than `max_text` characters, an answer has a part of that length.
    """
    for _ in range(TRIES):
        commit, generation = searchable.commit, searchable.generation
        try:
            with timed() as seconds, collected_warnings() as warned:
                asked = searchable.search_batch(texts, **how.options.keywords())
                found = [_hits(ranking, how, words, max_text) for ranking in asked]
        except DensliceError:
            if searchable.commit == commit:
                raise
            continue
        if not how.explain or searchable.commit == commit:
            missing = [ranking.missing for ranking in asked]
            both = zip(found, missing, strict=True)
            told = tuple(dict.fromkeys(warned))
            return [Answer(hits, generation, len(texts), seconds, away, told) for hits, away in both]
    raise busy("the index changes faster than results can be explained")


def _hits(ranking: Ranking, how: How, words: TextAnalyzer, max_text: int) -> list[FoundDocument]:
    hits = list(ranking)  # their documents are fetched here
    if not how.explain:
        return [_found(hit, _parts(hit, set(), words, max_text)) for hit in hits]
    with stage("explain"):
        return [_explained(hit, ranking.explain(hit.id), words, max_text) for hit in hits]


def _explained(hit: Hit, told: Explanation, words: TextAnalyzer, max_text: int) -> FoundDocument:
    tokens = {term.token for term in (*told.terms, *told.lost)}
    parts = _parts(hit, tokens, words, max_text)
    spans = [(part.field, span) for part in parts for span in matches(part.shown, tokens, words)]
    why = {
        "score": told.score,
        "lexical": told.lexical,
        "dense": told.dense,
        "terms": [asdict(term) for term in told.terms],
        "lost": [asdict(term) for term in told.lost],
        "matches": [{"field": field, **span._asdict()} for field, span in spans],
    }
    return _found(hit, parts, why)


def _found(hit: Hit, parts: Sequence[AnswerPart], why: dict[str, Any] | None = None) -> FoundDocument:
    shown = {part.field: part.shown for part in parts}
    cut = {part.field: {"start": part.start, "length": part.length} for part in parts if part.is_cut}
    return {**hit.to_dict(), **shown, "cut": cut or None, "explanation": why}


def _parts(hit: Hit, tokens: set[str], words: TextAnalyzer, max_text: int) -> list[AnswerPart]:
    """What is shown of title and text: all, or the part where the tokens are; their beginning where none are given."""
    parts = []
    for field, text in (("title", hit.title), ("text", hit.text)):
        start, end = excerpt(text, tokens, words, max_text, int(LEAD * max_text)) if tokens else (0, max_text)
        parts.append(AnswerPart(field, text[start:end], start, len(text)))
    return parts
