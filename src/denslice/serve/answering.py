"""A batch of queries to answers, in a worker's thread: search, documents, and explanations where asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from denslice.errors import DensliceError, collected_warnings
from denslice.matches import Words, matches
from denslice.records import Hit, Ranking
from denslice.serve.models import SearchRequest
from denslice.serve.refusals import busy
from denslice.serve.searchable import Searchable
from denslice.stages import stage, timed

FoundDocument = dict[str, Any]  # as models.FoundDocument describes it
TRIES = 5  # while commits come in between a search and its explanations


@dataclass(frozen=True)
class How:
    """How to search: queries that are searched alike may share a batch."""

    k: int
    theta: float
    candidates: int
    lam: float | None
    mode: str | None
    candidates_from: str
    where: str | None  # as JSON
    explain: bool

    @classmethod
    def of(cls, asked: SearchRequest) -> How:
        """What a request asks for."""
        where = None if asked.where is None else json.dumps(asked.where, sort_keys=True)
        return cls(
            asked.k, asked.theta, asked.candidates, asked.lam, asked.mode, asked.candidates_from, where, asked.explain
        )


@dataclass(frozen=True)
class Answer:
    """What was found for one query, and the batch it was searched in."""

    hits: list[FoundDocument]
    generation: int
    batch: int
    seconds: dict[str, float]  # of the batch, by stage
    missing: tuple[str, ...] = ()  # shards of a cluster that gave no answer


def answers(searchable: Searchable, texts: Sequence[str], how: How, words: Words) -> list[Answer]:
    """An answer for each text. Search and explanations are of one commit: where a new one came between, once more."""
    for _ in range(TRIES):
        generation = searchable.generation
        try:
            with timed() as seconds, collected_warnings():
                asked = _searched(searchable, texts, how)
                found = [_hits(searchable, *one, how, words) for one in asked]
        except DensliceError:
            if searchable.generation == generation:
                raise
            continue
        if not how.explain or searchable.generation == generation:
            missing = [ranking.missing for _, ranking in asked]
            both = zip(found, missing, strict=True)
            return [Answer(hits, generation, len(texts), seconds, away) for hits, away in both]
    raise busy("the index changes faster than results can be explained")


def _searched(searchable: Searchable, texts: Sequence[str], how: How) -> list[tuple[str, Ranking]]:
    rankings = searchable.search_batch(
        texts,
        how.k,
        theta=how.theta,
        candidates=how.candidates,
        lam=how.lam,
        mode=how.mode,
        candidates_from=how.candidates_from,
        where=None if how.where is None else json.loads(how.where),
    )
    return list(zip(texts, rankings, strict=True))


def _hits(searchable: Searchable, text: str, ranking: Ranking, how: How, words: Words) -> list[FoundDocument]:
    hits = list(ranking)  # their documents are fetched here
    if not how.explain:
        return [_found(hit) for hit in hits]
    with stage("explain"):
        return [_found(hit, _why(searchable, text, hit, how, words)) for hit in hits]


def _found(hit: Hit, why: dict[str, Any] | None = None) -> FoundDocument:
    return {
        "id": hit.id,
        "score": hit.score,
        "lexical": hit.lexical,
        "dense": hit.dense,
        "title": hit.title,
        "text": hit.text,
        "meta": hit.meta,
        "explanation": why,
    }


def _why(searchable: Searchable, text: str, hit: Hit, how: How, words: Words) -> dict[str, Any]:
    told = searchable.explain(text, hit.id, lam=how.lam, mode=how.mode)
    tokens = {term.token for term in (*told.terms, *told.lost)}
    fields = (("title", hit.title), ("text", hit.text))
    return {
        "score": told.score,
        "lexical": told.lexical,
        "dense": told.dense,
        "terms": [asdict(term) for term in told.terms],
        "lost": [asdict(term) for term in told.lost],
        "matches": [{"field": name, **span._asdict()} for name, of in fields for span in matches(of, tokens, words)],
    }
