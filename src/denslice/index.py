"""Index: an encoder, a folder on disk and search, joined behind a few verbs."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from denslice import encoders
from denslice.build import Build, Progress
from denslice.densify import split_by_slice
from denslice.encoders import Encoder
from denslice.encoders.bm25 import idf
from denslice.errors import InputError
from denslice.records import Doc, Explanation, Query, Ranking
from denslice.search import retrieve
from denslice.search.explain import explain
from denslice.search.filter import parse, passing
from denslice.search.retrieve import NO_MASK, Found, LexicalQuery, Settings
from denslice.slicing import KINDS
from denslice.store import lock, snapshot
from denslice.store import manifest as manifests
from denslice.store.manifest import Manifest, SlicingEntry
from denslice.store.snapshot import Snapshot
from denslice.vectors import lexical_csr

QUERIES = ("full", "sliced")
BATCH = 256  # queries searched, or documents fetched, at a time
Where = Mapping[str, Any] | None


class Index:
    """A searchable collection in a folder. It shows the commit it was opened at, and its own later ones."""

    def __init__(self, view: Snapshot) -> None:
        self._view = view

    @classmethod
    def create(
        cls,
        path: str | Path,
        encoder: str = "bm25",
        *,
        slices: int = 768,
        slicing: str = "learned",
        query: str = "full",
        vocab: int | None = None,
        skip: int = 0,
        seed: int = 0,
        filterable: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Index:
        """A new, empty index in a folder that does not exist yet.

        `query` is "full" (every query token meets the sliced documents) or "sliced" (the paper). `vocab` is the
        number of columns of ready vectors; filters on `filterable` metadata fields are fast, on others slower;
        `options` are the encoder's settings.
        """
        if slicing not in KINDS:
            raise InputError(f"unknown slicing {slicing!r}; known: {', '.join(KINDS)}")
        if query not in QUERIES:
            raise InputError(f"query is {query!r}, expected one of {', '.join(QUERIES)}")
        if not isinstance(slices, int) or slices < 1:
            raise InputError(f"slices must be a whole number of at least 1, not {slices!r}")
        if skip < 0 or (vocab is not None and skip > vocab):
            raise InputError(f"skip must lie between 0 and the vocabulary's size, not {skip!r}")
        given = dict(options or {}) | ({} if vocab is None else {"vocab": vocab})
        settings = encoders.checked_options(encoder, given)
        manifest = Manifest(encoder, settings, SlicingEntry(slicing, slices, skip, seed), query, tuple(filterable))
        snapshot.create(Path(path), manifest)
        return cls.open(path)

    @classmethod
    def open(cls, path: str | Path) -> Index:
        """The index in a folder, at its last commit."""
        return cls(Snapshot(Path(path)))

    @property
    def path(self) -> Path:
        """The index's folder."""
        return self._view.folder

    def __len__(self) -> int:
        return self._view.docs

    def add(
        self, docs: Iterable[Doc | Mapping[str, Any]], *, wait: float = 0.0, progress: Progress | None = None
    ) -> int:
        """Adds documents in one commit; how many. A document takes the place of an older one with the same id.

        On any error the index stays as it was. If another process is writing, waits up to `wait` seconds.
        """
        return self._commit(lambda build: build.add_docs(docs), wait, progress)

    def add_vectors(
        self,
        ids: Sequence[str],
        weights: sp.csr_array,
        texts: Sequence[str] | None = None,
        *,
        wait: float = 0.0,
        progress: Progress | None = None,
    ) -> int:
        """Adds ready vectors, rows of a (documents, vocab) matrix, in one commit; how many."""
        checked = lexical_csr(weights, self._columns())
        return self._commit(lambda build: build.add_vectors(ids, checked, texts), wait, progress)

    def delete(self, ids: Iterable[str], *, wait: float = 0.0) -> int:
        """Deletes the documents with these ids in one commit; how many there were."""
        return self._commit(lambda build: build.delete(ids), wait)

    def merge(self, *, wait: float = 0.0) -> int:
        """Rewrites segments that are small or much deleted as few full ones; how many were rewritten.

        Results stay the same. Interrupted, it leaves the index as it was.
        """
        return self._commit(Build.merge, wait)

    def refresh(self) -> bool:
        """Moves on to the last commit, of whichever process; whether there was a newer one."""
        view = Snapshot(self.path)
        newer = view.manifest.generation != self._view.manifest.generation
        if newer:
            self._show(view)
        return newer

    def search(
        self, text: str, k: int = 10, *, theta: float = 0.0, candidates: int = 10_000, where: Where = None
    ) -> Ranking:
        """The k best documents for a text, best first, equal scores by id; of those that pass `where`, if given."""
        return self.search_batch([text], k, theta=theta, candidates=candidates, where=where)[0]

    def search_batch(
        self, texts: Sequence[str], k: int = 10, *, theta: float = 0.0, candidates: int = 10_000, where: Where = None
    ) -> list[Ranking]:
        """The k best documents for each text, on all cores."""
        if isinstance(texts, str):
            raise InputError("search_batch takes a list of texts; search takes one text")
        return list(self.rank([Query("", text) for text in texts], k, theta=theta, candidates=candidates, where=where))

    def search_vectors(
        self, weights: sp.csr_array, k: int = 10, *, theta: float = 0.0, candidates: int = 10_000, where: Where = None
    ) -> Ranking:
        """The k best documents for a ready query vector, one row of weights."""
        row = lexical_csr(weights, self._columns())
        if row.shape[0] != 1:
            raise InputError(f"search_vectors takes one query, not {row.shape[0]}")
        return self._ranking("", self._found(row, Settings(k, theta, candidates), where)[0])

    def rank(
        self,
        queries: Iterable[Query],
        k: int = 1000,
        *,
        theta: float = 0.0,
        candidates: int = 10_000,
        where: Where = None,
    ) -> Iterator[Ranking]:
        """The k best documents for each query, in the queries' order: a run."""
        settings = Settings(k, theta, candidates)
        queries = iter(queries)
        while batch := list(islice(queries, BATCH)):
            found = self._found(self._weights(batch), settings, where)
            yield from (self._ranking(query.id, one) for query, one in zip(batch, found, strict=True))

    def explain(self, text: str | Query, id: str) -> Explanation:
        """Why the document with this id scores what it does for a text."""
        query = text if isinstance(text, Query) else Query("", text)
        return self._explain(self._weights([query]), id)

    def explain_vectors(self, weights: sp.csr_array, id: str) -> Explanation:
        """Why the document with this id scores what it does for a ready query vector."""
        return self._explain(lexical_csr(weights, self._columns()), id)

    def docs(self) -> Iterator[Doc]:
        """Every document, in the order they were added, but for what merges moved."""
        for segment in self._view.segments:
            for docs, *_ in segment.live_batches(BATCH):
                yield from docs

    def get(self, id: str) -> Doc | None:
        """The document with this id."""
        place = self._view.find(id)
        return place[0].documents.fetch([place[1]])[place[1]] if place else None

    def verify(self) -> None:
        """Reads every file in full; raises IndexFormatError naming the first that is damaged."""
        self._view.verify()

    def info(self) -> dict[str, Any]:
        """What the index is: encoder, slicing, counts and sizes."""
        view, manifest = self._view, self._view.manifest
        weights = sum(segment.weights for segment in manifest.segments)
        return {
            "path": str(view.folder),
            "documents": view.docs,
            "deleted": sum(segment.deleted for segment in manifest.segments),
            "segments": len(view.segments),
            "generation": manifest.generation,
            "encoder": manifest.encoder,
            "encoder_options": dict(manifest.encoder_options),
            "slicing": manifest.slicing.kind,
            "slices": manifest.slicing.slices,
            "skip": manifest.slicing.skip,
            "seed": manifest.slicing.seed,
            "query": manifest.query,
            "filterable": list(manifest.filterable),
            "vocabulary": self._vocab(),
            "weights": weights,
            "bytes": view.bytes(),
        }

    @cached_property
    def _encoder(self) -> Encoder:
        manifest = self._view.manifest
        return encoders.load(manifest.encoder, manifest.encoder_options, self._view.words)

    def _commit(self, work: Callable[[Build], int], wait: float, progress: Progress | None = None) -> int:
        with lock.writing(self.path, wait):
            build = Build(Snapshot(self.path), progress)
            try:
                snapshot.sweep(self.path, build.snapshot.manifest)
                done = work(build)
                manifest = build.finish()
                if manifest is not build.snapshot.manifest:
                    manifests.write(self.path, manifest)
            except BaseException as error:
                build.close()
                with suppress(OSError):
                    snapshot.sweep(self.path, build.snapshot.manifest)
                if isinstance(error, OSError | sqlite3.OperationalError):
                    reason = getattr(error, "strerror", None) or str(error)
                    raise InputError(f"{self.path}: cannot be written ({reason}); nothing was changed") from error
                raise
            del build
            self._show(Snapshot(self.path))
            snapshot.sweep(self.path, self._view.manifest)
        return done

    def _show(self, view: Snapshot) -> None:
        self._view = view
        self.__dict__.pop("_encoder", None)

    def _columns(self) -> int:
        """How many columns vectors of this index have."""
        if self._view.manifest.encoder != "vectors":
            raise InputError(f"this index encodes text with {self._view.manifest.encoder}; it takes no ready vectors")
        return self._vocab()

    def _vocab(self) -> int:
        return self._view.manifest.encoder_options.get("vocab") or len(self._view.words)

    def _weights(self, queries: Sequence[Query]) -> sp.csr_array:
        """The queries' lexical weights before idf."""
        if self._encoder.reads == "text":
            return self._encoder.encode_queries([query.text for query in queries]).lexical
        missing = [query for query in queries if query.vector is None]
        if missing:
            raise InputError("this index holds ready vectors: a query must be a vector too, not a text")
        return self._encoder.encode_queries([query.vector for query in queries]).lexical

    def _found(self, weights: sp.csr_array, settings: Settings, where: Where) -> list[Found]:
        view = self._view
        masks = _masks(view, where)

        def one(query: LexicalQuery) -> Found:
            return retrieve.search(view.segments, query, settings, masks)

        queries = self._lexical_queries(weights)
        if len(queries) == 1:
            return [one(queries[0])]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(one, queries))

    def _lexical_queries(self, weights: sp.csr_array) -> list[LexicalQuery]:
        """Each row as keys and weights, sliced if the index slices queries, with idf if the encoder leaves it to us."""
        view = self._view
        if view.slicing is None:
            return [LexicalQuery(np.zeros(0, np.int64), np.zeros(0, np.float32))] * weights.shape[0]
        data = weights.data
        if self._encoder.uses_idf:
            data = data * idf(view.document_frequencies(weights.indices), view.docs)
        if view.manifest.query == "sliced":
            weights, _ = split_by_slice(
                sp.csr_array((data, weights.indices, weights.indptr), weights.shape), view.slicing
            )
            data = weights.data
        keys = weights.indices.astype(np.int64)
        cuts = [slice(start, end) for start, end in zip(weights.indptr[:-1], weights.indptr[1:], strict=True)]
        return [LexicalQuery(keys[cut], data[cut]) for cut in cuts]

    def _explain(self, weights: sp.csr_array, id: str) -> Explanation:
        place = self._view.find(id)
        if place is None:
            raise InputError(f"no document {id!r} in {self.path}")
        return explain(*place, self._lexical_queries(weights)[0], self._encoder.token)

    def _ranking(self, query_id: str, found: Found) -> Ranking:
        documents = partial(_documents, self._view, found)
        return Ranking(query_id, tuple(found.ids), tuple(found.scores.tolist()), documents)


def open_index(path: str | Path) -> Index:
    """The index in a folder, at its last commit."""
    return Index.open(path)


def _documents(view: Snapshot, found: Found) -> list[Doc]:
    """The documents found, in their order."""
    docs: dict[tuple[int, int], Doc] = {}
    for at in np.unique(found.segments).tolist():
        rows = found.rows[found.segments == at].tolist()
        docs |= {(at, row): doc for row, doc in view.segments[at].documents.fetch(rows).items()}
    return [docs[place] for place in zip(found.segments.tolist(), found.rows.tolist(), strict=True)]


def _masks(view: Snapshot, where: Where) -> list[npt.NDArray[np.uint8]]:
    """Per segment a 0 for each row that is deleted or does not pass the filter; empty where every row may be found."""
    if where is None:
        return [NO_MASK if segment.live is None else segment.live for segment in view.segments]
    parsed = parse(where)
    masks = [passing(parsed, segment, view.manifest.filterable) for segment in view.segments]
    return [mask if s.live is None else mask & s.live for mask, s in zip(masks, view.segments, strict=True)]
