"""Deepening: which documents of the quick level are encoded fully first, and with how much of a processor's time.

Those that searches return most often come first, then the newest. Encoding them gives way to other work.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Lock
from typing import Any

import numpy as np

from denslice.cores import cores
from denslice.encoders import DocEncoder
from denslice.store.manifest import QUICK
from denslice.store.segment import Segment
from denslice.vectors import Encoded, Ints

MOST_COUNTED = 10_000  # documents; when twice as many are counted, the rarer half is forgotten
NICENESS = 10  # of threads that encode, on Linux: beside it, a thread of the usual priority has nine tenths of a core
TEXTS_A_CORE = 16  # that are encoded at once: an interrupt waits for them


class Stopped(Exception):  # noqa: N818 (no error: deepening is given up)
    """Deepening was told to stop. What it has committed stays."""


class FoundCounts:
    """How often searches have returned documents of the quick level. Any number of threads may count."""

    def __init__(self) -> None:
        self._counts = Counter[str]()
        self._lock = Lock()

    def add(self, ids: Iterable[str]) -> None:
        """Count documents that a search has returned."""
        with self._lock:
            self._counts.update(ids)
            if len(self._counts) > 2 * MOST_COUNTED:
                self._counts = Counter(dict(self._counts.most_common(MOST_COUNTED)))

    def often(self, most: int) -> list[str]:
        """Return the ids that were counted most, the most frequent first."""
        with self._lock:
            return [id for id, _ in self._counts.most_common(most)]

    def forget(self, ids: Iterable[str]) -> None:
        """Count documents no longer, because they are deep, or gone."""
        with self._lock:
            for id in ids:
                self._counts.pop(id, None)


class Pace:
    """Keeps the thread that deepens to a share of one core's time, above 0 and at most 1, until `stop` is set."""

    def __init__(self, share: float, stop: Event) -> None:
        self._share, self._stop = share, stop
        self._rested: float | None = None  # the CPU seconds of the thread when it last rested

    def rest(self) -> None:
        """Rest for as long as the work since the last rest requires; raise Stopped if it is to stop."""
        worked = 0.0 if self._rested is None else time.thread_time() - self._rested
        if self._stop.wait(worked * (1 / self._share - 1)):
            raise Stopped
        self._rested = time.thread_time()


class PacedEncoder:
    """An encoder that reads one text at a time, in the thread that calls it, and rests after each."""

    batch_docs = 1

    def __init__(self, encoder: DocEncoder, pace: Pace) -> None:
        self._encoder, self._pace, self.reads = encoder, pace, encoder.reads

    def encode_docs(self, items: Sequence[Any]) -> Encoded:
        """Return what the encoder returns."""
        encoded = self._encoder.encode_docs(items)
        self._pace.rest()
        return encoded

    def text_lengths(self, texts: Sequence[str]) -> Ints | None:
        """Return what the encoder returns."""
        return self._encoder.text_lengths(texts)


class LowPriorityEncoder:
    """An encoder that reads texts in a thread of a pool, and in those that the thread starts."""

    def __init__(self, encoder: DocEncoder, pool: ThreadPoolExecutor) -> None:
        self._encoder, self._pool, self.reads = encoder, pool, encoder.reads
        self.batch_docs = min(encoder.batch_docs, TEXTS_A_CORE * cores())

    def encode_docs(self, items: Sequence[Any]) -> Encoded:
        """Return what the encoder returns."""
        return self._pool.submit(self._encoder.encode_docs, items).result()

    def text_lengths(self, texts: Sequence[str]) -> Ints | None:
        """Return what the encoder returns."""
        return self._encoder.text_lengths(texts)


@contextmanager
def giving_way(encoder: DocEncoder, pace: Pace | None) -> Iterator[DocEncoder]:
    """Yield an encoder that gives way to other work: one thread that rests, or all cores at low priority.

    Only what encodes has a low priority: a commit holds the write lock, and others wait for it.
    """
    if pace is not None:
        yield PacedEncoder(encoder, pace)
        return
    with ThreadPoolExecutor(1, "denslice-deepen", _lower_priority) as pool:
        yield LowPriorityEncoder(encoder, pool)


def _lower_priority() -> None:
    """Lower the priority of this thread, and of those that it starts: elsewhere than on Linux it is the process's."""
    if sys.platform == "linux":
        os.nice(NICENESS)


def rows_to_deepen(segments: Sequence[Segment], count: int, often: Sequence[str]) -> list[tuple[Segment, Ints]]:
    """Return at most `count` rows of the quick level: of the ids found often, in their order, then the newest."""
    quick = [segment for segment in reversed(segments) if segment.entry.level == QUICK]
    places = {id: (at, row) for at, one in enumerate(quick) for id, row in one.live_rows(often).items()}
    chosen = [places[id] for id in often if id in places][:count]
    left, found = count - len(chosen), list[tuple[Segment, Ints]]()
    for number, segment in enumerate(quick):
        first = np.array([row for at, row in chosen if at == number], dtype=np.int64)
        others = np.setdiff1d(segment.live_row_numbers(), first)
        newest = others[max(0, len(others) - left) :]
        left -= len(newest)
        found.append((segment, np.union1d(first, newest)))
    return [(segment, rows) for segment, rows in found if len(rows)]


def not_quick(segments: Sequence[Segment], ids: Sequence[str]) -> set[str]:
    """Return the ids that no document of the quick level has."""
    there = {id for one in segments if one.entry.level == QUICK for id in one.live_rows(ids)}
    return set(ids) - there
