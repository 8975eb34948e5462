"""Builds or times one contender, in a process of its own. hybrid_contenders.py and word_contenders.py start it.

    python benchmarks/contender_process.py build|time NAME VECTORS FOLDER

Prints a line of JSON. Recall is measured before anything is timed. Settings are chosen on other queries than the timed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from contenders.contender import Contender, Setting
from contenders.vectors_folder import Queries, VectorsFolder

KS = (10, 100)
GOOD = 0.99  # recall@10 from which a setting can be chosen
REPEATS = 3  # of the timed queries
CHOOSING = 100  # queries by which settings are chosen, at most
NAMES: dict[str, Callable[[], Contender]] = {
    "denslice": lambda: _made("denslice_index", "DensliceIndex", "hybrid"),
    "denslice, dense": lambda: _made("denslice_index", "DensliceIndex", "dense"),
    "denslice, words": lambda: _made("denslice_index", "DensliceIndex", "words"),
    "LanceDB": lambda: _made("lancedb_table", "LancedbTable"),
    "bm25s + Faiss HNSW": lambda: _made("bm25s_faiss", "Bm25sFaiss"),
    "Faiss HNSW": lambda: _made("faiss_hnsw", "FaissHnsw"),
    "SINDI": lambda: _made("sindi", "Sindi"),
    "Seismic": lambda: _made("seismic_raw", "SeismicRaw"),
    "kANNolo": lambda: _made("kannolo_hnsw", "KannoloHnsw"),
    "impact-index": lambda: _made("impact_blocks", "ImpactLists"),
    "impact-index, BMP": lambda: _made("impact_blocks", "ImpactBlocks"),
}


def main() -> None:
    """Do what the command line says."""
    step, name, vectors, folder = sys.argv[1:]
    done = {"build": built, "time": timed}[step](NAMES[name](), VectorsFolder(Path(vectors)), Path(folder))
    print(json.dumps(done))


def built(contender: Contender, vectors: VectorsFolder, folder: Path) -> dict[str, Any]:
    """Return the seconds of building, after the vectors are read, and the bytes of all files."""
    _ = vectors.docs, vectors.dense
    began = time.perf_counter()
    contender.build(vectors, folder)
    seconds = time.perf_counter() - began
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"build_seconds": round(seconds, 1), "bytes": size}


def timed(contender: Contender, vectors: VectorsFolder, folder: Path) -> dict[str, Any]:
    """Return the recall and milliseconds of the reported settings for each k, on one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    contender.open(vectors, folder)
    chosen, queries, rows = vectors.queries("chosen"), vectors.queries("timed"), []
    for k in KS:
        settings = contender.settings(k)
        if not contender.every:
            settings = [best(contender, chosen, k, settings)]
        rows += [measured(contender, queries, k, setting, REPEATS) for setting in settings]
    return {"settings": rows, "versions": {name: version(name) for name in contender.packages}}


def best(contender: Contender, queries: Queries, k: int, settings: Sequence[Setting]) -> Setting:
    """Return the fastest setting with a good recall@10, or the one with the highest."""
    tried = [measured(contender, queries, k, setting, 1, CHOOSING) for setting in settings]
    good = [one for one in tried if one["recall@10"] >= GOOD]
    one = min(good, key=lambda one: one["p50_ms"]) if good else max(tried, key=lambda one: one["recall@10"])
    setting: Setting = one["setting"]
    return setting


def measured(
    contender: Contender, queries: Queries, k: int, setting: Setting, repeats: int, most: int | None = None
) -> dict[str, Any]:
    """Return recall and times of a setting over some queries; the searches that recall needs also warm up."""
    asked = [contender.query(*queries.row(at), queries.dense[at]) for at in range(len(queries.dense))[:most]]
    found = [np.asarray(contender.found(contender.search(one, k, setting))) for one in asked]
    took = np.array([[_milliseconds(contender, one, k, setting) for one in asked] for _ in range(repeats)])
    exact = queries.best[contender.kind][:most]
    return {
        "k": k,
        "setting": dict(setting),
        "recall@10": recall(found, exact, 10),
        f"recall@{k}": recall(found, exact, k),
        "p50_ms": round(float(np.median(took)), 3),
        "p95_ms": round(float(np.quantile(took, 0.95)), 3),
    }


def recall(found: Sequence[Any], exact: Any, depth: int) -> float:
    """Return the mean share of the best documents among the first that were found."""
    shares = [np.isin(truth[:depth], some[:depth]).mean() for some, truth in zip(found, exact, strict=True)]
    return round(float(np.mean(shares)), 4)


def _milliseconds(contender: Contender, query: Any, k: int, setting: Setting) -> float:
    began = time.perf_counter()
    contender.search(query, k, setting)
    return 1e3 * (time.perf_counter() - began)


def _made(module: str, name: str, *given: str) -> Contender:
    contender: Contender = getattr(import_module(f"contenders.{module}"), name)(*given)
    return contender


if __name__ == "__main__":
    main()
