"""Asked: a query that was searched, with what explains and marks its hits."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial

from denslice.index.query_reader import QueryReader
from denslice.marked_text import Highlight
from denslice.options import SearchOptions
from denslice.queries import Query
from denslice.rankings import Correction, Explanation, Hit
from denslice.search.highlights import highlights
from denslice.search.query import QueryVectors
from denslice.vectors import Encoded


class Asked:
    """A query that was searched in one commit. It is encoded once for the search and all explanations."""

    def __init__(self, reader: QueryReader, query: Query, encoded: Encoded, at: int, options: SearchOptions) -> None:
        """Keep the row `at` of a batch of encoded queries."""
        self._reader, self._query, self._batch, self._at, self._options = reader, query, encoded, at, options

    @cached_property
    def _encoded(self) -> Encoded:
        return self._batch.rows(slice(self._at, self._at + 1))

    @cached_property
    def _vectors(self) -> tuple[QueryVectors, QueryVectors]:
        """The query as it is searched, and before any slicing with its phrases."""
        vectors = partial(self._reader.query_vectors, self._encoded, self._options)
        (searched,), (whole,) = vectors(), vectors(sliced=False)
        return searched, replace(whole, phrases=self._reader.encoder.phrases(self._query.text))

    @property
    def query(self) -> QueryVectors:
        """The query as it is searched."""
        return self._vectors[0]

    def tokens(self) -> set[str]:
        """Return the query's tokens."""
        return {self._reader.encoder.token(int(id)) for id in self._encoded.weights.indices}

    def explain(self, id: str, passage: int | None = None) -> Explanation:
        """Explain the score of the document with this id, or of one of its passages."""
        explained = self._reader.explain_vectors(*self._vectors, id, passage)
        corrections = tuple(map(str, self.corrections()))
        return replace(explained, conditions=self._query.conditions, corrections=corrections)

    def corrections(self) -> tuple[Correction, ...]:
        """Return the words that the collection does not have, with those that they are taken for."""
        return tuple(self._reader.corrections(self._query)) if self._options.fuzzy else ()

    def highlights(self, hit: Hit) -> tuple[Highlight, ...]:
        """Return snippets of a hit with the words of the query marked."""
        return highlights(hit, self.tokens(), self._reader.text_analyzer)
