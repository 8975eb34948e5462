"""Writes the folder of vectors that contenders read: of a topic collection, or of an index with a file of queries.

Lexical weights are rounded to float16, as an index stores them, so that all contenders search the same numbers. Of the
queries, half are those by which settings are chosen, and the others are timed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from contenders.vectors_folder import ABOUT, KINDS, SETS, TYPES, VectorsFolder
from denslice import Index, Query, open_index
from denslice.corpus.documents import read_queries
from denslice.options import SearchOptions
from denslice.vectors import Array, Floats, csr, stacked
from topic_collection import DENSE_WEIGHT, TopicCollection

DEPTH = 100  # best documents that are known for each query
ROWS = 4_096  # documents that are read from an index together


class Part(NamedTuple):
    """Some documents or queries."""

    words: sp.csr_array  # (n, vocabulary)
    dense: Array  # (n, dimensions)


def of_topics(folder: Path, documents: int, queries: int, seed: int) -> VectorsFolder:
    """Write a topic collection, unless the folder has it."""
    about = {"name": f"topics, seed {seed}", "documents": documents, "queries": queries, "seed": seed}
    if not _has(folder, about):
        collection = TopicCollection(seed)
        asked = collection.queries(queries, documents)
        docs = (Part(csr(one.weights[:3], one.weights.shape), one.dense) for one in collection.batches(documents))
        _write(folder, docs, Part(csr(asked.weights[:3], asked.weights.shape), asked.dense), DENSE_WEIGHT, about)
    return VectorsFolder(folder)


def of_index(folder: Path, index: Path, file: Path, queries: int) -> VectorsFolder:
    """Write the vectors of an index, whose documents are single passages, and of some queries, unless it is there."""
    with open_index(index) as opened:
        about = {"name": opened.path.name, "documents": opened.info().documents, "queries": queries}
        if not _has(folder, about):
            texts = [Query("", query.text) for query in read_queries(file)]
            chosen = np.random.default_rng(1).permutation(len(texts))[:queries]
            encoded = opened.reader.encode([texts[at] for at in chosen.tolist()])
            asked = opened.reader.query_vectors(encoded, SearchOptions(mode="hybrid"))
            lengths = [float(np.linalg.norm(one.dense)) for one in asked if one.dense is not None]
            width = 1 + max(int(one.keys.max(initial=0)) for one in asked)
            words = stacked([csr((one.weights, one.keys, [0, len(one.keys)]), (1, width)) for one in asked])
            dense = np.stack([one.dense for one in asked if one.dense is not None]) / np.float32(lengths[0])
            _write(folder, _rows(opened), Part(words, dense), lengths[0], about)
    return VectorsFolder(folder)


def _rows(index: Index) -> Iterator[Part]:
    for segment in index.reader.snapshot.segments:
        if segment.dense is None or segment.passage_starts is not None:
            raise SystemExit(f"{index.path}: documents of one passage with a dense vector are expected")
        live = segment.live_row_numbers()
        for start in range(0, len(live), ROWS):
            rows = live[start : start + ROWS]
            yield Part(segment.kept.of(rows), segment.dense[rows])


def _has(folder: Path, about: dict[str, object]) -> bool:
    """Return whether the folder has this collection; raise SystemExit if it has another."""
    path = folder / ABOUT
    if not path.exists():
        return False
    found = json.loads(path.read_text(encoding="utf-8"))
    if {name: found.get(name) for name in about} != about:
        raise SystemExit(f"{folder}: has {found}, expected {about}; give another folder")
    return True


def _write(folder: Path, docs: Iterator[Part], queries: Part, lam: float, about: dict[str, object]) -> None:
    """Write everything in one pass; the file that tells what is there comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    best = {kind: Best(queries.words.shape[0]) for kind in KINDS}
    counts, largest, width = [np.zeros(1, np.int64)], queries.words.shape[1], queries.dense.shape[1]
    with ExitStack() as stack:
        files = {name: stack.enter_context((folder / f"{name}.bin").open("wb")) for name in TYPES}
        for part in docs:
            rounded = csr((part.words.data.astype(np.float16), *_places(part.words)), part.words.shape)
            arrays = {"data": rounded.data, "indices": rounded.indices, "dense": part.dense}
            for name, array in arrays.items():
                files[name].write(array.astype(TYPES[name]).tobytes())
            counts.append(np.diff(rounded.indptr))
            largest = max(largest, rounded.shape[1])
            _add(best, queries, Part(rounded.astype(np.float32), part.dense), lam)
    np.save(folder / "indptr.npy", np.cumsum(np.concatenate(counts)))
    _write_queries(folder, queries, best, largest)
    told = about | {"vocabulary": largest, "dimensions": width, "lambda": lam}
    (folder / ABOUT).write_text(json.dumps(told), encoding="utf-8")


def _write_queries(folder: Path, queries: Part, best: dict[str, Best], vocabulary: int) -> None:
    half = queries.words.shape[0] // 2
    words = csr((queries.words.data, *_places(queries.words)), (queries.words.shape[0], vocabulary))
    for name, span in zip(SETS, (slice(0, 2 * half, 2), slice(1, 2 * half, 2)), strict=True):
        sp.save_npz(folder / f"{name}.npz", words[span])
        np.save(folder / f"{name}-dense.npy", queries.dense[span].astype(np.float32))
        for kind in KINDS:
            np.save(folder / f"{name}-best-{kind}.npy", best[kind].rows[span])


class Best:
    """The best documents of each query among those that were added."""

    def __init__(self, queries: int) -> None:
        self.rows = np.zeros((queries, 0), np.int64)
        self._scores = np.zeros((queries, 0), np.float32)
        self._count = 0

    def add(self, scores: Floats) -> None:
        """Add the next documents with their scores (queries, documents)."""
        numbers = np.broadcast_to(np.arange(self._count, self._count + scores.shape[1]), scores.shape)
        rows, joined = np.hstack([self.rows, numbers]), np.hstack([self._scores, scores])
        order = np.argsort(-joined, axis=1, kind="stable")[:, :DEPTH]
        self.rows, self._scores = np.take_along_axis(rows, order, axis=1), np.take_along_axis(joined, order, axis=1)
        self._count += scores.shape[1]


def _add(best: dict[str, Best], queries: Part, docs: Part, lam: float) -> None:
    width = max(queries.words.shape[1], docs.words.shape[1])
    asked, held = (csr((one.data, *_places(one)), (one.shape[0], width)) for one in (queries.words, docs.words))
    words = (asked @ held.T).toarray()
    dense = queries.dense.astype(np.float32) @ docs.dense.astype(np.float32).T
    best["words"].add(words)
    best["dense"].add(dense)
    best["hybrid"].add(words + np.float32(lam) * dense)


def _places(words: sp.csr_array) -> tuple[Array, Array]:
    return words.indices, words.indptr
