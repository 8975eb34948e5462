"""Explain: which tokens made a document's score, and which the slicing dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from denslice.records import Explanation, Term
from denslice.search.query import QueryVectors
from denslice.store.segment import Segment
from denslice.vectors import Phrases

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass(frozen=True)
class Naming:
    """What to call a key that a query and a document share: a phrase's by what the document holds, others by token."""

    token: Callable[[int], str]
    asked: Phrases  # the query's
    held: Phrases  # the document's

    def term(self, key: int, query_weight: float, doc_weight: float) -> Term:
        """The key's share of the score."""
        asked, held = self.asked.get(key, ()), self.held.get(key, ())
        name = " / ".join(held) if asked and held else self.token(key)
        collision = bool(asked) and len({*asked, *held}) > 1
        return Term(name, query_weight, doc_weight, query_weight * doc_weight, collision)


def explain(segment: Segment, row: int, query: QueryVectors, whole: QueryVectors, naming: Naming) -> Explanation:
    """The document's score, term by term, largest contribution first. `whole` is the query before any slicing."""
    one = np.array([row])
    kept, dropped = segment.kept.of(one), segment.lost.of(one)
    terms = _shared(query, kept, naming)
    unasked = ~np.isin(whole.keys, query.keys)
    lost = _shared(whole, dropped, naming) + _shared(
        QueryVectors(whole.keys[unasked], whole.weights[unasked]), kept, naming
    )
    lexical = sum(term.contribution for term in terms)
    dense = 0.0
    if query.dense is not None and segment.dense is not None:
        dense = float(segment.dense[row].astype(np.float64) @ query.dense)
    return Explanation(segment.ids(one)[0], lexical + dense, lexical, dense, terms, lost)


def _shared(query: QueryVectors, doc: sp.csr_array, naming: Naming) -> tuple[Term, ...]:
    _, ours, theirs = np.intersect1d(query.keys, doc.indices, assume_unique=True, return_indices=True)
    pairs = zip(query.keys[ours].tolist(), query.weights[ours].tolist(), doc.data[theirs].tolist(), strict=True)
    terms = [naming.term(*pair) for pair in pairs]
    return tuple(sorted(terms, key=lambda term: (-term.contribution, term.token)))
