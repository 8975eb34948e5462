"""Expansions: the weights of the words that a prefix or a fuzzy word stands for, as part of a query.

They count as one word: each has the idf of a word that is as frequent as all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np

from denslice.encoders.bm25 import idf
from denslice.queries import Clause
from denslice.search.conditions import OWN_FIELDS, KnownWords
from denslice.vectors import Encoded, Ints, Weights

if TYPE_CHECKING:
    import scipy.sparse as sp

MOST_EXPANDED = 50  # words that a clause stands for, the most frequent ones
Frequencies = Callable[[Ints], Ints]  # how many passages have each token


def with_more(encoded: Encoded, rows: Sequence[Mapping[int, float]]) -> Encoded:
    """Return queries with more weights, before idf. A token that a query has keeps its weight."""
    return replace(encoded, weights=_with_more(encoded.weights, rows))


def clause_weights(
    clauses: Sequence[Clause], known: KnownWords, frequencies: Frequencies, total: int
) -> dict[int, float]:
    """Return the weights of the tokens of clauses, before idf."""
    weights: dict[int, float] = {}
    for clause in (one for one in clauses if one.field in OWN_FIELDS):
        for ids in _token_groups(clause, known):
            counts = frequencies(ids)
            order = np.lexsort((ids, -counts))[:MOST_EXPANDED]
            ids, counts = ids[order], counts[order]
            shares = idf(np.minimum(counts.sum(), total), total) / idf(counts, total)
            for id, share in zip(ids.tolist(), shares.tolist(), strict=True):
                weights[id] = max(share, weights.get(id, 0.0))
    return weights


def _token_groups(clause: Clause, known: KnownWords) -> list[Ints]:
    """Return the tokens of each word of a clause, or of the words that it stands for."""
    groups = [known.tokens(Clause(clause.text, clause.kind))]
    if groups == [None]:  # several words
        groups = [known.ids(word) for word in known.analyzer.split(clause.text)]
    return [np.array(ids, dtype=np.int64) for ids in groups if ids]


def _with_more(weights: sp.csr_array | Weights, rows: Sequence[Mapping[int, float]]) -> Weights:
    """Return the weights of queries and those of other tokens, sorted by token."""
    bounds, own = weights.indptr.tolist(), list(zip(weights.indices.tolist(), weights.data.tolist(), strict=True))
    both = [
        sorted({**more, **dict(own[start:end])}.items())
        for more, (start, end) in zip(rows, pairwise(bounds), strict=True)
    ]
    starts = np.array([0, *accumulate(map(len, both))], np.int32)
    columns = np.array([id for row in both for id, _ in row], np.int32)
    data = np.array([weight for row in both for _, weight in row], np.float32)
    return Weights(data, columns, starts, weights.shape)
