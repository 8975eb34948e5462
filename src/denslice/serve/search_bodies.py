"""Bodies of searches for one plain text, whose settings are validated once for all requests that have the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from pydantic import ValidationError

from denslice.analysis.normal_forms import well_formed
from denslice.errors import InputError
from denslice.serve.answering import BatchOptions
from denslice.serve.api import SearchRequest
from denslice.serve.http_errors import HttpError

KNOWN_SETTINGS = 1_024  # different settings that are remembered
LONGEST_SETTINGS = 1_000  # characters of settings that are remembered


class PlainSearch(NamedTuple):
    """One text to search for, and the options of its search."""

    text: str
    options: BatchOptions


class SearchBodies:
    """Reads bodies. `settle` returns the options of a request, or raises HttpError or InputError."""

    def __init__(self, settle: Callable[[SearchRequest], BatchOptions], max_query_length: int) -> None:
        self._settle, self._longest = settle, max_query_length
        self._known = lru_cache(KNOWN_SETTINGS)(self._settled)

    def read(self, body: bytes) -> PlainSearch | None:
        """Return the search that SearchRequest would read, or None if the body is any other or has a fault."""
        try:
            given = json.loads(body)
        except (ValueError, RecursionError):
            return None
        text = given.pop("query", None) if isinstance(given, dict) else None
        if not isinstance(text, str) or len(text) > self._longest or well_formed(text) != text:
            return None
        try:
            settings = json.dumps(given, sort_keys=True)
        except RecursionError:
            return None
        options = self._known(settings) if len(settings) <= LONGEST_SETTINGS else None
        return None if options is None else PlainSearch(text, options)

    def _settled(self, settings: str) -> BatchOptions | None:
        try:
            return self._settle(SearchRequest.model_validate({"query": "", **json.loads(settings)}))
        except (ValidationError, HttpError, InputError):
            return None
