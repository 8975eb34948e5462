"""SearchOptions to figures: build the index, check it against the definition, search every query by itself, measure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import scipy.sparse as sp

from denslice import Index
from denslice.densify import split_by_slice
from denslice.evaluate.evaluation import as_run, evaluate
from denslice.index.reader import Reader
from denslice.options import SearchOptions
from denslice.provenance import hardware, milliseconds, provenance
from denslice.queries import Query
from denslice.rankings import Ranking
from denslice.reproduce import definition, flat
from denslice.reproduce.cells import Cells, Figures, IndexSetting, K, Setting
from denslice.reproduce.collection import Collection
from denslice.reproduce.encoding import Encodings, Progress
from denslice.reproduce.flat import Search
from denslice.store.snapshot import Snapshot
from denslice.store.tiers import SEGMENT_DOCS
from denslice.vectors import Encoded

MEASURES = ("RR@10", "R@1000", "nDCG@10")
CHECKED = 5  # queries whose rankings are checked
TIMED, REPEATS = 200, 3  # queries that are timed, and how often each: the fastest counts, as others may use the machine
AT_ONCE = 256  # queries searched together where time does not matter


class Measuring:
    """Measures settings on one collection, except for those that the work folder already has."""

    def __init__(self, collection: Collection, models: Sequence[Encodings], work: Path, again: bool = False) -> None:
        self._collection = collection
        self._models = {model.name: model for model in models}
        self._query_ids = [query.id for query in collection.queries]
        self._work = work
        self._again = again
        self._cells = Cells(work / "cells", {"collection": collection.fingerprint, "hardware": hardware()})

    def missing(self, settings: Iterable[Setting]) -> list[Setting]:
        """Return the settings, each once, that have no figures yet."""
        return [setting for setting in dict.fromkeys(settings) if self._again or self._known(setting) is None]

    def figures(self, settings: Sequence[Setting], progress: Progress) -> dict[Setting, Figures]:
        """Return the figures of every setting; `progress` is called for each that is measured."""
        fresh: dict[Setting, Figures] = {}
        missing = sorted(self.missing(settings), key=lambda one: repr(one.index))
        for index, group in groupby(missing, key=lambda one: one.index):
            for setting, found in self._measured(index, list(group)):
                self._cells.put(setting, self._fingerprint(setting), found)
                fresh[setting] = found
                progress(1)
        known = {setting: fresh.get(setting) or self._known(setting) for setting in settings}
        return {setting: figures for setting, figures in known.items() if figures is not None}

    def _known(self, setting: Setting) -> Figures | None:
        return self._cells.get(setting, self._fingerprint(setting))

    def _fingerprint(self, setting: Setting) -> str:
        return self._models[setting.index.model].facts.fingerprint

    def _measured(self, index: IndexSetting, settings: list[Setting]) -> Iterator[tuple[Setting, Figures]]:
        model = self._models[index.model]
        queries = _only(model.queries(), index.mode)
        ours = [setting for setting in settings if setting.engine == "denslice"]
        if ours:
            with TemporaryDirectory(prefix=".index-", dir=self._work) as folder:
                view = build(Path(folder, "index"), model, self._collection.doc_ids, index)
                for setting in ours:
                    yield setting, self._search_index(view, model, setting, queries)
        for setting in settings:
            if setting.engine == "faiss":
                search, size = flat.flat_search(model, self._collection.doc_ids, K)
                rankings, times = self._searched(search, queries)
                yield setting, self._judged(rankings, times, size, 0.0)

    def _search_index(self, view: Reader, model: Encodings, setting: Setting, queries: Encoded) -> Figures:
        slicing = view.snapshot.slicing
        asked = queries
        if setting.query == "sliced" and slicing is not None:
            asked = Encoded(split_by_slice(queries.lexical, slicing)[0], queries.dense)
        mode = setting.index.mode
        lam = 1.0 if mode == "dense" else model.facts.lam
        how = SearchOptions(
            setting.depth, setting.theta, setting.candidates, mode, lam, setting.candidates_from, rerank=setting.rerank
        )

        def search(ids: Sequence[str], some: Encoded) -> list[Ranking]:
            return view.rank_encoded([Query(id) for id in ids], some, how)

        if setting.rerank:  # stage one alone is rounded: its index is checked by the settings that rerank
            rankings = search(self._query_ids[:CHECKED], asked.rows(slice(CHECKED)))
            docs = _only(next(model.doc_parts()), mode).rows(slice(definition.ROWS))
            kept = None if setting.index.slices is None else slicing
            defined = definition.scores(queries.rows(slice(CHECKED)), docs, kept, setting.query, lam)
            definition.check(rankings, defined, self._collection.doc_ids, setting)
        rankings, times = self._searched(search, asked)
        return self._judged(rankings, times, view.snapshot.bytes(), lost_share(view))

    def _searched(self, search: Search, queries: Encoded) -> tuple[list[Ranking], list[float]]:
        """Return the ranking of every query, and the milliseconds of some single searches."""
        ids, rankings = self._query_ids, []
        for at in range(0, len(ids), AT_ONCE):
            rankings += search(ids[at : at + AT_ONCE], queries.rows(slice(at, at + AT_ONCE)))
        rows = [queries.rows(slice(at, at + 1)) for at in range(min(TIMED, len(ids)))]
        passes = [[milliseconds(search, [""], row) for row in rows] for _ in range(REPEATS)]
        return rankings, np.min(passes, axis=0).tolist()

    def _judged(self, rankings: list[Ranking], times: list[float], size: int, lost: float) -> Figures:
        found = evaluate(as_run(rankings), self._collection.qrels, MEASURES)
        made = provenance(())
        p50, p95 = np.percentile(times, [50, 95]).round(4).tolist()
        return Figures(found.means, found.per_query, p50, p95, size, lost, made["commit"], made["date"])


def build(folder: Path, model: Encodings, doc_ids: Sequence[str], setting: IndexSetting) -> Reader:
    """Build an index of a model's vectors, or of the part that the setting names."""
    vocab, is_whole = model.facts.vocab, setting.slices is None
    index = Index.create(
        folder,
        "vectors",
        vocab=vocab,
        slices=vocab if setting.slices is None else setting.slices,
        slicing="stride" if is_whole else setting.slicing,
        skip=0 if is_whole else model.facts.skip,
        seed=setting.seed,
    )
    at = 0
    for docs in _gathered(model.doc_parts()):
        some, count = _only(docs, setting.mode), docs.lexical.shape[0]
        index.add_vectors(doc_ids[at : at + count], some.lexical, dense=some.dense)
        at += count
    return Reader(Snapshot(folder))


def lost_share(view: Reader) -> float:
    """Return the share of the documents' weights that lost their slice to a larger one."""
    lost = sum(len(segment.lost.keys) for segment in view.snapshot.segments)
    return lost / max(1, sum(entry.weights for entry in view.snapshot.manifest.segments))


def _gathered(parts: Iterator[Encoded]) -> Iterator[Encoded]:
    """The parts, joined until they fill a segment: each is then one commit."""
    held: list[Encoded] = []
    for part in parts:
        held.append(part)
        if sum(one.lexical.shape[0] for one in held) >= SEGMENT_DOCS:
            yield Encoded.joined(held)
            held = []
    if held:
        yield Encoded.joined(held)


def _only(encoded: Encoded, mode: str) -> Encoded:
    """Return the vectors that the mode uses."""
    if mode == "dense":
        return Encoded(sp.csr_array(encoded.lexical.shape, dtype=np.float32), encoded.dense)
    return Encoded(encoded.lexical, encoded.dense if mode == "hybrid" else None)
