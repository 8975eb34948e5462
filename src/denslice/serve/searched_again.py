"""What programs ask about a search afterwards: why any document has its score, and how many documents match."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from denslice.errors import DensliceError, collected_warnings
from denslice.options import PAGE_OPTIONS
from denslice.rankings import Ranking
from denslice.serve.api import ExplainRequest, SearchedQuery
from denslice.serve.http_errors import busy
from denslice.serve.searchable import Searchable

ATTEMPTS = 5  # before giving up because commits keep arriving


def explanation_json(searchable: Searchable, request: ExplainRequest) -> dict[str, Any] | None:
    """Return the JSON of api.ExplainResponse, or None if a document of the request is not there."""
    if searchable.places(request.id) is None:
        return None
    return _of_one_commit(searchable, request, lambda found: asdict(found.explain(request.id, request.passage)))


def matching_json(searchable: Searchable, request: SearchedQuery) -> dict[str, Any] | None:
    """Return the JSON of api.MatchingResponse, or None if the document of the request is not there."""
    return _of_one_commit(
        searchable, request, lambda found: {"matching": found.matching, "tokens": sorted(found.tokens())}
    )


def _of_one_commit(
    searchable: Searchable, request: SearchedQuery, told: Callable[[Ranking], dict[str, Any]]
) -> dict[str, Any] | None:
    """Return what is told of the search, and the generation that was searched."""
    for _ in range(ATTEMPTS):
        commit, generation = searchable.commit, searchable.generation
        if request.like is not None and searchable.places(request.like) is None:
            return None
        try:
            with collected_warnings():
                answer = told(_searched(searchable, request))
        except DensliceError:
            if searchable.commit == commit:
                raise
            continue
        if searchable.commit == commit:
            return answer | {"generation": generation}
    raise busy("the index changes faster than the search can be repeated; try again")


def _searched(searchable: Searchable, request: SearchedQuery) -> Ranking:
    """Search again for one document: its ranking knows the whole query."""
    options: Any = {name: one for name, one in request.options().keywords().items() if name not in PAGE_OPTIONS}
    options |= {"k": 1, "min_score": None}
    if request.like is not None:
        return searchable.similar(request.like, **options)
    return searchable.search_batch(request.asked(), **options)[0]
