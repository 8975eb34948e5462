"""Times one contender in a process of its own: recall first, then each setting, then the reported ones again."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from denslice.bench.bench_data import DEPTH, BenchTexts, Best, Collection, recall
from denslice.bench.bench_table import is_good
from denslice.bench.contender import Contender, Opened, Setting
from denslice.bench.peers.faiss_peer import best_by_dense_product
from denslice.provenance import milliseconds

KS = (10, 100, 1000)
SECONDS = 8.0  # that timing one setting may take, roughly: slow contenders are timed on fewer queries


def timed(contender: Contender, collection: Collection, folder: Path, best: Best, repeats: int) -> dict[str, Any]:
    """Return recall and times of every setting on one thread; one setting for each k is reported, with more repeats."""
    quiet = _probe()
    _ = collection.questions if isinstance(collection, BenchTexts) else collection.queries  # read before it is timed
    before = _resident()
    opened = contender.open(collection, folder)
    exact = best_by_dense_product(folder, DEPTH) if contender.dense else best
    settings = []
    for k in KS:
        tried = [_tried(opened, k, setting, exact) for setting in contender.settings(k)]
        chosen = reportable(tried)
        chosen |= _times(opened, k, chosen["setting"], chosen["queries"], repeats) | {"reported": True}
        settings += tried
    return {"settings": settings, "resident_bytes": max(0, _resident() - before), "probe_ms": [quiet, _probe()]}


def reportable(tried: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the fastest setting whose recall is good enough to be compared, else the one with the highest recall."""
    good = [one for one in tried if is_good(one)]
    return min(good, key=lambda one: one["p50_ms"]) if good else max(tried, key=lambda one: one["recall@10"])


def throughput(
    contender: Contender, collection: Collection, folder: Path, reported: Sequence[tuple[int, Setting]], repeats: int
) -> list[dict[str, Any]]:
    """Return queries a second on all cores, with the reported settings."""
    opened = contender.open(collection, folder)
    figures = []
    for k, setting in reported:
        took: list[float] = []
        began = time.perf_counter()
        while len(took) < 1 + repeats and (len(took) < 2 or time.perf_counter() - began < SECONDS):
            start = time.perf_counter()
            answered = opened.search_all(k, setting)
            took.append(time.perf_counter() - start)
        figures.append({"k": k, "queries_a_second": round(answered / float(np.median(took[1:])), 1)})
    return figures


def _tried(opened: Opened, k: int, setting: Setting, exact: Best) -> dict[str, Any]:
    """Return a setting's recall and its times over every query, or over fewer if that would take too long."""
    warm = _times(opened, k, setting, min(3, len(exact)), 3)
    queries = max(5, min(len(exact), int(1000 * SECONDS / max(1e-3, warm["p50_of_fastest_ms"]) / 4)))
    found = [opened.docs(opened.search(opened.query(at), k, setting)) for at in range(queries)]
    recalls = {f"recall@{depth}": round(recall(found, exact, depth), 4) for depth in (10, k)}
    return {"k": k, "setting": dict(setting), "queries": queries} | recalls | _times(opened, k, setting, queries, 1)


def _times(opened: Opened, k: int, setting: Setting, queries: int, repeats: int) -> dict[str, Any]:
    """Return milliseconds of single searches over the queries and repeats."""
    asked = [opened.query(at) for at in range(queries)]
    took = np.array([[milliseconds(opened.search, one, k, setting) for one in asked] for _ in range(repeats)])
    fastest = np.median(took.min(axis=0))  # of each query's fastest repeat, which a busy machine affects least
    figures = {"p50_ms": np.median(took), "p95_ms": np.percentile(took, 95), "p50_of_fastest_ms": fastest}
    return {"repeats": repeats} | {name: round(float(figure), 4) for name, figure in figures.items()}


def _probe() -> float:
    """Return the median milliseconds of a fixed piece of work, which tells how busy the machine was."""
    numbers = np.random.default_rng(0).random(50_000)
    return round(float(np.median([milliseconds(np.sort, numbers) for _ in range(100)])), 3)


def _resident() -> int:
    """Return the resident bytes of this process, mapped files included; 0 if the system does not say."""
    pages = Path("/proc/self/statm")
    return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0
