"""Which pieces of a transformer's input make up each word: what lets a model weigh BM25's words."""

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

DOC_SIDE, QUERY_SIDE = 0, 1  # which of a word's two importances
SOFTPLUS_ONE = math.log(math.e - 1)  # where softplus is 1: an untrained head gives importances of 1
Pieces = npt.NDArray[np.int32]


class LocatedWords(NamedTuple):
    """The words of one text that its pieces cover: each one's token id, first piece and the piece after its last."""

    words: Pieces
    first: Pieces
    end: Pieces


@dataclass(frozen=True)
class Occurrences:
    """The words of many texts, one after the other, each beside its weight's place among a matrix's `data`."""

    texts: Ints  # (n,) which text
    entries: Ints  # (n,) places in data
    first: Ints  # (n,) first piece, counted in its text
    end: Ints  # (n,)


def locate_words(
    words: Sequence[int], spans: Sequence[tuple[int, int]], offsets: Sequence[tuple[int, int]]
) -> LocatedWords:
    """Where words with these token ids and (start, end) in the text stand among pieces with these offsets.

    The first and the last piece are special tokens and stand nowhere. A word none of whose pieces is there, as the
    text was cut before it, is left out, and so is a negative id.
    """
    pieces = np.array(offsets[1:-1], dtype=np.int64).reshape(-1, 2)
    places = np.array(spans, dtype=np.int64).reshape(-1, 2)
    ids = np.array(words, dtype=np.int32)
    first = 1 + np.searchsorted(pieces[:, 1], places[:, 0], side="right")
    end = 1 + np.searchsorted(pieces[:, 0], places[:, 1], side="left")
    there = (first < end) & (ids >= 0)
    return LocatedWords(ids[there], first[there].astype(np.int32), end[there].astype(np.int32))


def occurrences(weights: sp.csr_array | Weights, found: Sequence[LocatedWords]) -> Occurrences:
    """The standings of all rows, beside their words' weights, columns sorted; a word without a weight is left out."""
    width = weights.shape[1]
    texts = np.repeat(np.arange(len(found)), [len(one.words) for one in found])
    words, first, end = (np.concatenate([np.zeros(0, np.int64), *parts]) for parts in zip(*found, strict=True))
    held = np.repeat(np.arange(len(found)), np.diff(weights.indptr)) * width + weights.indices
    wanted = texts * width + words
    entries = np.searchsorted(held, wanted).clip(max=max(len(held) - 1, 0))
    there = held[entries] == wanted if len(held) else np.zeros(len(wanted), np.bool_)
    return Occurrences(texts[there], entries[there], first[there], end[there])


def pooled(found: Occurrences, importances: Sequence[Floats], entries: int) -> Floats:
    """The importance of each of a matrix's entries: the mean over its word's pieces, 1 where no piece was seen."""
    starts = np.cumsum([0, *map(len, importances)])[found.texts]  # (n,)
    sums = np.concatenate([[0.0], np.cumsum(np.concatenate(importances), dtype=np.float64)])
    totals = sums[starts + found.end] - sums[starts + found.first]  # (n,)
    weight = np.bincount(found.entries, totals, minlength=entries)
    pieces = np.bincount(found.entries, found.end - found.first, minlength=entries)
    return np.where(pieces > 0, weight / np.maximum(pieces, 1), 1.0).astype(np.float32)
