"""Compares topic collections with real text: what is found if only some dense vectors are read.

The figures of real text are those of 62,413 abstracts and 300 titles, with the scores and vectors of `mini`. With other
topics and queries the table changes: of the seeds 1 to 6 and 21 to 29, five differ from real text by more than .02, at
most by .036. So the mean of several seeds is compared as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from denslice import clustering
from denslice.vectors import Array, Floats, Ints, csr
from topic_collection import DENSE_WEIGHT, VOCABULARY, TopicCollection

DOCUMENTS, QUERIES, CLUSTERS, K = 62_413, 300, 1_024, 10
READ = (0.01, 0.02, 0.05, 0.1, 0.2)  # of the dense vectors
REAL = {  # the share of the ten best hybrid documents, by how many of the best by words are read too
    0: (0.791, 0.859, 0.929, 0.962, 0.979),
    100: (0.991, 0.995, 0.998, 1.0, 1.0),
    1_000: (0.999, 0.999, 0.999, 1.0, 1.0),
}
ALLOWED = 0.02
SEEDS = 6  # collections whose tables are averaged
MARKS = (1, 10, 100, 1_000)  # ranks and tokens that are shown


class Scored(NamedTuple):
    """What every document scores for every query."""

    words: Floats  # (queries, documents)
    dense: Floats  # (queries, documents)
    vectors: Array  # (documents, dimensions)
    queries: Array  # (queries, dimensions)
    frequencies: Ints  # documents that have each token, most frequent first
    weights: float  # of a document, on average


def check(first: int) -> int:
    """Print the mean table of the seeds from `first`; return 0 if it and that of `first` are like real text, else 1."""
    real, tables = np.array(list(REAL.values())), []
    for seed in range(first, first + SEEDS):
        scored = score(TopicCollection(seed))
        if seed == first:
            describe(scored)
        tables.append(table(scored))
        print(f"seed {seed}: largest difference {np.abs(tables[-1] - real).max():.3f}")
    mean = np.mean(tables, axis=0)
    print(f"{'read':>22}", *(f"{share:>14.0%}" for share in READ))
    for best, row, those in zip(REAL, mean, real, strict=True):
        cells = (f"{one:.3f} ({other:.3f})" for one, other in zip(row, those, strict=True))
        print(f"{f'+ best {best:,} by words' if best else 'clusters alone':>22}", *(f"{cell:>14}" for cell in cells))
    print(f"In brackets: real text. Largest difference: {np.abs(mean - real).max():.3f}, allowed: {ALLOWED}")
    return int(max(np.abs(one - real).max() for one in (mean, tables[0])) > ALLOWED)


def score(collection: TopicCollection) -> Scored:
    """Return the scores of all documents for all queries."""
    asked = collection.queries(QUERIES, DOCUMENTS)
    lexical, vectors = csr(asked.weights[:3], asked.weights.shape), asked.dense.astype(np.float32)
    words, dense, kept, counts = [], [], [], np.zeros(VOCABULARY, np.int64)
    for drawn in collection.batches(DOCUMENTS):
        words.append((lexical @ csr(drawn.weights[:3], drawn.weights.shape).T).toarray())
        dense.append(DENSE_WEIGHT * (vectors @ drawn.dense.astype(np.float32).T))
        kept.append(drawn.dense)
        counts += np.bincount(drawn.weights.indices, minlength=VOCABULARY)
    found = np.concatenate(words, axis=1), np.concatenate(dense, axis=1), np.concatenate(kept)
    return Scored(*found, asked.dense, np.sort(counts)[::-1], counts.sum() / DOCUMENTS)


def describe(scored: Scored) -> None:
    """Print what can be compared with real text by eye."""
    print(f"weights a document: {scored.weights:.0f}; documents with the token of rank", end=" ")
    print(", ".join(f"{at:,}: {scored.frequencies[at - 1] / DOCUMENTS:.2%}" for at in (*MARKS, 10_000)))
    both = np.argsort(-(scored.words + scored.dense), axis=1)[:, :K]
    for name, scores in (("words", scored.words), ("dense", scored.dense)):
        best = -np.sort(-scores, axis=1)
        found = np.median(np.take_along_axis(scores, both, axis=1), axis=0)
        print(f"{name}, median score at rank", ", ".join(f"{at:,}: {np.median(best[:, at - 1]):.1f}" for at in MARKS))
        print(f"{name}, median score of the ten best hybrid documents:", ", ".join(f"{one:.1f}" for one in found))


def table(scored: Scored) -> Floats:
    """Return the share of the ten best documents whose vectors are read: a row for each of REAL."""
    best = np.argsort(-(scored.words + scored.dense), axis=1, kind="stable")[:, :K]
    by_words = np.argsort(-scored.words, axis=1, kind="stable")[:, : max(REAL)]
    before = np.take_along_axis(read_before(scored), best, axis=1)  # (queries, K)
    rows = []
    for count in REAL:
        known = np.stack([np.isin(*pair) for pair in zip(best, by_words[:, :count], strict=True)])
        rows.append([((before < share * DOCUMENTS) | known).mean() for share in READ])
    return np.array(rows, np.float32)


def read_before(scored: Scored) -> Ints:
    """Return how many vectors are read before the cluster of each document, nearest clusters first."""
    clustering.PER_ROOT = CLUSTERS / DOCUMENTS**0.5  # as many clusters as with real text, which were 1,024
    made = clustering.clustered(scored.vectors)
    sizes = made.starts[1:].astype(np.int64) - made.starts[:-1]
    cluster = np.empty(DOCUMENTS, np.int64)
    cluster[made.members] = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(-(scored.queries.astype(np.float32) @ made.centres.astype(np.float32).T), axis=1)
    before = np.empty_like(order)
    np.put_along_axis(before, order, np.cumsum(sizes[order], axis=1) - sizes[order], axis=1)
    return np.stack([row[cluster] for row in before])
