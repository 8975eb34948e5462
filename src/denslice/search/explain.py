"""Explanations: which tokens made the score of a document, and which tokens the slicing dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from denslice.errors import InputError
from denslice.grouping import best_share
from denslice.rankings import Explanation, Term
from denslice.search.passage_hits import passage_matrix, passage_query
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


def explain_document(
    segment: Segment, row: int, query: QueryVectors, whole: QueryVectors, naming: Naming
) -> Explanation:
    """Explain the score of a document, largest contribution first. `whole` is the query before slicing."""
    one = np.array([row])
    query, whole = query.at(segment.entry.level), whole.at(segment.entry.level)
    kept, dropped = segment.kept.of(one), segment.lost.of(one)
    terms = _shared(query, kept, naming)
    unasked = ~np.isin(whole.keys, query.keys)
    lost = _shared(whole, dropped, naming) + _shared(
        QueryVectors(whole.keys[unasked], whole.weights[unasked]), kept, naming
    )
    lexical = sum(term.contribution for term in terms)
    id, numbers = segment.ids(one)[0], segment.passage_numbers(one)
    if query.dense is None or segment.dense is None:
        return Explanation(id, lexical, lexical, 0.0, terms, lost)
    products = segment.dense[numbers].astype(np.float64) @ query.dense  # (passages,)
    if len(numbers) == 1:
        return Explanation(id, lexical + products[0], lexical, float(products[0]), terms, lost, passage=0)
    share = float(best_share(np.array([len(numbers)]))[0])
    best, mean = share * products.max(), (1 - share) * float(products @ segment.passage_shares[numbers])
    dense = float(best + mean)
    strongest = int(products.argmax())
    return Explanation(id, lexical + dense, lexical, dense, terms, lost, float(best), float(mean), strongest)


def explain_passage(segment: Segment, row: int, passage: int, query: QueryVectors, naming: Naming) -> Explanation:
    """Explain the score of a passage, largest contribution first."""
    query = passage_query(query).at(segment.entry.level)
    one = np.array([row])
    numbers = segment.passage_numbers(one)
    if not 0 <= passage < len(numbers):
        raise InputError(f"document {segment.ids(one)[0]!r} has no passage {passage}; it has 0 to {len(numbers) - 1}")
    weights, having = passage_matrix(segment, row, query.keys)
    there = np.flatnonzero((having[passage] > 0) & (weights > 0))
    triples = zip(query.keys[there].tolist(), query.weights[there].tolist(), weights[there].tolist(), strict=True)
    terms = _in_order([naming.term(*triple) for triple in triples])
    lexical, dense = sum(term.contribution for term in terms), 0.0
    if query.dense is not None and segment.dense is not None:
        dense = float(segment.dense[numbers[passage]].astype(np.float64) @ query.dense)
    return Explanation(segment.ids(one)[0], lexical + dense, lexical, dense, terms, (), passage=passage)


def _shared(query: QueryVectors, doc: sp.csr_array, naming: Naming) -> tuple[Term, ...]:
    _, ours, theirs = np.intersect1d(query.keys, doc.indices, assume_unique=True, return_indices=True)
    pairs = zip(query.keys[ours].tolist(), query.weights[ours].tolist(), doc.data[theirs].tolist(), strict=True)
    return _in_order([naming.term(*pair) for pair in pairs])


def _in_order(terms: Sequence[Term]) -> tuple[Term, ...]:
    return tuple(sorted(terms, key=lambda term: (-term.contribution, term.token)))
