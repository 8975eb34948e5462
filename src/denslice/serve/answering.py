"""Answers to a batch of queries, computed in a worker thread: search, documents, and explanations if requested."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from denslice.errors import DensliceError, collected_warnings
from denslice.options import SearchOptions
from denslice.profiling import Profile, profiled
from denslice.queries import Query
from denslice.rankings import Ranking
from denslice.search.matches import TextAnalyzer
from denslice.serve.api import SearchSettings
from denslice.serve.hit_json import HitJson, HitWriter
from denslice.serve.http_errors import busy
from denslice.serve.searchable import Searchable
from denslice.stage_timers import stage

PageJson = dict[str, Any]  # has the fields of api.ResultPageJson
FACET_VALUES = 1_000  # values of a facet in a response, the most frequent ones
ATTEMPTS = 5  # before giving up because commits keep arriving


@dataclass(frozen=True)
class BatchOptions:
    """The options of a search. Queries with equal options may share a batch."""

    key: str  # the options as JSON, which can be compared and hashed
    options: SearchOptions = dataclasses.field(compare=False)
    explain: bool
    highlight: bool

    @classmethod
    def of(cls, asked: SearchSettings) -> BatchOptions:
        """Return the options of a request."""
        options = asked.options()
        return cls(json.dumps(options.keywords(), sort_keys=True), options, asked.explain, asked.highlight)


@dataclass(frozen=True)
class Answer:
    """The page of hits for one query, and how its batch was searched."""

    page: PageJson
    generation: int
    batch: int
    cost: Profile  # of the batch
    warnings: tuple[str, ...] = ()


def answers(
    searchable: Searchable,
    texts: Sequence[str | Query],
    options: BatchOptions,
    words: TextAnalyzer,
    max_text: int,
    with_counts: bool = False,
) -> list[Answer]:
    """Return an answer for each text. A title or text longer than `max_text` characters is shortened to an excerpt."""

    def search() -> list[Ranking]:
        return searchable.search_batch(texts, **options.options.keywords())

    writer = HitWriter(cache(words), max_text, options.highlight)
    return _answers(searchable, search, options.explain, writer, with_counts)


def similar_answer(
    searchable: Searchable, id: str, options: BatchOptions, words: TextAnalyzer, max_text: int
) -> Answer | None:
    """Return the documents that are most like the one with this id, or None if it is not there."""
    if searchable.get(id) is None:
        return None

    def search() -> list[Ranking]:
        return [searchable.similar(id, **options.options.keywords())]

    return _answers(searchable, search, options.explain, HitWriter(cache(words), max_text, options.highlight))[0]


def _answers(
    searchable: Searchable,
    search: Callable[[], list[Ranking]],
    explain: bool,
    writer: HitWriter,
    with_counts: bool = False,
) -> list[Answer]:
    """Return an answer for each ranking. If a commit arrives between search and explanations, search again."""
    for _ in range(ATTEMPTS):
        commit, generation = searchable.commit, searchable.generation
        try:
            with profiled(with_counts=with_counts) as cost, collected_warnings() as warned:
                ranked = search()
                pages = [_page(ranking, explain, writer) for ranking in ranked]
        except DensliceError:
            if searchable.commit == commit:
                raise
            continue
        if not explain or searchable.commit == commit:
            warnings = tuple(dict.fromkeys(warned))
            return [Answer(page, generation, len(pages), cost, warnings) for page in pages]
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


def _page(ranking: Ranking, explain: bool, writer: HitWriter) -> PageJson:
    is_counted = ranking.page is not None and (ranking.page.has_facets or ranking.page.is_arranged)
    return {
        "hits": _hits(ranking, explain, writer),
        "missing": list(ranking.missing),
        "corrections": [one._asdict() for one in ranking.corrections],
        "exact": ranking.exact,
        "cursor": ranking.cursor,
        "matching": ranking.matching if is_counted else None,
        "facets": {field: _facet_json(counts) for field, counts in ranking.facets.items()},
    }


def _facet_json(counts: Mapping[Any, int]) -> list[dict[str, Any]]:
    """Return the most frequent values of a field."""
    return [{"value": value, "count": count} for value, count in islice(counts.items(), FACET_VALUES)]


def _hits(ranking: Ranking, explain: bool, writer: HitWriter) -> list[HitJson]:
    hits = list(ranking)  # this fetches the documents
    if not explain:
        return [writer.hit_json(hit) for hit in hits]
    with stage("explain"):
        return [writer.hit_json(hit, why) for hit, why in zip(hits, ranking.explanations(), strict=True)]
