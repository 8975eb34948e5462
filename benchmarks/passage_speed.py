"""Times exact hybrid search over documents of several passages beside as many plain documents as there are passages.

    python benchmarks/passage_speed.py [--documents 100000] [--passages 6] [--queries 50]

Both indexes hold the same random passages, with words of Zipf-like frequencies and dense vectors of 384 numbers: one
as documents of their own, one as parts of documents. The ten best of some queries are compared with the definition
before anything is timed; then both indexes are searched in turn. Appends a line to results/passage_speed.jsonl.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import journal
from denslice import Doc, Index
from denslice.grouping import document_scores, documents_of
from denslice.index.doc_batches import DocBatch
from denslice.records import Place
from denslice.vectors import Encoded, lexical_csr

PACKAGES = ("numpy", "scipy", "numba", "llvmlite")
VOCAB, WORDS, DIMENSIONS, K = 30_000, 80, 384, 10
BATCH = 12_000  # passages
REPEATS = 5


def main() -> None:
    """Build both, verify, time, print and append the line."""
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="denslice-speed-") as folder:
        count = asked.documents * asked.passages
        indexes = {
            "plain": built(Path(folder, "plain.idx"), count, 1),
            "passages": built(Path(folder, "passages.idx"), count, asked.passages),
        }
        queries = [query(number) for number in range(asked.queries)]
        for one in queries[:3]:
            check(indexes, one, count, asked.passages)
        figures: dict[str, Any] = {name: {"bytes": index.info().bytes} for name, index in indexes.items()}
        for group in (True, False):
            for name, times in timed(indexes, queries, group).items():
                figures[name]["documents_ms" if group else "passages_ms"] = round(float(np.median(times)), 2)
    figures["ratio"] = round(figures["passages"]["documents_ms"] / figures["plain"]["documents_ms"], 3)
    print(figures)
    print(journal.append("passage_speed", PACKAGES, vars(asked) | {"k": K, "dimensions": DIMENSIONS}, figures))


def batches(count: int) -> Iterator[tuple[int, Encoded]]:
    """Yield the passages in batches, each with the number of its first."""
    for first in range(0, count, BATCH):
        random = np.random.default_rng(first)
        size = min(BATCH, count - first)
        dense = random.standard_normal((size, DIMENSIONS), dtype=np.float32)
        dense /= np.linalg.norm(dense, axis=1, keepdims=True)
        columns = (VOCAB * random.random((size, WORDS)) ** 3).astype(np.int32)
        weights = random.random((size, WORDS), dtype=np.float32)
        rows = np.repeat(np.arange(size), WORDS)
        yield (
            first,
            Encoded(lexical_csr(sp.csr_array((weights.ravel(), (rows, columns.ravel())), (size, VOCAB))), dense),
        )


def built(path: Path, count: int, passages: int) -> Index:
    """Return an index of documents with so many passages each."""
    places = [Place(100 * at, 100 * at + 100) for at in range(passages)]

    def given() -> Iterator[DocBatch]:
        for first, encoded in batches(count):
            docs = [Doc(f"{at:08d}") for at in range(first, first + encoded.weights.shape[0], passages)]
            yield docs, encoded if passages == 1 else documents_of(encoded, [places] * len(docs))

    index = Index.create(path, "vectors", vocab=VOCAB)
    index.write(lambda writer: writer.add_encoded(given()), 10.0, in_thread=False)
    return index


def query(number: int) -> tuple[sp.csr_array, Any]:
    """Return a query of ten words and a dense vector, whose scores are about as large as those of the words."""
    random = np.random.default_rng(10**9 + number)
    columns = np.unique((VOCAB * random.random(10) ** 3).astype(np.int32))
    weights = sp.csr_array(
        (random.random(len(columns), dtype=np.float32) * 2, ([0] * len(columns), columns)), (1, VOCAB)
    )
    vector = random.standard_normal(DIMENSIONS, dtype=np.float32)
    return lexical_csr(weights), 10 * vector / np.linalg.norm(vector)


def check(indexes: dict[str, Index], asked: tuple[sp.csr_array, Any], count: int, passages: int) -> None:
    """Stop unless both indexes return the best scores of the definition."""
    weights, vector = asked
    plain, grouped = [], []
    for _, encoded in batches(count):
        dense = encoded.dense.astype(np.float16).astype(np.float32) @ vector  # type: ignore[union-attr]
        plain.append((encoded.lexical @ weights.T).toarray().ravel() + dense)
        starts = np.arange(0, len(dense) + 1, passages)
        lexical = documents_of(encoded, [[Place(0, 1)] * passages] * (len(starts) - 1)).lexical @ weights.T
        shares = np.full(len(dense), 1 / passages, np.float32)
        grouped.append(lexical.toarray().ravel() + document_scores(dense, starts, shares))
    for name, scores in (("plain", np.concatenate(plain)), ("passages", np.concatenate(grouped))):
        found = indexes[name].search_vectors(weights, dense=vector, k=K)
        if not np.allclose(found.scores, np.sort(scores)[::-1][:K], rtol=2e-3):
            raise SystemExit(f"{name}: search differs from the definition; nothing is timed")


def timed(indexes: dict[str, Index], queries: list[tuple[sp.csr_array, Any]], group: bool) -> dict[str, list[float]]:
    """Return the fastest of some searches of each query, in milliseconds, both indexes in turn."""
    times: dict[str, list[float]] = {name: [] for name in indexes}
    for weights, vector in queries:
        for name, index in indexes.items():
            took = []
            for _ in range(REPEATS):
                began = time.perf_counter()
                index.search_vectors(weights, dense=vector, k=K, group=group)
                took.append(1000 * (time.perf_counter() - began))
            times[name].append(min(took))  # a busy machine hides the rest
    return times


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--passages", type=int, default=6)
    parser.add_argument("--queries", type=int, default=50)
    return parser.parse_args()


if __name__ == "__main__":
    main()
