"""JoinedIndex: one of several indexes that are searched together. It is asked with the token ids of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from denslice.index.found_docs import FoundScore
from denslice.index.match_requests import AskedOf, MatchRequest
from denslice.index.qualified_ids import own_filter
from denslice.index.reader import Reader
from denslice.index.similar import StoredVectors
from denslice.options import SearchOptions
from denslice.rankings import Explanation, FoundDoc
from denslice.records import Doc
from denslice.search.conditions import Conditions, HeldTokens, HeldWords, Ids, Test
from denslice.search.field_order import KeyedRows
from denslice.search.query import Found, QueryVectors
from denslice.store.vocabulary import ABSENT, Vocabulary
from denslice.vectors import Ints


@dataclass(frozen=True)
class JoinedIndex:
    """An index at one commit, with the prefix of its ids, and the words of all indexes unless token ids are fixed."""

    prefix: str
    reader: Reader
    all_words: Vocabulary | None

    # --- what it is asked

    def own_keys(self, keys: Ints) -> Ints:
        """Return the ids that tokens have here; ABSENT for those that it does not have."""
        if self.all_words is None:
            return keys
        find, word = self.reader.snapshot.words.find, self.all_words.word
        return np.array([find(word(key)) for key in keys.tolist()], dtype=np.int64)

    def own_query(self, query: QueryVectors) -> QueryVectors:
        """Return a query with the tokens that it has, by their ids here."""
        keys = self.own_keys(query.keys)
        order = np.argsort(keys, kind="stable")
        order = order[keys[order] != ABSENT]
        phrases = {id: named for key, named in query.phrases.items() for id in self._ids((key,))}
        conditions = self._conditions(query.conditions) if query.conditions else query.conditions
        return replace(query, keys=keys[order], weights=query.weights[order], phrases=phrases, conditions=conditions)

    def own_options(self, options: SearchOptions) -> SearchOptions:
        """Return the options of a search here: a filter may name qualified ids."""
        return options if options.where is None else replace(options, where=own_filter(options.where, self.prefix))

    def _conditions(self, conditions: Conditions) -> Conditions:
        must = tuple(tuple(map(self._test, some)) for some in conditions.must)
        return Conditions(must, tuple(map(self._test, conditions.must_not)))

    def _test(self, test: Test) -> Test:
        if isinstance(test, HeldWords):
            return replace(test, needed=tuple(map(self._ids, test.needed)))
        return HeldTokens(self._ids(test.ids))

    def _ids(self, ids: Ids) -> Ids:
        return tuple(id for id in self.own_keys(np.array(ids, dtype=np.int64)).tolist() if id != ABSENT)

    # --- what it answers

    def passage_frequencies(self, keys: Ints) -> Ints:
        """Return how many passages here have each token."""
        own = self.own_keys(keys)
        counts, is_known = np.zeros(len(keys), dtype=np.int64), own != ABSENT
        counts[is_known] = self.reader.snapshot.passage_frequencies(own[is_known])
        return counts

    def find(self, queries: Sequence[QueryVectors], options: SearchOptions) -> list[Found]:
        """Return what is found here for each query."""
        found = self.reader.find(list(map(self.own_query, queries)), self.own_options(options))
        return list(map(self._qualified, found))

    def answer(self, request: MatchRequest) -> Any:
        """Return the answer to a request about the documents that match."""
        query, vectors, options = request.asked
        asked = AskedOf(query, self.own_query(vectors), self.own_options(options))
        answer = request._replace(asked=asked).answer(self.reader)
        if isinstance(answer, KeyedRows):
            return answer._replace(found=self._qualified(answer.found))
        return list(map(self._qualified, answer)) if isinstance(answer, list) else answer

    def found_doc(self, id: str, query: QueryVectors, score: FoundScore) -> FoundDoc:
        """Return a document that was found, with its best passages for a query of this index."""
        found = self.reader.get_found(self.own_id(id), query, score)
        return (self.renamed(found[0]), found[1]) if found else (Doc(id), ())

    def explain(self, query: QueryVectors, whole: QueryVectors, id: str, passage: int | None) -> Explanation:
        """Explain the score of a document or of a passage."""
        own = self.reader.explain_vectors(self.own_query(query), self.own_query(whole), self.own_id(id), passage)
        return replace(own, id=id)

    def vectors_of(self, id: str) -> StoredVectors | None:
        """Return the stored vectors of a document, with the token ids of all indexes."""
        stored = self.reader.vectors_of(self.own_id(id))
        if stored is None or self.all_words is None:
            return stored
        word, find = self.reader.snapshot.words.word, self.all_words.find
        keys = np.array([find(word(key)) for key in stored.keys.tolist()], dtype=np.int64)
        order = np.argsort(keys)
        return stored._replace(keys=keys[order], weights=stored.weights[order])

    def docs(self) -> Iterator[Doc]:
        """Yield every document."""
        return map(self.renamed, self.reader.docs())

    def own_id(self, id: str) -> str:
        """Return the id that a document has here."""
        return id.removeprefix(self.prefix)

    def renamed(self, doc: Doc) -> Doc:
        """Return a document of this index with its qualified id."""
        return replace(doc, id=self.prefix + doc.id)

    def _qualified(self, found: Found) -> Found:
        return replace(found, ids=[self.prefix + id for id in found.ids])
