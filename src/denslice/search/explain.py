"""Explain: which tokens made a document's score, and which the slicing dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from denslice.records import Explanation, Term
from denslice.search.retrieve import QueryVectors
from denslice.store.segment import Segment

if TYPE_CHECKING:
    import scipy.sparse as sp


def explain(
    segment: Segment, row: int, query: QueryVectors, whole: QueryVectors, token: Callable[[int], str]
) -> Explanation:
    """The document's score, term by term, largest contribution first. `whole` is the query before any slicing."""
    one = np.array([row])
    kept, dropped = segment.kept.of(one), segment.lost.of(one)
    terms = _shared(query, kept, token)
    unasked = ~np.isin(whole.keys, query.keys)
    lost = _shared(whole, dropped, token) + _shared(
        QueryVectors(whole.keys[unasked], whole.weights[unasked]), kept, token
    )
    lexical = sum(term.contribution for term in terms)
    dense = 0.0
    if query.dense is not None and segment.dense is not None:
        dense = float(segment.dense[row].astype(np.float64) @ query.dense)
    return Explanation(segment.ids(one)[0], lexical + dense, lexical, dense, terms, lost)


def _shared(query: QueryVectors, doc: sp.csr_array, token: Callable[[int], str]) -> tuple[Term, ...]:
    _, ours, theirs = np.intersect1d(query.keys, doc.indices, assume_unique=True, return_indices=True)
    pairs = zip(query.keys[ours].tolist(), query.weights[ours].tolist(), doc.data[theirs].tolist(), strict=True)
    terms = [Term(token(key), ours, theirs, ours * theirs) for key, ours, theirs in pairs]
    return tuple(sorted(terms, key=lambda term: (-term.contribution, term.token)))
