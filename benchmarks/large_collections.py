"""Times searches that leave out vectors beside exact ones, and counts what they miss.

    python benchmarks/large_collections.py INDEX QUERIES.jsonl … [--queries 400] [--prunings 0 0.2 0.3 0.4]
    python benchmarks/large_collections.py INDEX --topics [--changed]

One thread, from query vectors to ids. Queries are drawn evenly from the files; --topics asks about an index that
build_topics.py made. With --changed, a copy of it is searched: 20 % of its documents were deleted, and as many added in
one commit. Nothing is timed unless exact search finds what scoring every document in numpy finds, and every document
that was found has the score that exact search gives it. Appends a line to results/large_collections.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

os.environ["DENSLICE_THREADS"] = "1"

import numpy as np

import build_topics
import journal
from denslice import Index, Query, open_index
from denslice.index.reader import Reader
from denslice.options import SearchOptions
from denslice.search.cpu.addresses import Parts
from denslice.search.cpu.two_stage import search_plainly
from denslice.search.query import NO_MASK, Found, Mask, QueryVectors
from denslice.vectors import csr
from topic_collection import BATCH, DENSE_WEIGHT, TopicCollection

PACKAGES = ("numpy", "numba")
KS = {"lexical": (10, 1_000), "hybrid": (10, 100), "dense": (10, 100)}
ROUNDING = 1e-4  # of a score, relative
CHANGED = 0.2  # the share of documents that are deleted, and of those that are added
SEED = 2  # of the queries about topics; those of seed 1 chose the settings
Answers = list[Found]


def main() -> None:
    """Check, time, print and append the line."""
    given = _arguments()
    with TemporaryDirectory(dir=given.index.parent) as folder:
        path = changed(given.index, Path(folder, "changed.idx")) if given.changed else given.index
        with open_index(path) as index:
            info = index.info()
            asked = of_topics(index, given.queries) if given.topics else of_files(index, given.files, given.queries)
            how = given.prunings, given.verified
            figures = {mode: measured(index.reader, asked[mode], KS[mode], *how) for mode in given.modes}
    about = {
        "documents": info.documents,
        "passages": info.passages,
        "segments": info.segments,
        "gb": round(info.bytes / 1e9, 2),
    }
    for mode, rows in figures.items():
        for row in rows:
            print(mode, row)
    source = "topics" if given.topics else "texts"
    configuration = {"source": source, "changed": given.changed, "queries": given.queries, "threads": 1, **about}
    print(journal.append("large_collections", PACKAGES, configuration, figures))


def of_files(index: Index, files: Sequence[Path], count: int) -> dict[str, list[QueryVectors]]:
    """Return the vectors of questions in each mode."""
    encoded = index.reader.encode([Query("", text) for text in drawn(files, count)])
    return {mode: index.reader.query_vectors(encoded, SearchOptions(mode=mode)) for mode in KS}


def of_topics(index: Index, count: int) -> dict[str, list[QueryVectors]]:
    """Return the vectors of questions about the documents of a topic collection in each mode."""
    asked = TopicCollection().queries(count, len(index), SEED)
    words, dense = csr(asked.weights[:3], asked.weights.shape), asked.dense.astype(np.float32)
    none = np.zeros(0, np.int64), np.zeros(0, np.float32)
    found: dict[str, list[QueryVectors]] = {mode: [] for mode in KS}
    for row in range(count):
        span = slice(words.indptr[row], words.indptr[row + 1])
        by_words = words.indices[span].astype(np.int64), words.data[span].astype(np.float32)
        found["lexical"].append(QueryVectors(*by_words))
        found["hybrid"].append(QueryVectors(*by_words, np.float32(DENSE_WEIGHT) * dense[row]))
        found["dense"].append(QueryVectors(*none, dense[row]))
    return found


def changed(path: Path, to: Path) -> Path:
    """Return a copy of an index of topics, with documents deleted here and there and new ones in one commit."""
    shutil.copytree(path, to)
    with open_index(to) as index:
        documents = len(index)
        index.delete([str(number) for number in range(0, documents, round(1 / CHANGED))])
        first = -(-documents // BATCH) * BATCH
        batches = range(first // BATCH, first // BATCH + round(CHANGED * documents) // BATCH)
        build_topics.add(index, first, [TopicCollection().batch(number) for number in batches])
    return to


def drawn(files: Sequence[Path], count: int) -> list[str]:
    """Return texts of queries, as many of each file."""
    texts = []
    for path in files:
        read = [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]
        texts += Random(1).sample(read, min(len(read), count // len(files)))
    return texts


def measured(
    reader: Reader, queries: Sequence[QueryVectors], ks: Sequence[int], prunings: Sequence[float], verified: int
) -> list[dict[str, Any]]:
    """Return recall and milliseconds for each k and pruning."""
    rows = []
    for k in ks:
        exact, _ = answered(reader, queries, SearchOptions(k=k, pruning=0.0))
        verify(reader, queries[:verified], exact)
        for pruning in prunings:
            answered(reader, queries[:20], SearchOptions(k=k, pruning=pruning))  # loops are compiled, files cached
            found, seconds = answered(reader, queries, SearchOptions(k=k, pruning=pruning))
            check(exact, found)
            row = {
                "k": k,
                "pruning": pruning,
                "recall@10": recall(exact, found, 10),
                f"recall@{k}": recall(exact, found, k),
            }
            rows.append(
                row | {f"p{share}_ms": round(1e3 * float(np.quantile(seconds, share / 100)), 3) for share in (50, 95)}
            )
    return rows


def answered(reader: Reader, queries: Sequence[QueryVectors], options: SearchOptions) -> tuple[Answers, list[float]]:
    """Return what each query finds, and how long it takes."""
    masks, found, seconds = live(reader), [], []
    for query in queries:
        began = time.perf_counter()
        found += reader.searcher.search([query], options, masks)
        seconds.append(time.perf_counter() - began)
    return found, seconds


def live(reader: Reader) -> list[Mask]:
    """Return the mask of each segment's documents that are not deleted."""
    return [NO_MASK if segment.live is None else segment.live for segment in reader.snapshot.segments]


