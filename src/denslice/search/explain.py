"""Explanations: which tokens made the score of a document, and which tokens the slicing dropped."""

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
    """Names the keys that a query and a document share: phrases as the document has them, other keys by token."""

    token: Callable[[int], str]
    query_phrases: Phrases
    doc_phrases: Phrases

    def term(self, key: int, query_weight: float, doc_weight: float) -> Term:
        """Return what the key adds to the score."""
        asked, stored = self.query_phrases.get(key, ()), self.doc_phrases.get(key, ())
        name = " / ".join(stored) if asked and stored else self.token(key)
        collision = bool(asked) and len({*asked, *stored}) > 1
        return Term(name, query_weight, doc_weight, query_weight * doc_weight, collision)


def explain(segment: Segment, row: int, query: QueryVectors, whole: QueryVectors, naming: Naming) -> Explanation:
    """Explain the score of a document, largest contribution first. `whole` is the query before slicing."""
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
