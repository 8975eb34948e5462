"""Times searches that do not read every vector beside those that do, and counts what they miss.

    python benchmarks/large_collections.py INDEX QUERIES.jsonl … [--queries 400] [--prunings 0 0.2 0.3 0.4]

One thread, from query vectors to ids. Queries are drawn evenly from the files. Nothing is timed unless every document
that was found has the score that exact search gives it. Appends a line to results/large_collections.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

os.environ["DENSLICE_THREADS"] = "1"

import numpy as np

import journal
from denslice import Query, open_index
from denslice.index.reader import Reader
from denslice.options import SearchOptions
from denslice.search.query import NO_MASK, Found, QueryVectors

PACKAGES = ("numpy", "numba")
KS = (10, 100)
MODES = ("hybrid", "dense")
ROUNDING = 1e-4  # of a score, relative
Answers = list[Found]


def main() -> None:
    """Check, time, print and append the line."""
    given = _arguments()
    queries = drawn(given.files, given.queries)
    with open_index(given.index) as index:
        reader, info = index.reader, index.info()
        encoded = reader.encode([Query("", text) for text in queries])
        figures = {
            mode: measured(reader, reader.query_vectors(encoded, SearchOptions(mode=mode)), given.prunings)
            for mode in MODES
        }
    about = {
        "documents": info.documents,
        "passages": info.passages,
        "segments": info.segments,
        "gb": round(info.bytes / 1e9, 2),
    }
    for mode, rows in figures.items():
        for row in rows:
            print(mode, row)
    configuration = {"queries": len(queries), "prunings": given.prunings, "threads": 1, **about}
    print(journal.append("large_collections", PACKAGES, configuration, figures))


def drawn(files: Sequence[Path], count: int) -> list[str]:
    """Return texts of queries, as many of each file."""
    texts = []
    for path in files:
        read = [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]
        texts += Random(1).sample(read, min(len(read), count // len(files)))
    return texts


def measured(reader: Reader, queries: Sequence[QueryVectors], prunings: Sequence[float]) -> list[dict[str, Any]]:
    """Return recall and milliseconds for each k and pruning."""
    rows = []
    for k in KS:
        exact, _ = answered(reader, queries, SearchOptions(k=k, pruning=0.0))
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
    masks = [NO_MASK if segment.live is None else segment.live for segment in reader.snapshot.segments]
    found, seconds = [], []
    for query in queries:
        began = time.perf_counter()
        found += reader.searcher.search([query], options, masks)
        seconds.append(time.perf_counter() - began)
    return found, seconds


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
        len(set(truth.ids[:k]) & set(ours.ids)) / max(1, len(truth.ids[:k]))
        for truth, ours in zip(exact, found, strict=True)
    ]
    return round(float(np.mean(shares)), 4)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("files", type=Path, nargs="+", metavar="QUERIES.jsonl")
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--prunings", type=float, nargs="+", default=[0.0, 0.2, 0.3, 0.4])
    return parser.parse_args()


if __name__ == "__main__":
    main()
