"""Retrieve and rerank: candidates from the postings, exact scores from the rows (paper section 3.1).

With θ at or below every query weight the result is exact: everything the rounding of postings could hide is
rescored. A larger θ leaves light weights out of stage one, and the best `candidates` are rescored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from denslice.errors import InputError
from denslice.store.segment import Segment
from denslice.vectors import Floats, Ints

STRONGEST = 8  # weights stage one uses at least, however large θ
ROOM = 1_024  # documents held while scanning, to begin with
Mask = npt.NDArray[np.uint8]
NO_MASK: Mask = np.zeros(0, dtype=np.uint8)


@dataclass(frozen=True)
class LexicalQuery:
    """A query's keys (rising) and weights (above 0)."""

    keys: Ints
    weights: Floats


@dataclass(frozen=True)
class Found:
    """Documents and scores of one query, best first, equal scores by id."""

    segments: Ints  # position of each document's segment
    rows: Ints
    ids: list[str]
    scores: Floats


@dataclass(frozen=True)
class Settings:
    """How many documents are wanted, and how they are looked for."""

    k: int
    theta: float = 0.0
    candidates: int = 10_000

    def __post_init__(self) -> None:
        if not isinstance(self.k, int) or self.k < 1:
            raise InputError(f"k must be a whole number of at least 1, not {self.k!r}")
        if not self.theta >= 0:
            raise InputError(f"theta must be 0 or more, not {self.theta!r}")
        if not isinstance(self.candidates, int) or self.candidates < 1:
            raise InputError(f"candidates must be a whole number of at least 1, not {self.candidates!r}")


def search(segments: Sequence[Segment], query: LexicalQuery, settings: Settings, masks: Sequence[Mask]) -> Found:
    """The k best documents. `masks` has per segment a 0 for each row to leave out, or nothing to leave none out."""
    positions = retrieve(segments, query, settings, masks)
    return rank(segments, positions, rerank(segments, positions, query), settings.k)


def strong_enough(query: LexicalQuery, theta: float) -> LexicalQuery:
    """The weights stage one uses: those above θ, and the strongest eight where those are fewer."""
    strong = query.weights > theta
    if strong.sum() < STRONGEST:
        strong[np.argsort(-query.weights, kind="stable")[:STRONGEST]] = True
    return LexicalQuery(query.keys[strong], query.weights[strong])


def retrieve(segments: Sequence[Segment], query: LexicalQuery, settings: Settings, masks: Sequence[Mask]) -> Ints:
    """Stage one: positions, counted over all segments, of every document that may be among the k best."""
    from denslice.search import cpu

    if not segments or not len(query.keys):
        return np.zeros(0, dtype=np.int64)
    k = min(settings.k, sum(s.rows for s in segments))
    strong = strong_enough(query, settings.theta)
    postings = [s.postings for s in segments]
    found = [cpu.find_lists(p.block_starts, p.keys, strong.keys) for p in postings]
    largest = np.max([cpu.list_maxima(f, p.maxima) for f, p in zip(found, postings, strict=True)], axis=0)
    reach = float(strong.weights.astype(np.float64) @ largest)  # no document scores more
    if reach == 0:
        return np.zeros(0, dtype=np.int64)
    unit = (cpu.LARGEST_SCORE - cpu.LEVELS * (len(strong.keys) + 1)) / reach
    margin = int(np.ceil(reach * unit / cpu.LEVELS)) + cpu.LEVELS * (len(strong.keys) + 1)
    most = 0
    if len(strong.keys) < len(query.keys):
        margin = min(cpu.LARGEST_SCORE, margin + int(_unseen(segments, query, strong) * unit) + 1)
        most = max(settings.candidates, k)
    room = max(ROOM, 4 * k)
    held, scores = np.empty(room, np.int64), np.empty(room, np.uint32)
    bins, counts = np.zeros(cpu.BINS, np.int64), np.zeros(2, np.int64)
    base = 0
    for lists, p, s, mask in zip(found, postings, segments, masks, strict=True):
        held, scores = cpu.scan(
            lists, p.starts, p.maxima, p.rows, p.values, strong.weights, unit,
            mask, s.rows, p.block, base, k, margin, most, (held, scores, bins, counts),
        )  # fmt: skip
        base += s.rows
    count = cpu.keep_above(counts[1], held, scores, counts[0])
    if 0 < most < count:
        return np.sort(held[np.argpartition(-scores[:count].astype(np.int64), most - 1)[:most]])
    return held[:count]


def rerank(segments: Sequence[Segment], positions: Ints, query: LexicalQuery) -> Floats:
    """Stage two: the exact score of each position, with every query weight."""
    from denslice.search import cpu

    scores = np.zeros(len(positions), dtype=np.float32)
    base = 0
    for s in segments:
        here = (positions >= base) & (positions < base + s.rows)
        if here.any():
            rows = positions[here] - base
            kept = s.kept
            scores[here] = cpu.rescore(rows, kept.starts, kept.keys, kept.weights, query.keys, query.weights)
        base += s.rows
    return scores


def rank(segments: Sequence[Segment], positions: Ints, scores: Floats, k: int) -> Found:
    """The k best of these, best first, equal scores by id."""
    if len(positions) > k:
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        positions, scores = positions[scores >= least], scores[scores >= least]
    order = np.argsort(-scores)
    positions, scores = positions[order], scores[order]
    ends = np.cumsum([s.rows for s in segments])
    at = np.searchsorted(ends, positions, side="right")
    rows = positions - (ends - [s.rows for s in segments])[at] if len(segments) else positions
    ids = _ids(segments, at, rows)
    order = _ties_by_id(scores, ids)[:k]
    return Found(at[order], rows[order], [ids[i] for i in order], scores[order])


def _unseen(segments: Sequence[Segment], query: LexicalQuery, strong: LexicalQuery) -> float:
    """The most that the weights left out of stage one can add to a score."""
    from denslice.search import cpu

    weak = ~np.isin(query.keys, strong.keys)
    largest = np.zeros(int(weak.sum()), dtype=np.float32)
    for s in segments:
        lists = cpu.find_lists(s.postings.block_starts, s.postings.keys, query.keys[weak])
        largest = np.maximum(largest, cpu.list_maxima(lists, s.postings.maxima))
    return float(query.weights[weak].astype(np.float64) @ largest)


def _ids(segments: Sequence[Segment], at: Ints, rows: Ints) -> list[str]:
    numbers = np.unique(at)
    ids = [""] * len(rows)
    for number in numbers:
        here = np.flatnonzero(at == number)
        for place, id in zip(here.tolist(), segments[number].ids(rows[here]), strict=True):
            ids[place] = id
    return ids


def _ties_by_id(scores: Floats, ids: list[str]) -> Ints:
    """The order of results already sorted by score, with each run of equal scores sorted by id."""
    order = np.arange(len(ids))
    tied = np.concatenate([[False], scores[1:] == scores[:-1], [False]])
    firsts = np.flatnonzero(~tied[:-1] & tied[1:])
    lasts = np.flatnonzero(tied[:-1] & ~tied[1:])
    for first, last in zip(firsts, lasts, strict=True):
        order[first : last + 1] = sorted(range(first, last + 1), key=ids.__getitem__)
    return order
