"""View: one commit of an index, searched and explained. It never changes; an Index moves from one view to the next."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from denslice import encoders
from denslice.densify import split_by_slice
from denslice.encoders import Encoder
from denslice.encoders.bm25 import idf
from denslice.errors import InputError
from denslice.records import Doc, Explanation, Query, Ranking
from denslice.search import retrieve
from denslice.search.explain import explain
from denslice.search.filter import parse, passing
from denslice.search.retrieve import NO_MASK, Found, LexicalQuery, Mask, Settings
from denslice.store.snapshot import Snapshot
from denslice.vectors import lexical_csr

BATCH = 256  # queries searched, or documents fetched, at a time
NO_QUERY = LexicalQuery(np.zeros(0, np.int64), np.zeros(0, np.float32))
Where = Mapping[str, Any] | None


class View:
    """A snapshot and the encoder that made its vectors."""

    def __init__(self, folder: Path) -> None:
        self.snapshot = Snapshot(folder)

    @property
    def generation(self) -> int:
        """The commit this is a view of."""
        return self.snapshot.manifest.generation

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder, over the vocabulary of this commit."""
        manifest = self.snapshot.manifest
        return encoders.load(manifest.encoder, manifest.encoder_options, self.snapshot.words)

    @cached_property
    def vocab(self) -> int:
        """How many tokens there are."""
        return self.snapshot.manifest.encoder_options.get("vocab") or len(self.snapshot.words)

    def rank(self, queries: Iterable[Query], settings: Settings, where: Where) -> Iterator[Ranking]:
        """The best documents for each query, in the queries' order."""
        queries = iter(queries)
        while batch := list(islice(queries, BATCH)):
            found = self._found(self.encode(batch), settings, where)
            yield from (self._ranking(query.id, one) for query, one in zip(batch, found, strict=True))

    def rank_vector(self, weights: object, settings: Settings, where: Where) -> Ranking:
        """The best documents for one ready query vector."""
        return self._ranking("", self._found(self.ready(weights), settings, where)[0])

    def explain(self, weights: sp.csr_array, id: str) -> Explanation:
        """Why a document scores what it does for a query given as encoded weights (1, vocabulary)."""
        place = self.snapshot.find(id)
        if place is None:
            raise InputError(f"no document {id!r} in {self.snapshot.folder}")
        return explain(*place, self._queries(weights)[0], self.encoder.token)

    def docs(self) -> Iterator[Doc]:
        """Every document that can be found."""
        for segment in self.snapshot.segments:
            for docs, *_ in segment.live_batches(BATCH):
                yield from docs

    def get(self, id: str) -> Doc | None:
        """The document with this id."""
        place = self.snapshot.find(id)
        return place[0].documents.fetch([place[1]])[place[1]] if place else None

    def encode(self, queries: Sequence[Query]) -> sp.csr_array:
        """The queries' lexical weights, before idf."""
        if self.encoder.reads == "text":
            return self.encoder.encode_queries([query.text for query in queries]).lexical
        if any(query.vector is None for query in queries):
            raise InputError("this index holds ready vectors: a query must be a vector too, not a text")
        return self.encoder.encode_queries([query.vector for query in queries]).lexical

    def ready(self, weights: object) -> sp.csr_array:
        """One ready query vector, checked."""
        row = lexical_csr(weights, self.columns())
        if row.shape[0] != 1:
            raise InputError(f"search_vectors takes one query, not {row.shape[0]}")
        return row

    def columns(self) -> int:
        """How many columns ready vectors have; InputError where the index makes its vectors from text."""
        name = self.snapshot.manifest.encoder
        if name != "vectors":
            raise InputError(f"this index encodes text with {name}; it takes no ready vectors")
        return self.vocab

    def info(self) -> dict[str, Any]:
        """What the index is: encoder, slicing, counts and sizes."""
        manifest, slicing = self.snapshot.manifest, self.snapshot.manifest.slicing
        return {
            "path": str(self.snapshot.folder),
            "documents": self.snapshot.docs,
            "deleted": sum(segment.deleted for segment in manifest.segments),
            "segments": len(manifest.segments),
            "generation": manifest.generation,
            "encoder": manifest.encoder,
            "encoder_options": dict(manifest.encoder_options),
            "slicing": slicing.kind,
            "slices": slicing.slices,
            "skip": slicing.skip,
            "seed": slicing.seed,
            "query": manifest.query,
            "filterable": list(manifest.filterable),
            "vocabulary": self.vocab,
            "weights": sum(segment.weights for segment in manifest.segments),
            "bytes": self.snapshot.bytes(),
        }

    def _found(self, weights: sp.csr_array, settings: Settings, where: Where) -> list[Found]:
        masks = self._masks(where)
        search = partial(retrieve.search, self.snapshot.segments, settings=settings, masks=masks)
        queries = self._queries(weights)
        if len(queries) == 1:
            return [search(queries[0])]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(search, queries))

    def _queries(self, weights: sp.csr_array) -> list[LexicalQuery]:
        """Each row's keys and weights: with idf if the encoder leaves it to us, sliced if the index slices queries."""
        if self.snapshot.slicing is None:
            return [NO_QUERY] * weights.shape[0]
        if self.encoder.uses_idf:
            frequencies = self.snapshot.document_frequencies(weights.indices)
            data = weights.data * idf(frequencies, self.snapshot.docs)
            weights = sp.csr_array((data, weights.indices, weights.indptr), weights.shape)
        if self.snapshot.manifest.query == "sliced":
            weights, _ = split_by_slice(weights, self.snapshot.slicing)
        keys, data = weights.indices.astype(np.int64), weights.data
        cuts = [slice(start, end) for start, end in zip(weights.indptr[:-1], weights.indptr[1:], strict=True)]
        return [LexicalQuery(keys[cut], data[cut]) for cut in cuts]

    def _masks(self, where: Where) -> list[Mask]:
        """Per segment a 0 for each row that is deleted or does not pass; empty where every row may be found."""
        segments = self.snapshot.segments
        live = [NO_MASK if segment.live is None else segment.live for segment in segments]
        if where is None:
            return live
        parsed, filterable = parse(where), self.snapshot.manifest.filterable
        passes = [passing(parsed, segment, filterable) for segment in segments]
        return [mask & here if len(here) else mask for mask, here in zip(passes, live, strict=True)]

    def _ranking(self, query_id: str, found: Found) -> Ranking:
        return Ranking(query_id, tuple(found.ids), tuple(found.scores.tolist()), partial(self._documents, found))

    def _documents(self, found: Found) -> list[Doc]:
        """The documents found, in their order."""
        docs: dict[tuple[int, int], Doc] = {}
        for at in np.unique(found.segments).tolist():
            rows = found.rows[found.segments == at].tolist()
            docs |= {(at, row): doc for row, doc in self.snapshot.segments[at].documents.fetch(rows).items()}
        return [docs[place] for place in zip(found.segments.tolist(), found.rows.tolist(), strict=True)]
