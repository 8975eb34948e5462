"""Answers to a batch of queries, computed in a worker thread: search, documents, and explanations if requested."""

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

HitJson = dict[str, Any]  # has the fields of api.FoundDocument
CONTEXT_SHARE = 0.25  # the fraction of an excerpt that precedes its best matches
EXPLAIN_ATTEMPTS = 5  # searches before giving up because commits keep arriving


@dataclass(frozen=True)
class BatchOptions:
    """The options of a search. Queries with equal options may share a batch."""

    key: str  # the options as JSON, which can be compared and hashed
    options: SearchOptions = dataclasses.field(compare=False)
    explain: bool

    @classmethod
    def of(cls, asked: SearchRequest) -> BatchOptions:
        """Return the options of a request."""
        options = asked.options()
        return cls(json.dumps(options.keywords(), sort_keys=True), options, asked.explain)


@dataclass(frozen=True)
class Excerpt:
    """The part of a document's title or text that a response holds."""

    field: str
    text: str
    start: int
    length: int  # of the whole field


@dataclass(frozen=True)
class Answer:
    """The hits for one query, and how its batch was searched."""

    hits: list[HitJson]
    generation: int
    batch: int
    seconds: dict[str, float]  # of the batch, by stage
    missing: tuple[str, ...] = ()  # shards of a cluster that did not answer
    warnings: tuple[str, ...] = ()


def answers(
    searchable: Searchable, texts: Sequence[str], options: BatchOptions, words: TextAnalyzer, max_text: int
) -> list[Answer]:
    """Return an answer for each text. If a commit arrives between search and explanations, search again.

    A title or text longer than `max_text` characters is shortened to an excerpt of that length.
    """
    for _ in range(EXPLAIN_ATTEMPTS):
        commit, generation = searchable.commit, searchable.generation
        try:
            with timed() as seconds, collected_warnings() as warned:
                ranked = searchable.search_batch(texts, **options.options.keywords())
                found = [_hits(ranking, options.explain, words, max_text) for ranking in ranked]
        except DensliceError:
            if searchable.commit == commit:
                raise
            continue
        if not options.explain or searchable.commit == commit:
            warnings = tuple(dict.fromkeys(warned))
            return [
                Answer(hits, generation, len(texts), seconds, ranking.missing, warnings)
                for hits, ranking in zip(found, ranked, strict=True)
            ]
    raise busy("the index changes faster than results can be explained; try again")


def _hits(ranking: Ranking, explain: bool, words: TextAnalyzer, max_text: int) -> list[HitJson]:
    hits = list(ranking)  # this fetches the documents
    if not explain:
        return [_hit_json(hit, _excerpts(hit, set(), words, max_text)) for hit in hits]
    with stage("explain"):
        return [_explained(hit, ranking.explain(hit.id), words, max_text) for hit in hits]


def _explained(hit: Hit, why: Explanation, words: TextAnalyzer, max_text: int) -> HitJson:
    tokens = {term.token for term in (*why.terms, *why.lost)}
    excerpts = _excerpts(hit, tokens, words, max_text)
    spans = [(one.field, span) for one in excerpts for span in matches(one.text, tokens, words)]
    explanation = asdict(why) | {"matches": [{"field": field, **span._asdict()} for field, span in spans]}
    del explanation["id"]
    return _hit_json(hit, excerpts, explanation)


def _hit_json(hit: Hit, excerpts: Sequence[Excerpt], explanation: dict[str, Any] | None = None) -> HitJson:
    shown = {one.field: one.text for one in excerpts}
    shortened = [one for one in excerpts if len(one.text) < one.length]
    cut = {one.field: {"start": one.start, "length": one.length} for one in shortened}
    return {**hit.to_dict(), **shown, "cut": cut or None, "explanation": explanation}


def _excerpts(hit: Hit, tokens: set[str], words: TextAnalyzer, max_text: int) -> list[Excerpt]:
    """Return excerpts of title and text: around the tokens if there are any, otherwise from the beginning."""
    excerpts = []
    for field, text in (("title", hit.title), ("text", hit.text)):
        start, end = excerpt(text, tokens, words, max_text, int(CONTEXT_SHARE * max_text)) if tokens else (0, max_text)
        excerpts.append(Excerpt(field, text[start:end], start, len(text)))
    return excerpts
