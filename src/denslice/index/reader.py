"""Reader: search and explanations in one commit. A reader never changes; an Index replaces its reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from denslice import encoders
from denslice.analysis.analyzer import Analyzer
from denslice.analysis.languages import CODES, ENGLISH
from denslice.densify import split_by_slice
from denslice.encoders import Encoder
from denslice.encoders.bm25 import LANGUAGE, idf
from denslice.errors import InputError, warn
from denslice.index.found_docs import FoundScore, found_doc, found_scores, places_in
from denslice.index.index_info import IndexInfo
from denslice.index.match_requests import AskedOf, MatchRequest
from denslice.index.query_words import Forms, known_words
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
from denslice.marked_text import Highlight
from denslice.options import SearchOptions
from denslice.records import (
    Correction,
    Doc,
    Explanation,
    FoundDoc,
    Hit,
    Place,
    Progress,
    Query,
    Ranking,
    checked_vector,
    given_id,
)
from denslice.search.completions import completions
from denslice.search.condition_rows import rows_meeting
from denslice.search.condition_search import search_meeting
from denslice.search.conditions import Conditions, KnownWords, analyzer_of, conditions_of
from denslice.search.cpu.cpu_searcher import CpuSearcher
from denslice.search.expansions import clause_weights, with_more
from denslice.search.explain import Naming, explain_document, explain_passage
from denslice.search.filter import named_fields, parse, passing
from denslice.search.highlights import highlights
from denslice.search.hits import only_hits, rows_with_dense
from denslice.search.matches import TextAnalyzer, text_analyzer
from denslice.search.passage_hits import best_passages, passage_matrix
from denslice.search.query import NO_MASK, Found, Mask, QueryVectors, Searcher
from denslice.search.spelling import Speller
from denslice.search.typed_queries import parsed
from denslice.stage_timers import stage
from denslice.store.segment import Segment
from denslice.store.snapshot import Snapshot
from denslice.store.vocabulary import ABSENT
from denslice.vectors import Encoded, Floats, Ints, Phrases, Weights, csr, dense_rows, lexical_csr

if TYPE_CHECKING:
    import scipy.sparse as sp

BATCH = 256  # queries that are searched, or documents that are fetched, at a time
REMEMBERED = 64  # fields for which a reader remembers whether any document has them
LONGEST_NAME = 80  # characters of the name of a field in a warning


class Statistics(Protocol):
    """The counts from which idf is computed. In a cluster they are those of the whole collection."""

    @property
    def docs(self) -> int:
        """The number of documents."""

    @property
    def passages(self) -> int:
        """The number of passages: that of documents, if each is one passage."""

    def passage_frequencies(self, keys: Ints) -> Ints:
        """Return how many passages have each token."""


class Reader:
    """A snapshot, the encoder of its vectors, and a searcher."""

    def __init__(
        self,
        snapshot: Snapshot,
        searcher: Searcher | None = None,
        progress: Progress | None = None,
        forms: Forms | None = None,
    ) -> None:
        """Open a commit for search on the CPU, or with the searcher of another commit and what that has loaded."""
        self.snapshot = snapshot
        self._forms_before = forms
        self.statistics: Statistics = snapshot
        self.searcher = (searcher or CpuSearcher()).moved(snapshot.segments, progress)

    def moved(self, snapshot: Snapshot) -> Reader:
        """Return a reader of another commit on the same device. Both share the segments that they have in common."""
        is_next = snapshot.manifest.identity == self.snapshot.manifest.identity
        return Reader(snapshot, self.searcher, forms=vars(self).get("_forms") if is_next else None)

    @property
    def generation(self) -> int:
        """The number of the commit."""
        return self.snapshot.manifest.generation

    @property
    def commit(self) -> str:
        """The name of the commit, which no other commit of any index has."""
        return self.snapshot.manifest.commit

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder with the vocabulary of this commit."""
        manifest = self.snapshot.manifest
        return encoders.load(manifest.encoder, manifest.encoder_options, self.snapshot.words, self.languages)

    @cached_property
    def languages(self) -> dict[str, int]:
        """How many passages are in each language, most first; none if the encoder does not recognise them.

        A passage that is in no known language counts as English.
        """
        settings = self.snapshot.manifest.encoder_options
        if "analysis" not in settings or settings["language"]:
            return {}
        found = {name: self.snapshot.words.find(f"{LANGUAGE}{name}") for name in CODES.values()}
        ids = np.array([id for id in found.values() if id != ABSENT], dtype=np.int64)
        counts = dict(zip(ids.tolist(), self.statistics.passage_frequencies(ids).tolist(), strict=True))
        others = {name: counts[id] for name, id in found.items() if counts.get(id)}
        both = {ENGLISH: self.statistics.passages - sum(others.values()), **others}
        return dict(sorted(((name, count) for name, count in both.items() if count), key=lambda one: (-one[1], one[0])))

    @cached_property
    def vocab(self) -> int:
        """The number of tokens."""
        return self.snapshot.manifest.encoder_options.get("vocab") or len(self.snapshot.words)

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

    def encode(self, queries: Sequence[Query], fuzzy: bool = True, first: int = 0) -> Encoded:
        """Return the vectors of the queries, before idf and λ. Errors number the queries from `first`.

        With `fuzzy`, words that the collection does not have count as the nearest ones that it has.
        """
        reads = self.encoder.reads
        encoded = self.encoder.encode_queries([_read(query, at, reads) for at, query in enumerate(queries, first)])
        more = [self._more_weights(query, fuzzy) for query in queries]
        return with_more(encoded, more) if any(more) else encoded

    def _more_weights(self, query: Query, fuzzy: bool) -> dict[int, float]:
        """Return the weights of the words that clauses and misspelt words of a query stand for."""
        frequencies, total = self.statistics.passage_frequencies, self.statistics.passages
        weights: dict[int, float] = {}
        for correction in self.corrections(query) if fuzzy else ():
            weights |= self._speller.weights(correction)
        if query.should:
            weights |= clause_weights(query.optional, self._known_words, frequencies, total)
        return weights

    def corrections(self, query: Query) -> list[Correction]:
        """Return the words of a query that the collection does not have, with those that they are taken for."""
        if "analysis" not in self.snapshot.manifest.encoder_options:
            return []
        return self._speller.corrections(self._analyzer.split(query.text))

    @cached_property
    def text_analyzer(self) -> TextAnalyzer:
        """What finds the tokens of texts, to mark them."""
        return text_analyzer(self.snapshot.manifest.encoder_options, self.languages)

    def suggest(self, text: str, k: int = 10) -> list[str]:
        """Return how a text that is being typed may go on: with its last word completed by words of the collection."""
        if "analysis" not in self.snapshot.manifest.encoder_options:
            return []
        return completions(text, k, self._forms, self._speller.counts)

    @cached_property
    def _speller(self) -> Speller:
        return Speller(self.encoder.word_ids, self.statistics.passage_frequencies, self._forms)

    @cached_property
    def _forms(self) -> Forms:
        return Forms(self.snapshot, self._forms_before)

    def ready(self, weights: object, dense: object = None) -> Encoded:
        """Return ready query vectors as a batch; raise InputError if this index cannot be searched with them."""
        rows = lexical_csr(weights, self.columns())
        vectors = None if dense is None else dense_rows(dense, rows.shape[0])
        width = self.snapshot.manifest.dimensions
        if vectors is not None and self.snapshot.manifest.segments and width != vectors.shape[1]:
            if width is None:
                raise InputError("the query has a dense vector, and the documents of this index have none")
            raise InputError(f"the query has {vectors.shape[1]} dimensions, the index {width}")
        return Encoded(rows, vectors)

    def ready_one(self, weights: object, dense: object = None) -> Encoded:
        """Return one ready query vector as a batch; raise InputError if there are more."""
        encoded = self.ready(weights, dense)
        if encoded.weights.shape[0] != 1:
            raise InputError(f"expected one query, found {encoded.weights.shape[0]}; search_vectors_batch takes many")
        return encoded

    def columns(self) -> int:
        """Return how many columns ready vectors have; raise InputError if the index takes none."""
        manifest = self.snapshot.manifest
        if manifest.encoder != "vectors":
            raise InputError(f"this index encodes text with {manifest.encoder}; it takes no ready vectors")
        if not manifest.encoder_options.get("vocab"):
            told = "this index was created without vocab=, so the tokens of its vectors are words"
            raise InputError(f"{told}: give {{token: weight}}, or create an index with vocab= to use matrices")
        return self.vocab

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
            return self.searcher.search(queries, options, masks)

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

    @cached_property
    def _with_dense(self) -> list[Mask]:
        """For each segment, a mask that is 1 for each row with a dense vector."""
        return [rows_with_dense(segment) for segment in self.snapshot.segments]

    def query_vectors(self, encoded: Encoded, options: SearchOptions, sliced: bool = True) -> list[QueryVectors]:
        """Return each query with the sides of its mode, and with its dense vector multiplied by λ.

        A dense vector that is then all zeros is left out.
        """
        mode = options.mode or ("lexical" if encoded.dense is None else "hybrid")
        if mode != "lexical" and encoded.dense is None:
            raise InputError(f"mode {mode} needs dense vectors, and this index or query has none")
        keys, weights, starts = self._weighted(encoded.weights, sliced)
        if mode == "dense":
            starts = np.zeros_like(starts)
        lam = self.encoder.lam if options.lam is None else options.lam
        vectors: list[Floats | None] = [None] * (len(starts) - 1)
        if mode != "lexical" and encoded.dense is not None:
            weighed = np.float32(lam) * encoded.dense  # (queries, dimensions)
            vectors = [vector if vector.any() else None for vector in weighed]
        cuts = [slice(start, end) for start, end in pairwise(starts.tolist())]
        return [QueryVectors(keys[cut], weights[cut], vector) for cut, vector in zip(cuts, vectors, strict=True)]

    def _weighted(self, weights: sp.csr_array | Weights, sliced: bool) -> tuple[Ints, Floats, Ints]:
        """Return the keys and weights of the queries, and where each query starts, with idf and slicing applied."""
        data = weights.data
        if self.encoder.uses_idf:
            data = data * idf(self.statistics.passage_frequencies(weights.indices), self.statistics.passages)
        if sliced and self.snapshot.manifest.query == "sliced" and self.snapshot.slicing is not None:
            whole = csr((data, weights.indices, weights.indptr), weights.shape)
            weights, _ = split_by_slice(whole, self.snapshot.slicing)
            data = weights.data
        return weights.indices.astype(np.int64), data, weights.indptr

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

    def conditions(self, query: Query) -> Conditions:
        """Return the conditions of a query on the documents of this commit."""
        return (
            conditions_of(query, self._known_words) if query.must or query.must_not or query.phrases else Conditions()
        )

    def _conditioned(self, query: Query, vectors: QueryVectors) -> QueryVectors:
        conditions = self.conditions(query)
        return replace(vectors, conditions=conditions) if conditions else vectors

    @cached_property
    def _analyzer(self) -> Analyzer:
        return analyzer_of(self.snapshot.manifest.encoder_options)

    @cached_property
    def _known_words(self) -> KnownWords:
        return known_words(self.snapshot, self.encoder, self._forms)

    def typed(self, text: object) -> Query:
        """Return the query that people mean by a text; a Query is returned as it is."""
        if isinstance(text, Query):
            return text
        if not isinstance(text, str) or self.encoder.reads != "text":
            return Query("", text)  # type: ignore[arg-type]
        return parsed(text, self._field_names if ":" in text else ())

    @cached_property
    def _field_names(self) -> frozenset[str]:
        """The fields that any document has."""
        return frozenset().union(*(segment.documents.field_names for segment in self.every_segment()))

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

    def every_segment(self) -> Sequence[Segment]:
        """Return the segments of all documents."""
        return self.snapshot.segments

    def _ranking(self, query: Query, page: ResultPage, search: PagedSearch) -> Ranking:
        found = page.found
        asked = Asked(self, query, search.encoded, search.at, search.asked.options)
        parts = tuple(zip(found.lexical.tolist(), found.dense.tolist(), strict=True)) if len(found.dense) else ()

        def documents() -> list[FoundDoc]:
            return self.documents(found, asked.query)

        ids, scores, numbers = tuple(found.ids), tuple(found.scores.tolist()), tuple(found.passages.tolist())
        of = search._replace(has_more=page.has_more)
        ranking = Ranking(given_id(query.id), ids, scores, parts, documents, asked, found.missing, numbers, of)
        if of.has_facets:
            _ = ranking.facets  # counted at once: replicas of a cluster may soon show a later commit
        return ranking

    def documents(self, found: Found, query: QueryVectors) -> list[FoundDoc]:
        """Fetch the documents of a ranking in its order, each with its best passages for the query."""
        docs: dict[tuple[int, int], Doc] = {}
        places = list(zip(found.segments.tolist(), found.rows.tolist(), strict=True))
        with stage("documents"):
            for at in np.unique(found.segments).tolist():
                rows = np.unique(found.rows[found.segments == at]).tolist()
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


class Asked:
    """A query that was searched in one commit. It is encoded once for the search and all explanations."""

    def __init__(self, reader: Reader, query: Query, encoded: Encoded, at: int, options: SearchOptions) -> None:
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


def _read(query: object, position: int, reads: str) -> object:
    """Return the part of a query that the encoder reads."""
    if not isinstance(query, Query):
        raise InputError(f"query {position} is {type(query).__name__}, expected a Query")
    if reads == "text":
        if not isinstance(query.text, str):
            raise InputError(f"query {position} is {type(query.text).__name__}, expected a text")
        return query.text
    if query.vector is None:
        raise InputError("this index holds ready vectors: a query must be a vector too, not a text")
    return checked_vector(query.vector)
