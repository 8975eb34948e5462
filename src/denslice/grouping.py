"""How passages make a document: the definition, to which everything faster is tested equal.

A passage is encoded as a text of its own. The lexical weight of a token in a document is the power mean of its weights
in the passages, so a word that occurs once in a book still counts. The dense score of a long document is half that of
its best passage and half the mean of all, weighted by their lengths; in a short one the mean has more. A document of
one passage has the weights and the score of that passage.

The lexical weights of the passages of a longer document are rounded to float16, as segments store them: so a document
of passages that were stored before has the same weights as one whose passages are all encoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from denslice.records import Place
from denslice.vectors import Array, Encoded, Floats, Ints, Passages, csr, only_rows, rounded

if TYPE_CHECKING:
    import scipy.sparse as sp

POWER = 4  # of the mean of lexical weights: 1 is the plain mean, and a large power the maximum
PASSAGE_SHARE = 0.25  # of λ in the score of a passage: there, words weigh more than in a whole document
BEST = 0.5  # the share of the best passage in the dense score of a long document; the mean has the rest


def documents_of(passages: Encoded, places: Sequence[Sequence[Place]]) -> Encoded:
    """Return the vectors of documents, given those of their passages in order and the places of each document's."""
    counts = np.array([len(some) for some in places])
    starts = np.concatenate([[0], np.cumsum(counts)])
    weights = passages.lexical
    cut = np.repeat(counts > 1, counts)  # (passages,)
    lengths = None if passages.lengths is None else np.add.reduceat(passages.lengths, starts[:-1])
    tokens = rounded(only_rows(weights, cut))
    of = Passages(starts, tokens, [some if len(some) > 1 else () for some in places])
    return Encoded(document_weights(tokens + only_rows(weights, ~cut), starts), passages.dense, lengths, of)


def document_weights(weights: sp.csr_array, starts: Ints) -> sp.csr_array:
    """Return the lexical weights of documents (n, vocab), given those of their passages.

    The passages of document i are the rows starts[i] to starts[i + 1]: w = (Σ w_p⁴ / passages)^¼.
    """
    counts = np.diff(starts)
    fourth = csr((weights.data.astype(np.float64) ** POWER, weights.indices, weights.indptr), weights.shape)
    sums = csr((np.ones(starts[-1]), np.arange(starts[-1]), starts), (len(counts), weights.shape[0])) @ fourth
    sums.sort_indices()
    means = sums.data / np.repeat(counts, np.diff(sums.indptr))
    return csr(((means ** (1 / POWER)).astype(np.float32), sums.indices, sums.indptr), sums.shape)


def best_share(passages: Ints, best: float = BEST) -> Floats:
    """Return the share of the best passage in the dense score of documents with so many passages.

    It is 0 for one passage, 1/4 for two, and comes close to `best` for many: best − (1 − best) / passages.
    """
    share: Floats = np.maximum(0, best - (1 - best) / passages).astype(np.float32)
    return share


def document_scores(scores: Floats, starts: Array, shares: Floats, best: float = BEST) -> Floats:
    """Return the dense scores of documents, given those of their passages: b · maximum + (1 − b) · mean.

    b is `best_share`. `shares` are the weights of passages in the mean: their parts of the document's text, which sum
    to 1.
    """
    if not len(scores):
        return scores
    first = np.asarray(starts[:-1], dtype=np.int64)
    means = np.add.reduceat(scores * shares, first)
    share = best_share(np.diff(starts).astype(np.int64), best)
    pooled: Floats = (means + share * (np.maximum.reduceat(scores, first) - means)).astype(np.float32)
    return pooled


def passage_weights(weights: Floats, passages: int | Ints, having: Ints) -> Floats:
    """Return the weights of tokens in the passages that have them, given those in the document.

    `passages` is the number of the document's passages, and `having` how many of them have each token: the power mean
    is over these alone.
    """
    return (weights * (passages / np.maximum(having, 1)) ** (1 / POWER)).astype(np.float32)
