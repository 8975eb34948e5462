"""Answers to a batch of queries, computed in a worker thread: search, documents, and explanations if requested."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from denslice.errors import DensliceError, collected_warnings
from denslice.options import SearchOptions
from denslice.records import Query, Ranking
from denslice.search.matches import TextAnalyzer
from denslice.serve.api import SearchRequest
from denslice.serve.hit_json import HitJson, HitWriter
from denslice.serve.http_errors import busy
from denslice.serve.searchable import Searchable
from denslice.stage_timers import stage, timed

ATTEMPTS = 5  # before giving up because commits keep arriving


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
class Answer:
    """The hits for one query, and how its batch was searched."""

    hits: list[HitJson]
    generation: int
    batch: int
    seconds: dict[str, float]  # of the batch, by stage
    missing: tuple[str, ...] = ()  # shards of a cluster that did not answer
    warnings: tuple[str, ...] = ()


def answers(
    searchable: Searchable, texts: Sequence[str | Query], options: BatchOptions, words: TextAnalyzer, max_text: int
) -> list[Answer]:
    """Return an answer for each text. If a commit arrives between search and explanations, search again.

    A title or text longer than `max_text` characters is shortened to an excerpt of that length.
    """
    writer = HitWriter(cache(words), max_text)  # texts that match have many words in common
    for _ in range(ATTEMPTS):
        commit, generation = searchable.commit, searchable.generation
        try:
            with timed() as seconds, collected_warnings() as warned:
                ranked = searchable.search_batch(texts, **options.options.keywords())
                found = [_hits(ranking, options.explain, writer) for ranking in ranked]
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


def document_json(searchable: Searchable, id: str) -> dict[str, Any] | None:
    """Return the document with this id and the places of its passages, both of one commit, or None."""
    for _ in range(ATTEMPTS):
        commit = searchable.commit
        doc, places = searchable.get(id), searchable.places(id)
        if searchable.commit == commit:
            passages = [place._asdict() for place in places or ()]
            return {**doc.to_dict(), "passages": passages} if doc else None
    raise busy("the index changes faster than the document can be read; try again")


def _hits(ranking: Ranking, explain: bool, writer: HitWriter) -> list[HitJson]:
    hits = list(ranking)  # this fetches the documents
    if not explain:
        return [writer.hit_json(hit) for hit in hits]
    with stage("explain"):
        return [writer.hit_json(hit, why) for hit, why in zip(hits, ranking.explanations(), strict=True)]
