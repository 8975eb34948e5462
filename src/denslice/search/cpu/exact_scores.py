"""Exact scores on the CPU: lexical ones of chosen rows, dense ones of all rows or of chosen ones, and their order."""

from __future__ import annotations

from contextlib import suppress
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from denslice.errors import InputError
from denslice.grouping import document_scores
from denslice.profiling import count
from denslice.search.cpu.addresses import Parts
from denslice.search.query import NO_SCORES, Found, QueryVectors
from denslice.store.byte_planes import BytePlanes
from denslice.store.segment import Segment
from denslice.vectors import Array, Floats, Ints


def rerank(segments: Parts, positions: Ints, query: QueryVectors) -> Floats:
    """Return the exact lexical score of each position, with every query weight: stage two. Positions must be sorted."""
    from denslice.search.cpu.rescore import rescore

    if not len(query.keys):
        return np.zeros(len(positions), np.float32)
    count("words_scored", len(positions))
    scores: Floats = rescore(segments.table, positions, query.keys, query.weights)
    return scores


def rank(segments: Parts, positions: Ints, lexical: Floats, dense: Floats, k: int) -> Found:
    """Return the k best of these by the sum of both scores, best first, equal sums by id. `dense` may be empty."""
    from denslice.search.cpu.rescore import ranked

    scores = lexical + dense if len(dense) else lexical
    best, at, rows, letters, is_whole = ranked(segments.table, positions, scores, k)
    ids = ids_of(segments, at, rows, letters, is_whole)
    return Found(at, rows, ids, scores[best], lexical[best], dense[best] if len(dense) else dense)


def ids_of(segments: Parts, at: Ints, rows: Ints, letters: npt.NDArray[np.uint8], is_whole: bool) -> list[str]:
    """Return the ids, given as letters with line feeds between them, or read one by one if that fails."""
    ids: list[str] = []
    if is_whole and len(at):
        with suppress(UnicodeDecodeError):
            ids = letters.tobytes().decode().split("\n")
    if len(ids) != len(at):  # no id has a line feed, so a file is damaged: reading the ids raises the error
        ids = [segments[s].ids(rows[i : i + 1])[0] for i, s in enumerate(at.tolist())]
    return ids


def dense_scores(segment: Segment, query: QueryVectors, best: float) -> Floats:
    """Return the dense score of each row; an empty array if there are no dense vectors."""
    if query.dense is None or segment.dense is None:
        return NO_SCORES
    kept = None if query.products is None else query.products.get(segment.name)
    vectors = segment.dense
    if kept is None:
        count("vectors_read", len(vectors))
    products = vectors.by_passage(passage_products(vectors.stored, query.dense)) if kept is None else kept
    if query.products is not None:
        query.products[segment.name] = products
    if segment.passage_starts is None:
        return products
    return document_scores(products, segment.passage_starts, segment.passage_shares, best)


def passage_products(vectors: Array | BytePlanes, query: Floats, numbers: Array | None = None) -> Floats:
    """Return the inner product of the query with each vector (n, dimensions), or with those of these numbers."""
    from denslice.search.cpu import vector_products

    if vectors.shape[1] != len(query):
        raise InputError(f"the query has {len(query)} dimensions, the index {vectors.shape[1]}")
    products: Floats
    if isinstance(vectors, BytePlanes):
        wanted = np.arange(len(vectors)) if numbers is None else np.asarray(numbers, np.int64)
        products = vector_products.plane_products_of(vectors.high, vectors.low, vectors.scales, wanted, query)
    elif numbers is None:
        products = vector_products.half_products(vectors.view(np.uint16), query)
    else:
        products = vector_products.half_products_of(vectors.view(np.uint16), np.asarray(numbers, np.int64), query)
    return products


def dense_scores_of(segments: Parts, positions: Ints, query: QueryVectors, best: float) -> Floats:
    """Return the dense score of each position, in rising order; an empty array if there are no dense vectors."""
    if query.dense is None or any(s.dense is None for s in segments):
        return NO_SCORES
    bases = np.fromiter(accumulate((s.rows for s in segments), initial=0), np.int64, len(segments) + 1)
    ends = np.searchsorted(positions, bases).tolist()
    scores = np.zeros(len(positions), dtype=np.float32)
    for segment, base, first, end in zip(segments, bases.tolist(), ends, ends[1:], strict=False):
        if first < end:
            scores[first:end] = _dense_scores_of_rows(segment, positions[first:end] - base, query.dense, best)
    return scores


def _dense_scores_of_rows(segment: Segment, rows: Ints, query: Floats, best: float) -> Floats:
    assert segment.dense is not None
    numbers = segment.passage_numbers(rows)
    count("vectors_scored", len(numbers))
    products = passage_products(segment.dense.stored, query, segment.dense.places(numbers))
    if segment.passage_counts is None:
        return products
    starts = np.concatenate([[0], np.cumsum(segment.passage_counts[rows])])
    return document_scores(products, starts, segment.passage_shares[numbers], best)
