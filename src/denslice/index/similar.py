"""Documents like one: its stored vectors as a query, without the document itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from denslice.encoders.bm25 import LANGUAGE_WEIGHT
from denslice.store.segment import Segment
from denslice.vectors import Encoded, Floats, Ints, csr

STRONGEST_TOKENS = 50  # tokens of a document that are searched for: those with the largest weights


class StoredVectors(NamedTuple):
    """The vectors of a stored document: its tokens with their weights, and the mean of its dense vectors."""

    keys: Ints
    weights: Floats
    dense: Floats | None

    def known(self, vocab: int) -> StoredVectors:
        """Return the vectors without tokens that a vocabulary of this size does not have."""
        is_known = self.keys < vocab  # a shard may show a later commit
        return self._replace(keys=self.keys[is_known], weights=self.weights[is_known])


def stored_vectors(segment: Segment, row: int) -> StoredVectors:
    """Return the vectors of a row. Tokens that the slicing dropped count; passages count by their share of the text."""
    one = np.array([row])
    kept, lost = segment.kept.of(one), segment.lost.of(one)
    keys = np.concatenate([kept.indices, lost.indices]).astype(np.int64)
    weights = np.concatenate([kept.data, lost.data])
    order = np.argsort(keys)
    return StoredVectors(keys[order], weights[order], _mean_vector(segment, one))


def _mean_vector(segment: Segment, row: Ints) -> Floats | None:
    if segment.dense is None:
        return None
    numbers = segment.passage_numbers(row)
    shares = np.ones(1, np.float32) if segment.passage_starts is None else segment.passage_shares[numbers]
    mean: Floats = (shares @ segment.dense[numbers].astype(np.float32)).astype(np.float32)
    return mean


def as_query(stored: StoredVectors, idf: Floats, vocab: int) -> Encoded:
    """Return the strongest tokens and the dense vector of a document as an encoded query.

    A token is as strong as its weight times its idf, which is applied to the query later. Weights that only count the
    documents of a language are left out.
    """
    strength = stored.weights * idf * (stored.weights > LANGUAGE_WEIGHT)
    chosen = np.sort(np.argsort(-strength, kind="stable")[:STRONGEST_TOKENS])
    chosen = chosen[strength[chosen] > 0]
    pointers = np.array([0, len(chosen)])
    weights = csr((stored.weights[chosen], stored.keys[chosen], pointers), (1, vocab))
    return Encoded(weights, None if stored.dense is None else stored.dense[None])


def without_itself(id: str, where: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a filter that the document with this id does not pass, and others as before."""
    others = {"id": {"ne": id}}
    return others if where is None else {"and": [where, others]}
