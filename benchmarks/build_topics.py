"""Builds an index of a topic collection as ready vectors, a segment at a time, and tells what that takes.

    python benchmarks/build_topics.py INDEX [--documents 1000000]

Document i of the collection has the id i. Appends a line to results/build_topics.jsonl.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Event, Thread

import numpy as np

import journal
from denslice import Index
from denslice.store.tiers import SEGMENT_DOCS
from denslice.vectors import csr, stacked
from topic_collection import BATCH, SEED, VOCABULARY, Drawn, TopicCollection

PACKAGES = ("numpy", "scipy", "numba")
EVERY = 0.1  # seconds between two looks at the memory


class PeakMemory:
    """The largest anonymous memory of this process while it is entered, in bytes; mapped files do not count."""

    def __init__(self) -> None:
        self.bytes = 0
        self._stop = Event()
        self._thread = Thread(target=self._look, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(EVERY):
            self.bytes = max(self.bytes, anonymous_bytes())


def anonymous_bytes() -> int:
    """Return the anonymous memory of this process, from Linux."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


def main() -> None:
    """Build, print and append the line."""
    given = _arguments()
    collection = TopicCollection(given.seed)
    drawing, writing = 0.0, 0.0
    with PeakMemory() as peak, Index.create(given.index, "vectors", vocab=VOCABULARY) as index:
        began = time.perf_counter()
        for first, drawn in segments(collection, given.documents):
            drew = time.perf_counter()
            add(index, first, drawn)
            drawing, writing, began = drawing + drew - began, writing + time.perf_counter() - drew, time.perf_counter()
            print(f"{index.info().documents:,} documents: {drawing:.0f} s drawn, {writing:.0f} s added", flush=True)
        info = index.info()
    figures = {
        "seconds": round(writing, 1),
        "drawing_seconds": round(drawing, 1),
        "bytes": info.bytes,
        "segments": info.segments,
        "weights": info.weights,
        "peak_anonymous_bytes": peak.bytes,
    }
    print(figures)
    print(journal.append("build_topics", PACKAGES, {"documents": given.documents, "seed": given.seed}, figures))


def segments(collection: TopicCollection, documents: int) -> Iterator[tuple[int, list[Drawn]]]:
    """Yield the number of the first document and the batches of each segment."""
    batches = collection.batches(documents)
    for first in range(0, documents, SEGMENT_DOCS):
        yield first, list(islice(batches, SEGMENT_DOCS // BATCH))


def add(index: Index, first: int, drawn: list[Drawn]) -> None:
    """Add the documents from number `first` in one commit."""
    weights = stacked([csr(one.weights[:3], one.weights.shape) for one in drawn])
    dense = np.concatenate([one.dense for one in drawn])
    index.add_vectors([str(first + row) for row in range(len(dense))], weights, dense=dense)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path, help="a folder that does not exist yet")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=SEED)
    return parser.parse_args()


if __name__ == "__main__":
    main()
