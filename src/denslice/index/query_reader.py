"""QueryReader: the queries of one commit, from what people type to the vectors that are searched."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

from denslice import encoders
from denslice.analysis.analyzer import Analyzer
from denslice.analysis.languages import CODES, ENGLISH
from denslice.densify import split_by_slice
from denslice.encoders import Encoder
from denslice.encoders.bm25 import LANGUAGE, Bm25, idf
from denslice.encoders.text_embedder import TextEmbedder
from denslice.errors import InputError
from denslice.index.query_words import Forms, known_words
from denslice.options import SearchOptions
from denslice.queries import Query
from denslice.rankings import Correction, Explanation
from denslice.records import checked_vector
from denslice.search.completions import completions
from denslice.search.conditions import Conditions, KnownWords, analyzer_of, conditions_of
from denslice.search.expansions import clause_weights, with_more
from denslice.search.matches import TextAnalyzer, text_analyzer
from denslice.search.query import QueryVectors, QuickScales
from denslice.search.spelling import Speller
from denslice.search.token_counts import TokenCounts
from denslice.search.typed_queries import parsed
from denslice.store.manifest import FULL, QUICK
from denslice.store.segment import Segment
from denslice.store.snapshot import Snapshot
from denslice.store.vocabulary import ABSENT
from denslice.vectors import Encoded, Floats, Ints, Weights, csr, dense_rows, lexical_csr

if TYPE_CHECKING:
    import scipy.sparse as sp

REMEMBERED_TOKENS = 64  # of queries that are encoded together: to look up more at once is faster than to remember them


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


class QueryReader(ABC):
    """A snapshot with the encoder of its vectors, the counts of its collection and the words that it has."""

    def __init__(self, snapshot: Snapshot, forms: Forms | None = None, queries: str = FULL) -> None:
        """Open a commit, sharing the list of words of one from which it descends."""
        self.queries = queries
        self.snapshot = snapshot
        self.statistics: Statistics = snapshot
        self._forms_before = forms

    @abstractmethod
    def explain_vectors(
        self, query: QueryVectors, whole: QueryVectors, id: str, passage: int | None = None
    ) -> Explanation:
        """Explain the score of a document or a passage; `whole` is the query before any slicing, with its phrases."""

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder with the vocabulary of this commit."""
        manifest = self.snapshot.manifest
        return encoders.load(manifest.encoder, manifest.encoder_options, self.snapshot.words, self.languages)

    @cached_property
    def query_encoder(self) -> Encoder:
        """What reads queries: the encoder, or its quick side."""
        return self.encoder.quick() if self.queries == QUICK else self.encoder

    @cached_property
    def embedder(self) -> TextEmbedder | None:
        """The encoder, if its model returns dense vectors of texts; otherwise None."""
        encoder = self.encoder
        return encoder if isinstance(encoder, TextEmbedder) and encoder.dimensions else None

    @property
    def lam(self) -> float:
        """λ, if a search gives none: that of the encoder. Quick queries have a λ of their own."""
        return self.query_encoder.lam

    @cached_property
    def _quick_scales(self) -> QuickScales | None:
        """How the model's queries score documents of the quick level in hybrid search; None if there are none."""
        manifest = self.snapshot.manifest
        if self.queries == QUICK or not encoders.is_quicker(manifest.encoder, manifest.encoder_options):
            return None
        if all(segment.entry.level == FULL for segment in self.every_segment()):
            return None
        return QuickScales(*encoders.quick_scales(manifest.encoder, manifest.encoder_options))

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

    def every_segment(self) -> Sequence[Segment]:
        """Return the segments of all documents."""
        return self.snapshot.segments

    def encode(self, queries: Sequence[Query], fuzzy: bool = True, first: int = 0) -> Encoded:
        """Return the vectors of the queries, before idf and λ. Errors number the queries from `first`.

        With `fuzzy`, words that the collection does not have count as the nearest ones that it has.
        """
        reads = self.encoder.reads
        encoded = self.query_encoder.encode_queries(
            [_read(query, at, reads) for at, query in enumerate(queries, first)]
        )
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
        return self._speller.corrections(self._query_analyzer.split(query.text))

    def suggest(self, text: str, k: int = 10) -> list[str]:
        """Return how a text that is being typed may go on: with its last word completed by words of the collection."""
        if "analysis" not in self.snapshot.manifest.encoder_options:
            return []
        return completions(text, k, self._forms, self._speller.counts)

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
        lam = self.lam if options.lam is None else options.lam
        vectors: list[Floats | None] = [None] * (len(starts) - 1)
        if mode != "lexical" and encoded.dense is not None:
            weighed = np.float32(lam) * encoded.dense  # (queries, dimensions)
            vectors = [vector if vector.any() else None for vector in weighed]
        cuts = [slice(start, end) for start, end in pairwise(starts.tolist())]
        scales = self._quick_scales if mode == "hybrid" else None
        return [
            QueryVectors(keys[cut], weights[cut], vector, quick=None if vector is None else scales)
            for cut, vector in zip(cuts, vectors, strict=True)
        ]

    def _weighted(self, weights: sp.csr_array | Weights, sliced: bool) -> tuple[Ints, Floats, Ints]:
        """Return the keys and weights of the queries, and where each query starts, with idf and slicing applied."""
        data = weights.data
        if self.encoder.uses_idf:
            data = data * idf(self._frequencies(weights.indices), self.statistics.passages)
        if sliced and self.snapshot.manifest.query == "sliced" and self.snapshot.slicing is not None:
            whole = csr((data, weights.indices, weights.indptr), weights.shape)
            weights, _ = split_by_slice(whole, self.snapshot.slicing)
            data = weights.data
        return weights.indices.astype(np.int64), data, weights.indptr

    def _frequencies(self, ids: Ints) -> Ints:
        """Return how many passages have each token of some queries."""
        if len(ids) > REMEMBERED_TOKENS:
            return self.statistics.passage_frequencies(ids)
        return np.array(self._token_counts.of(ids.tolist()), np.int64)

    def conditions(self, query: Query) -> Conditions:
        """Return the conditions of a query on the documents of this commit."""
        return (
            conditions_of(query, self._known_words) if query.must or query.must_not or query.phrases else Conditions()
        )

    def _conditioned(self, query: Query, vectors: QueryVectors) -> QueryVectors:
        conditions = self.conditions(query)
        return replace(vectors, conditions=conditions) if conditions else vectors

    @cached_property
    def text_analyzer(self) -> TextAnalyzer:
        """What finds the tokens of texts, to mark them."""
        return text_analyzer(self.snapshot.manifest.encoder_options, self.languages)

    @cached_property
    def _analyzer(self) -> Analyzer:
        return analyzer_of(self.snapshot.manifest.encoder_options)

    @cached_property
    def _query_analyzer(self) -> Analyzer:
        """The analyzer that has the words of a query in its cache, because the encoder has read them."""
        return self.encoder.analyzer if isinstance(self.encoder, Bm25) else self._analyzer

    @cached_property
    def _known_words(self) -> KnownWords:
        return known_words(self.snapshot, self.encoder, self._forms)

    @cached_property
    def _speller(self) -> Speller:
        return Speller(self.encoder.word_ids, self._token_counts.of, self._forms)

    @cached_property
    def _token_counts(self) -> TokenCounts:
        return TokenCounts(self.statistics.passage_frequencies, len(self.snapshot.words))

    @cached_property
    def _forms(self) -> Forms:
        return Forms(self.snapshot, self._forms_before)


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
