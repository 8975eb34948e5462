"""Reader: search and explanations in one commit. A reader never changes; an Index replaces its reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from denslice.encoders.bm25 import idf
from denslice.errors import InputError, warn
from denslice.index.asked import Asked
from denslice.index.deepening import FoundCounts
from denslice.index.found_docs import FoundScore, found_doc, found_scores, places_in
from denslice.index.index_info import IndexInfo
from denslice.index.match_requests import AskedOf, MatchRequest
from denslice.index.query_reader import QueryReader
from denslice.index.query_words import Forms
from denslice.index.result_pages import (
    PagedSearch,
    ResultPage,
    arranged_page,
    check_fields,
    is_arranged,
    score_page,
    searched_options,
)
from denslice.index.similar import StoredVectors, as_query, stored_vectors, without_itself
from denslice.options import SearchOptions
from denslice.queries import Query
from denslice.rankings import Explanation, FoundDoc, Ranking
from denslice.records import Doc, Place, Progress, given_id
from denslice.search.condition_rows import rows_meeting
from denslice.search.condition_search import search_meeting
from denslice.search.conditions import Conditions
from denslice.search.cpu.cpu_searcher import CpuSearcher
from denslice.search.explain import Naming, explain_document, explain_passage
from denslice.search.filter import named_fields, parse, passing
from denslice.search.hits import only_hits, rows_with_dense
from denslice.search.levels import LevelSearcher, level_searchers, search_levels
from denslice.search.passage_hits import best_passages, passage_matrix
from denslice.search.query import NO_MASK, Found, Mask, QueryVectors, Searcher
from denslice.stage_timers import stage
from denslice.store.manifest import FULL, QUICK
from denslice.store.segment import Segment
from denslice.store.snapshot import Snapshot
from denslice.vectors import Encoded, Phrases

if TYPE_CHECKING:
    pass

BATCH = 256  # queries that are searched, or documents that are fetched, at a time
REMEMBERED = 64  # fields for which a reader remembers whether any document has them
LONGEST_NAME = 80  # characters of the name of a field in a warning


class Reader(QueryReader):
    """The queries of a commit, and a searcher of its documents."""

    def __init__(
        self,
        snapshot: Snapshot,
        searcher: Searcher | None = None,
        progress: Progress | None = None,
        forms: Forms | None = None,
        found_counts: FoundCounts | None = None,
        queries: str = FULL,
    ) -> None:
        """Open a commit for search on the CPU, or with the searcher of another commit and what that has loaded."""
        super().__init__(snapshot, forms, queries)
        self.found_counts = found_counts or FoundCounts()
        self.searcher = (searcher or CpuSearcher()).moved(snapshot.segments, progress)

    def moved(self, snapshot: Snapshot) -> Reader:
        """Return a reader of another commit on the same device. Both share the segments that they have in common."""
        is_next = snapshot.manifest.identity == self.snapshot.manifest.identity
        forms = vars(self).get("_forms") if is_next else None
        return Reader(snapshot, self.searcher, None, forms, self.found_counts, self.queries)

    @property
    def generation(self) -> int:
        """The number of the commit."""
        return self.snapshot.manifest.generation

    @property
    def commit(self) -> str:
        """The name of the commit, which no other commit of any index has."""
        return self.snapshot.manifest.commit

    def rank(self, queries: Iterable[Query], options: SearchOptions) -> Iterator[Ranking]:
        """Return the best documents for each query, in the queries' order."""
        queries, first = iter(queries), 0
        while batch := list(islice(queries, BATCH)):
            with stage("encode"):
                encoded = self.encode(batch, options.fuzzy, first)
            yield from self.rank_encoded(batch, encoded, options)
            first += len(batch)

    def rank_ready(self, encoded: Encoded, options: SearchOptions) -> list[Ranking]:
        """Return the best documents for each ready vector."""
        count = encoded.weights.shape[0]
        if count <= BATCH:
            return self.rank_encoded([Query("")] * count, encoded, options)
        batches = (encoded.rows(slice(start, start + BATCH)) for start in range(0, count, BATCH))
        return [ranking for batch in batches for ranking in self.rank_ready(batch, options)]

    def rank_encoded(self, queries: Sequence[Query], encoded: Encoded, options: SearchOptions) -> list[Ranking]:
        """Return the best documents for each query, given the vectors of the queries."""
        check_fields(options, self.snapshot.manifest.filterable)
        options = options.settled(0 if encoded.dense is None else self.statistics.passages)
        vectors = list(map(self._conditioned, queries, self.query_vectors(encoded, options)))
        asked = [AskedOf(query, one, options) for query, one in zip(queries, vectors, strict=True)]
        searches = [PagedSearch(self, one, encoded, at) for at, one in enumerate(asked)]
        for one in searches:
            one.check_cursor()
        pages = [arranged_page(self, one) for one in asked] if is_arranged(options) else self._pages(vectors, options)
        if options.where is not None and not any(page.found.ids for page in pages):
            self.warn_of_unknown_fields(options.where)
        return [self._ranking(*one) for one in zip(queries, pages, searches, strict=True)]

    def _pages(self, queries: Sequence[QueryVectors], options: SearchOptions) -> list[ResultPage]:
        deeper = searched_options(options)
        return [score_page(found, options, deeper.k) for found in self.find(queries, deeper)]

    def rank_similar(self, id: str, options: SearchOptions) -> Ranking:
        """Return the documents that are most like the one with this id, which is left out."""
        stored = self.vectors_of(id)
        if stored is None:
            raise InputError(f"no document has the id {id!r}, so none is like it")
        stored = stored.known(self.vocab)
        weighed = np.ones(len(stored.keys), np.float32)
        if self.encoder.uses_idf:
            weighed = idf(self.statistics.passage_frequencies(stored.keys), self.statistics.passages)
        others = replace(options, where=without_itself(id, options.where))
        return self.rank_encoded([Query("")], as_query(stored, weighed, self.vocab), others)[0]

    def vectors_of(self, id: str) -> StoredVectors | None:
        """Return the stored vectors of the document with this id, or None if it is not there."""
        place = self.snapshot.find(id)
        return stored_vectors(*place) if place else None

    def explain_vectors(
        self, query: QueryVectors, whole: QueryVectors, id: str, passage: int | None = None
    ) -> Explanation:
        """Explain the score of a document or a passage; `whole` is the query before any slicing, with its phrases."""
        place = self.snapshot.find(id)
        if place is None:
            raise InputError(f"no document {id!r} in {self.snapshot.folder}")
        segment, row = place
        asked = whole.phrases
        held = self._held_phrases(segment, row, asked, passage) if asked else {}
        naming = Naming(self.encoder.token, asked, held)
        if passage is None:
            return explain_document(segment, row, query, whole, naming)
        return explain_passage(segment, row, passage, query, naming)

    def _held_phrases(self, segment: Segment, row: int, asked: Phrases, passage: int | None) -> Phrases:
        """Return the phrases of a document or passage, of a long document those of passages with any that are asked."""
        doc, one = segment.documents.fetch([row])[row], np.array([row])
        if len(segment.passage_numbers(one)) == 1:
            return self.encoder.phrases(doc.contents)
        _, having = passage_matrix(segment, row, np.array(sorted(asked), dtype=np.int64))
        numbers = np.flatnonzero(having.any(axis=1)).tolist() if passage is None else [passage]
        places, held = segment.places(one)[row], dict[int, tuple[str, ...]]()
        for at in (places[number] for number in numbers if number < len(places)):
            found = self.encoder.phrases(replace(doc, text=doc.text[at.start : at.end]).contents)
            for key in found.keys() & asked.keys():
                held[key] = tuple(dict.fromkeys((*held.get(key, ()), *found[key])))
        return held

    def docs(self) -> Iterator[Doc]:
        """Yield every document."""
        for segment in self.every_segment():
            yield from segment.live_docs(BATCH)

    def get(self, id: str) -> Doc | None:
        """Return the document with this id, or None."""
        place = self.snapshot.find(id)
        return place[0].documents.fetch([place[1]])[place[1]] if place else None

    def places(self, id: str) -> list[Place] | None:
        """Return where the passages of the document with this id are, in order, or None if it is not there."""
        found = self.snapshot.find(id)
        return places_in(*found) if found else None

    def info(self) -> IndexInfo:
        """Return the encoder, slicing, counts and sizes of the index."""
        return IndexInfo.of(self.snapshot, self.vocab, self.languages)

    def find(self, queries: Sequence[QueryVectors], options: SearchOptions) -> list[Found]:
        """Return the rows found for each query, searched on all cores."""
        with stage("filter"):
            masks = self._masks(options.where)
        with stage("search"):
            plain = [query for query in queries if not query.conditions]
            found = iter(self._find_any(plain, options, masks) if plain else ())
            return [self._find_meeting(one, options, masks) if one.conditions else next(found) for one in queries]

    def _find_any(self, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]) -> list[Found]:
        """Return the documents or passages found for each query, whatever its conditions are."""
        if options.group:
            return self._find_documents(queries, options, masks)
        return [self._find_passages(query, options, masks) for query in queries]

    def _find_meeting(self, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
        def search(query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
            return self._find_any([query], options, masks)[0]

        return search_meeting(search, query, options, masks, self.snapshot.segments, self._analyzer)

    def _find_documents(
        self, queries: Sequence[QueryVectors], options: SearchOptions, masks: Sequence[Mask]
    ) -> list[Found]:
        def search(queries: Sequence[QueryVectors], masks: Sequence[Mask]) -> list[Found]:
            if all(query.quick is None for query in queries):
                return self.searcher.search(queries, options, masks)
            return search_levels(self._levels, queries, options, masks)

        return only_hits(search, queries, masks, options.k, self.snapshot.segments, lambda: self._with_dense)

    def find_within(self, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
        """Return the k best documents among the rows of the masks."""
        return self._find_documents([query], options, masks)[0]

    def gather(self, request: MatchRequest) -> tuple[Sequence[Any], tuple[str, ...]]:
        """Return the answer to a request; a ClusterReader returns those of its shards, and which did not answer."""
        return [request.answer(self)], ()

    def _find_passages(self, query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
        def search(query: QueryVectors, options: SearchOptions, masks: Sequence[Mask]) -> Found:
            return self._find_documents([query], options, masks)[0]

        return best_passages(search, query, options, masks, self.snapshot.segments)

    def finds_best(self, query: QueryVectors, options: SearchOptions) -> bool:
        """Return whether a search finds the best documents for certain."""
        return all(one.searcher.finds_best(query, options) for one in self._levels)

    @cached_property
    def _levels(self) -> list[LevelSearcher]:
        """The segments of each level there is, and what searches them."""
        return level_searchers(self.searcher, self.snapshot.segments)

    @cached_property
    def _with_dense(self) -> list[Mask]:
        """For each segment, a mask that is 1 for each row with a dense vector."""
        return [rows_with_dense(segment) for segment in self.snapshot.segments]

    def _masks(self, where: Mapping[str, Any] | None) -> list[Mask]:
        """Return for each segment a mask that is 0 for deleted and filtered rows, or an empty one if all rows pass."""
        segments = self.snapshot.segments
        live = [NO_MASK if segment.live is None else segment.live for segment in segments]
        if where is None:
            return live
        parsed, filterable = parse(where), self.snapshot.manifest.filterable
        passes = [passing(parsed, segment, filterable) for segment in segments]
        return [mask & here if len(here) else mask for mask, here in zip(passes, live, strict=True)]

    def admitted(self, query: Query, options: SearchOptions) -> list[Mask]:
        """Return for each segment a mask of the rows that pass the filter and meet the conditions of the query.

        A mask is empty if all rows do.
        """
        return self.meeting(self.conditions(query), options.where)

    def meeting(self, conditions: Conditions, where: Mapping[str, Any] | None) -> list[Mask]:
        """Return for each segment a mask of the rows that pass a filter and meet conditions; it is empty if all do."""
        masks = self._masks(where)
        return rows_meeting(conditions, self.snapshot.segments, masks, self._analyzer) if conditions else masks

    def warn_of_unknown_fields(self, where: Mapping[str, Any]) -> None:
        """Warn of each field in a filter without results that no document has."""
        for field in sorted(named_fields(parse(where))):
            if not self._has_field(field):
                warn(f"no document has the field {field[:LONGEST_NAME]!r}, which where names")

    @cached_property
    def _has_field(self) -> Callable[[str], bool]:
        """Tells whether any document has a field, with a cache. It is true of an index without documents."""
        segments = self.every_segment()
        return lru_cache(REMEMBERED)(lambda field: not segments or any(s.documents.has_field(field) for s in segments))

    @cached_property
    def _quick(self) -> set[int]:
        """The numbers of the segments of the quick level."""
        return {at for at, one in enumerate(self.snapshot.segments) if one.entry.level == QUICK}

    def _ranking(self, query: Query, page: ResultPage, search: PagedSearch) -> Ranking:
        found = page.found
        if self._quick:
            placed = zip(found.ids, found.segments.tolist(), strict=True)
            self.found_counts.add(id for id, segment in placed if segment in self._quick)
        asked = Asked(self, query, search.encoded, search.at, search.asked.options)
        parts = tuple(zip(found.lexical.tolist(), found.dense.tolist(), strict=True)) if len(found.dense) else ()

        def documents() -> list[FoundDoc]:
            return self.documents(found, search.asked.vectors)

        ids, scores, numbers = tuple(found.ids), tuple(found.scores.tolist()), tuple(found.passages.tolist())
        of = search._replace(has_more=page.has_more)
        is_exact = self.finds_best(search.asked.vectors, search.asked.options)
        ranking = Ranking(
            given_id(query.id), ids, scores, parts, documents, asked, found.missing, numbers, of, is_exact
        )
        if of.has_facets:
            _ = ranking.facets  # counted at once: replicas of a cluster may soon show a later commit
        return ranking

    def documents(self, found: Found, query: QueryVectors) -> list[FoundDoc]:
        """Fetch the documents of a ranking in its order, each with its best passages for the query."""
        docs: dict[tuple[int, int], Doc] = {}
        places = list(zip(found.segments.tolist(), found.rows.tolist(), strict=True))
        with stage("documents"):
            for at in dict.fromkeys(found.segments.tolist()):
                rows = sorted({row for segment, row in places if segment == at})
                docs |= {(at, row): doc for row, doc in self.snapshot.segments[at].documents.fetch(rows).items()}
            both = zip(places, found_scores(found), strict=True)
            segments = self.snapshot.segments
            return [found_doc(segments[at], row, docs[at, row], query, score) for (at, row), score in both]

    def get_found(self, id: str, query: QueryVectors, score: FoundScore) -> FoundDoc | None:
        """Return the document with this id and its best passages, or one passage of it; None if it is not there."""
        place = self.snapshot.find(id)
        if place is None:
            return None
        segment, row = place
        return found_doc(segment, row, segment.documents.fetch([row])[row], query, score)
