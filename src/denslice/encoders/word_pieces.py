"""The alignment of BM25's words with the word pieces of a transformer, by which a model weighs words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from denslice.vectors import Floats, Ints, Weights

if TYPE_CHECKING:
    import scipy.sparse as sp

DOC_SIDE, QUERY_SIDE = 0, 1  # a piece has an importance in documents and one in queries
SOFTPLUS_ONE = math.log(math.e - 1)  # softplus of it is 1, the importance that an untrained head gives
Pieces = npt.NDArray[np.int32]


class LocatedWords(NamedTuple):
    """The words of one text that its pieces cover."""

    words: Pieces  # token ids
    first: Pieces  # the first piece of each
    end: Pieces  # the piece after the last of each


@dataclass(frozen=True)
class Occurrences:
    """The words of many texts, each with the entry of a matrix's `data` that holds its weight."""

    texts: Ints  # (n,) the text of each
    entries: Ints  # (n,) positions in data
    first: Ints  # (n,) the first piece, counted in its text
    end: Ints  # (n,) the piece after the last


def locate_words(
    words: Sequence[int], spans: Sequence[tuple[int, int]], offsets: Sequence[tuple[int, int]]
) -> LocatedWords:
    """Return the pieces of words, given the words' token ids and spans in the text and the offsets of all pieces.

    The first and the last piece are special tokens and belong to no word. A word without a piece, because the text
    was truncated before it, is left out, and so is a negative id.
    """
    pieces = np.array(offsets[1:-1], dtype=np.int64).reshape(-1, 2)
    places = np.array(spans, dtype=np.int64).reshape(-1, 2)
    ids = np.array(words, dtype=np.int32)
    first = 1 + np.searchsorted(pieces[:, 1], places[:, 0], side="right")
    end = 1 + np.searchsorted(pieces[:, 0], places[:, 1], side="left")
    there = (first < end) & (ids >= 0)
    return LocatedWords(ids[there], first[there].astype(np.int32), end[there].astype(np.int32))


def occurrences(weights: sp.csr_array | Weights, found: Sequence[LocatedWords]) -> Occurrences:
    """Return the words of all rows with their entries in a matrix with sorted columns; others are left out."""
    width = weights.shape[1]
    texts = np.repeat(np.arange(len(found)), [len(one.words) for one in found])
    words, first, end = (np.concatenate([np.zeros(0, np.int64), *parts]) for parts in zip(*found, strict=True))
    stored = np.repeat(np.arange(len(found)), np.diff(weights.indptr)) * width + weights.indices
    wanted = texts * width + words
    entries = np.searchsorted(stored, wanted).clip(max=max(len(stored) - 1, 0))
    there = stored[entries] == wanted if len(stored) else np.zeros(len(wanted), np.bool_)
    return Occurrences(texts[there], entries[there], first[there], end[there])


def pooled(found: Occurrences, importances: Sequence[Floats], entries: int) -> Floats:
    """Return the importance of each entry of a matrix: the mean over its word's pieces, or 1 if it has none."""
    starts = np.cumsum([0, *map(len, importances)])[found.texts]  # (n,)
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate(importances), dtype=np.float64)])
    totals = sums[starts + found.end] - sums[starts + found.first]  # (n,)
    weight = np.bincount(found.entries, totals, minlength=entries)
    pieces = np.bincount(found.entries, found.end - found.first, minlength=entries)
    return np.where(pieces > 0, weight / np.maximum(pieces, 1), 1.0).astype(np.float32)