def verify(reader: Reader, queries: Sequence[QueryVectors], exact: Answers) -> None:
    """Raise SystemExit if exact search does not find what scoring every document finds."""
    for query, found in zip(queries, exact, strict=False):
        options = SearchOptions(k=len(found.ids))
        plain = search_plainly(Parts(reader.snapshot.segments), query, options, live(reader))
        if not np.allclose(plain.scores, found.scores, rtol=ROUNDING, atol=0):
            raise SystemExit("exact search does not find the best documents: nothing is timed")


def check(exact: Answers, found: Answers) -> None:
    """Raise SystemExit if a document has another score than exact search gives it."""
    for truth, ours in zip(exact, found, strict=True):
        scores = dict(zip(truth.ids, truth.scores.tolist(), strict=True))
        for id, score in zip(ours.ids, ours.scores.tolist(), strict=True):
            if abs(score - scores.get(id, score)) > ROUNDING * abs(score):
                raise SystemExit(f"{id} has the score {score}, and {scores[id]} in exact search: nothing is timed")


def recall(exact: Answers, found: Answers, k: int) -> float:
    """Return which share of the k best is found."""
    shares = [
        len(set(truth.ids[:k]) & set(ours.ids)) / len(truth.ids[:k])
        for truth, ours in zip(exact, found, strict=True)
        if truth.ids  # a query may have no word that the collection has
    ]
    return round(float(np.mean(shares)), 4)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("files", type=Path, nargs="*", metavar="QUERIES.jsonl")
    parser.add_argument("--topics", action="store_true")
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--modes", nargs="+", choices=list(KS), default=list(KS))
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--verified", type=int, default=5, help="queries whose documents are all scored in numpy")
    parser.add_argument("--prunings", type=float, nargs="+", default=[0.0, 0.2, 0.3, 0.4])
    given = parser.parse_args()
    if given.topics == bool(given.files) or (given.changed and not given.topics):
        parser.error("give files of queries, or --topics, and --changed only with it")
    return given


if __name__ == "__main__":
    main()
