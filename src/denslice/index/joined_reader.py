"""JoinedReader: one commit of each of several indexes, searched as one. Queries are encoded once, for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from denslice.errors import InputError
from denslice.index.comparable import has_fixed_vocabulary
from denslice.index.found_docs import found_scores
from denslice.index.index_info import IndexInfo
from denslice.index.joined_index import JoinedIndex
from denslice.index.joined_snapshot import JoinedForms, JoinedSnapshot
from denslice.index.match_requests import MatchRequest
from denslice.index.qualified_ids import prefix_of
from denslice.index.query_words import Forms
from denslice.index.ranking_merge import merge
from denslice.index.reader import Reader
from denslice.index.similar import StoredVectors
from denslice.options import SearchOptions
from denslice.rankings import Explanation, FoundDoc
from denslice.records import Doc, Place
from denslice.search.query import Found, QueryVectors
from denslice.search.token_counts import WHOLE, TokenCounts
from denslice.stage_timers import stage
from denslice.vectors import Ints


class JoinedStatistics:
    """Counts of the passages of all indexes, from which idf is computed: as in one index of all documents."""

    def __init__(self, snapshot: JoinedSnapshot, indexes: Sequence[JoinedIndex]) -> None:
        self.docs, self.passages, self._indexes = snapshot.docs, snapshot.passages, indexes

    def passage_frequencies(self, keys: Ints) -> Ints:
        """Return how many passages have each token."""
        return sum((one.passage_frequencies(keys) for one in self._indexes), np.zeros(len(keys), dtype=np.int64))


class JoinedReader(Reader):
    """The commits of several indexes, by name, when this reader was made."""

    def __init__(self, readers: Mapping[str, Reader], queries: str) -> None:
        snapshot = JoinedSnapshot([reader.snapshot for reader in readers.values()])
        super().__init__(snapshot, queries=queries)
        words = None if has_fixed_vocabulary(snapshot.manifest) else snapshot.words
        self.indexes = [JoinedIndex(prefix_of(name), reader, words) for name, reader in readers.items()]
        self.statistics = JoinedStatistics(snapshot, self.indexes)

    @property
    def generation(self) -> int:
        """The sum of the generations, which grows with every commit."""
        return sum(one.reader.generation for one in self.indexes)

    @property
    def commit(self) -> str:
        """The joined names of the commits."""
        return "-".join(one.reader.commit for one in self.indexes)

    @cached_property
    def _forms(self) -> Forms:
        return JoinedForms(self.snapshot, len(self.indexes))

    @cached_property
    def _token_counts(self) -> TokenCounts:
        # A token is looked up in each index by its word: not all of them are counted at once.
        return TokenCounts(self.statistics.passage_frequencies, WHOLE + 1)

    @property
    def _quick(self) -> set[int]:
        """No segments: hits have the numbers of indexes, which are not deepened through this reader."""
        return set()

    def finds_best(self, query: QueryVectors, options: SearchOptions) -> bool:
        """Return whether each index finds its best documents for certain."""
        return all(one.reader.finds_best(query, options) for one in self.indexes)

    def find(self, queries: Sequence[QueryVectors], options: SearchOptions) -> list[Found]:
        """Search all indexes and merge their rankings for each query."""
        answers = [one.find(queries, options) for one in self.indexes]
        found = [dict(enumerate(each)) for each in zip(*answers, strict=True)]
        return [merge(each, options.k) for each in found]

    def gather(self, request: MatchRequest) -> tuple[Sequence[Any], tuple[str, ...]]:
        """Return the answers of the indexes."""
        return [one.answer(request) for one in self.indexes], ()

    def documents(self, found: Found, query: QueryVectors) -> list[FoundDoc]:
        """Fetch the documents of a ranking in its order, each with its best passages for the query."""
        owners = list(map(self._owner, found.ids))
        own = {at: self.indexes[at].own_query(query) for at in set(owners)}
        with stage("documents"):
            hits = zip(found.ids, owners, found_scores(found), strict=True)
            return [self.indexes[at].found_doc(id, own[at], score) for id, at, score in hits]

    def explain_vectors(
        self, query: QueryVectors, whole: QueryVectors, id: str, passage: int | None = None
    ) -> Explanation:
        """Explain the score of a document or a passage in its index."""
        if (owner := self._having(id)) is None:
            raise InputError(f"no document {id!r} in these indexes; an id is NAME:ID, with the name of an index")
        return owner.explain(query, whole, id, passage)

    def vectors_of(self, id: str) -> StoredVectors | None:
        """Return the stored vectors of the document with this id, or None if it is not there."""
        owner = self._having(id)
        return owner.vectors_of(id) if owner else None

    def docs(self) -> Iterator[Doc]:
        """Yield every document."""
        for one in self.indexes:
            yield from one.docs()

    def get(self, id: str) -> Doc | None:
        """Return the document with this id, or None."""
        owner = self._having(id)
        doc = owner.reader.get(owner.own_id(id)) if owner else None
        return owner.renamed(doc) if owner and doc else None

    def places(self, id: str) -> list[Place] | None:
        """Return where the passages of the document with this id are, in order, or None if it is not there."""
        owner = self._having(id)
        return owner.reader.places(owner.own_id(id)) if owner else None

    def info(self) -> IndexInfo:
        """Describe the indexes like one. Its path has all of theirs; a word counts once for each index that has it."""
        paths = os.pathsep.join(str(one.reader.snapshot.folder) for one in self.indexes)
        return replace(super().info(), path=paths, generation=self.generation)

    def _owner(self, id: str) -> int:
        """Return the number of the index of a document that was found."""
        return [id.startswith(one.prefix) for one in self.indexes].index(True)

    def _having(self, id: str) -> JoinedIndex | None:
        """Return the index that has a document, or None."""
        named = (one for one in self.indexes if id.startswith(one.prefix))
        return next((one for one in named if one.reader.snapshot.find(one.own_id(id))), None)
