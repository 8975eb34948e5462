"""Synthetic collections of any size: lexical weights and dense vectors of documents, drawn from the same topics.

    python benchmarks/topic_collection.py --check              # compares it with real text; exit status 1 if it differs
    python benchmarks/topic_collection.py --documents 1000000  # how long drawing takes

Topics are a tree. A document has a path from the root to a leaf, and a second path with a smaller share. Each topic has
a direction in dense space and words of its own, so documents whose vectors are near to each other share words. A query
is a short question about one document. The same seed gives the same collection, and any batch can be drawn alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from denslice.vectors import Floats, Ints, Weights

BATCH = 4_096  # documents that are drawn together, from one seed
VOCABULARY = 30_000  # tokens; outside of topics, a lower number is more frequent
DIMENSIONS = 384

# Topics
FANOUT = (20, 10, 8, 6, 12)  # topics below each topic of the level above
SIZES = 2.2  # how unevenly documents fall on the topics below one: power of a uniform number
SECOND = 0.2  # largest share of the second path

# Dense vectors, before they get length 1
STRENGTH = (0.48, 0.48, 0.43, 0.4, 0.2)  # length of the topic's direction at each level
OWN = 0.54  # length of what a document has of its own
FADING = 0.5  # how much shorter some axes are than others: power of 1 / number

# Words
TOKENS = (70, 170)  # fewest and most of a document, with repetitions
FLAT = 8.0  # so many tokens are about as frequent as the first; from there on Zipf's law holds
TOPIC_FLAT = 2_000.0  # the same for words of topics, which are rarer
TOPIC_WORDS = (128, 48, 24, 16, 12)  # at each level
TOPIC_SHARES = (0.07, 0.12, 0.25, 0.24, 0.04)  # of the tokens of a document, at each level
STEEP = 2.0  # how much the first words of a topic are preferred: power of a uniform number
SATURATION = 1.2  # of the number of times that a token occurs, as k1 of BM25
CONTEXT = 0.25  # deviation of the logarithm of a factor of each weight, which stands for a model

# Queries
ASKED = (8, 18)  # fewest and most tokens
REPLACED = 0.6  # share of the tokens that are not of the document, but of its topics
BLUR = 1.0  # length of the noise that is added to the document's vector
DENSE_WEIGHT = 50.0  # λ: a score is words + λ · cosine
COUNTED = 8  # batches by which the idf of tokens is determined

# Of seeds 1 to 6 and 21 to 26, the one whose table in topic_check.py is nearest to that of real text.
SEED = 24

Halves = npt.NDArray[np.float16]
Dice = np.random.Generator


class Drawn(NamedTuple):
    """Documents or queries: lexical weights (n, VOCABULARY), tokens ascending, and vectors of length 1."""

    weights: Weights
    dense: Halves  # (n, DIMENSIONS)


class Paths(NamedTuple):
    """The topics of documents: two leaves of the tree, and the share of the second."""

    leaves: Ints  # (documents, 2)
    shares: Floats  # (documents,)


class TopicCollection:
    """Documents and queries of one seed."""

    def __init__(self, seed: int = SEED) -> None:
        """Draw the directions and words of the topics."""
        self.seed = seed
        dice = np.random.default_rng([seed, 0])
        self._axes = _axes(dice)
        self._words = [
            _zipf(dice, (count, size), TOPIC_FLAT) for count, size in zip(_topics(), TOPIC_WORDS, strict=True)
        ]
        self._leaves = np.zeros((1, DIMENSIONS), np.float32)  # the sum of the directions on the path to each leaf
        for fanout, count, strength in zip(FANOUT, _topics(), STRENGTH, strict=True):
            self._leaves = np.repeat(self._leaves, fanout, axis=0) + strength * _unit(self._noise(dice, count))

    def batches(self, documents: int) -> Iterator[Drawn]:
        """Yield the first so many documents."""
        for first in range(0, documents, BATCH):
            yield _first(self.batch(first // BATCH), documents - first)

    def batch(self, number: int) -> Drawn:
        """Return the documents with the numbers from number · BATCH."""
        dice = self._dice(number)
        paths = _paths(dice)
        share = paths.shares[:, None]
        dense = (1 - share) * self._leaves[paths.leaves[:, 0]] + share * self._leaves[paths.leaves[:, 1]]
        dense += np.float32(OWN) * self._noise(dice, BATCH)
        return Drawn(self._weights(dice, paths), _unit(dense).astype(np.float16))

    def queries(self, count: int, documents: int, seed: int = 1) -> Drawn:
        """Return questions about so many of the first documents; their lexical weights are idf, as BM25's are."""
        dice = np.random.default_rng([self.seed, 1, seed])
        about = np.sort(dice.integers(0, documents, count))
        tokens, vectors = [], []
        for number in np.unique(about // BATCH).tolist():
            batch, paths = self.batch(number), _paths(self._dice(number))
            for row in (about[about // BATCH == number] % BATCH).tolist():
                tokens.append(self._asked(dice, batch.weights, paths.leaves[row, 0], row))
                vectors.append(batch.dense[row].astype(np.float32))
        dense = _unit(np.stack(vectors) + np.float32(BLUR) * self._noise(dice, count))
        indices, indptr = np.concatenate(tokens), np.cumsum([0, *map(len, tokens)])
        return Drawn(Weights(self._idf[indices], indices, indptr, (count, VOCABULARY)), dense.astype(np.float16))

    @cached_property
    def _idf(self) -> Floats:
        """BM25's idf of each token, by the first documents."""
        counts = np.zeros(VOCABULARY, np.int64)
        for drawn in self.batches(COUNTED * BATCH):
            counts += np.bincount(drawn.weights.indices, minlength=VOCABULARY)
        return np.log1p((COUNTED * BATCH - counts + 0.5) / (counts + 0.5)).astype(np.float32)

    def _asked(self, dice: Dice, weights: Weights, leaf: int, row: int) -> Ints:
        """Return the tokens of a question: rare and heavy ones of the document, and some of its topics."""
        span = slice(weights.indptr[row], weights.indptr[row + 1])
        tokens, likely = weights.indices[span], weights.data[span] * self._idf[weights.indices[span]]
        count = min(len(tokens), int(dice.integers(ASKED[0], ASKED[1] + 1)))
        chosen = tokens[np.argsort(dice.exponential(size=len(tokens)) / likely)[:count]]
        others = [self._topic_words(dice, level, np.full(count, leaf)) for level in range(len(FANOUT))]
        levels = dice.choice(len(FANOUT), count, p=np.array(TOPIC_SHARES) / sum(TOPIC_SHARES))
        other = np.stack(others)[levels, np.arange(count)]
        return np.unique(np.where(dice.random(count) < REPLACED, other, chosen)).astype(np.int64)

    def _weights(self, dice: Dice, paths: Paths) -> Weights:
        """Return the lexical weights of documents: tokens are counted, and the counts saturate."""
        lengths = dice.integers(TOKENS[0], TOKENS[1] + 1, BATCH)
        keys = []
        for level, share in enumerate(TOPIC_SHARES):
            rows = np.repeat(np.arange(BATCH), np.round(share * lengths).astype(np.int64))
            path = (dice.random(len(rows), np.float32) < paths.shares[rows]).astype(np.int64)
            keys.append(_keys(rows, self._topic_words(dice, level, paths.leaves[rows, path])))
        rows = np.repeat(np.arange(BATCH), lengths - np.bincount(np.concatenate(keys) >> 16, minlength=BATCH))
        keys.append(_keys(rows, _zipf(dice, len(rows), FLAT)))
        found, counts = _counted(np.concatenate(keys))
        rows = (found >> 16).astype(np.int64)
        length = np.float32(SATURATION) * (lengths / np.mean(TOKENS)).astype(np.float32)[rows]
        factor = np.exp(np.float32(CONTEXT) * dice.standard_normal(len(found), np.float32))
        data = factor * counts / (counts + length)
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=BATCH))])
        return Weights(data, (found & 0xFFFF).astype(np.int64), starts, (BATCH, VOCABULARY))

    def _topic_words(self, dice: Dice, level: int, leaves: Ints) -> npt.NDArray[np.uint32]:
        """Return a word of the topic at a level above each leaf."""
        size = TOPIC_WORDS[level]
        number = (size * dice.random(len(leaves), np.float32) ** np.float32(STEEP)).astype(np.int64)
        found: npt.NDArray[np.uint32] = self._words[level][leaves // (_topics()[-1] // _topics()[level]), number]
        return found

    def _noise(self, dice: Dice, count: int) -> Floats:
        """Return random vectors of about length 1, whose axes differ in length as those of models do."""
        return dice.standard_normal((count, DIMENSIONS), np.float32) * self._axes

    def _dice(self, number: int) -> Dice:
        return np.random.Generator(np.random.SFC64([self.seed, 2, number]))


def _topics() -> list[int]:
    """Return how many topics each level has."""
    counts: list[int] = np.cumprod(FANOUT).tolist()
    return counts


def _paths(dice: Dice) -> Paths:
    leaves = np.zeros((BATCH, 2), np.int64)
    for fanout in FANOUT:
        leaves = leaves * fanout + (fanout * dice.random((BATCH, 2)) ** SIZES).astype(np.int64)
    return Paths(leaves, np.float32(SECOND) * dice.random(BATCH, np.float32))


def _axes(dice: Dice) -> Floats:
    """Return the lengths of the axes in random order; their squares sum to 1."""
    lengths = dice.permutation(np.arange(1, DIMENSIONS + 1) ** -FADING)
    found: Floats = (lengths / np.linalg.norm(lengths)).astype(np.float32)
    return found


def _zipf(dice: Dice, shape: int | tuple[int, int], flat: float) -> npt.NDArray[np.uint32]:
    """Return random tokens: token t is as frequent as 1 / (t + flat)."""
    ratio = np.float32(np.log1p(VOCABULARY / flat))
    tokens = np.float32(flat) * np.expm1(ratio * dice.random(shape, np.float32))
    found: npt.NDArray[np.uint32] = np.minimum(tokens, VOCABULARY - 1).astype(np.uint32)
    return found


def _keys(rows: Ints, tokens: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    return rows.astype(np.uint32) << np.uint32(16) | tokens


def _counted(keys: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint32], Floats]:
    """Return each key once, ascending, and how often it is there."""
    keys.sort()
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[starts], np.diff(starts, append=len(keys)).astype(np.float32)


def _first(drawn: Drawn, count: int) -> Drawn:
    weights = drawn.weights
    count = min(count, weights.shape[0])
    end = weights.indptr[count]
    cut = Weights(weights.data[:end], weights.indices[:end], weights.indptr[: count + 1], (count, VOCABULARY))
    return Drawn(cut, drawn.dense[:count])


def _unit(vectors: Floats) -> Floats:
    found: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return found


def main() -> None:
    """Check the collection, or time drawing it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.check:
        from topic_check import check

        raise SystemExit(check(given.seed))
    began, collection = time.perf_counter(), TopicCollection(given.seed)
    opened = time.perf_counter()
    weights = sum(len(drawn.weights.data) for drawn in collection.batches(given.documents))
    seconds = time.perf_counter() - opened
    print(f"topics: {opened - began:.1f} s; {given.documents:,} documents: {seconds:.1f} s,", end=" ")
    print(f"{given.documents / seconds:,.0f} a second, {weights / given.documents:.0f} weights each")


if __name__ == "__main__":
    main()
