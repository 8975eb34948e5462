"""Runs contenders one after another, each in processes of its own, prints a table, and appends a line of results."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import contender_data
import journal
from contenders.vectors_folder import VectorsFolder
from denslice.reproduce.table_page import markdown
from topic_collection import SEED

PROCESS = journal.ROOT / "benchmarks" / "contender_process.py"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "NUMBA_NUM_THREADS",
           "LANCE_CPU_THREADS", "TOKIO_WORKER_THREADS", "DENSLICE_THREADS")  # fmt: skip
QUIET = {"LANCEDB_LOG": "error"}  # LanceDB would write warnings in every search
OURS = "denslice"  # contenders whose names begin so run in this Python


def arguments(about: str | None, names: Sequence[str]) -> argparse.Namespace:
    """Return the options of a script that runs these contenders."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="folder for vectors and for what contenders build")
    parser.add_argument("--python", type=Path, required=True, help="Python in which the other contenders are installed")
    parser.add_argument("--documents", type=int, default=62_413, help="of the topic collection")
    parser.add_argument("--seed", type=int, default=SEED, help="of the topic collection")
    parser.add_argument("--index", type=Path, help="an index whose vectors are taken instead")
    parser.add_argument("--asked", type=Path, metavar="QUERIES.jsonl", help="queries for --index")
    parser.add_argument("--queries", type=int, default=400, help="half of them are timed")
    parser.add_argument("--names", nargs="+", choices=names, default=list(names))
    parser.add_argument("--build-threads", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="build again what is there")
    parser.add_argument("--append", action="store_true", help="append a line to the results")
    given = parser.parse_args()
    if (given.index is None) != (given.asked is None):
        parser.error("--index and --asked need each other")
    return given


def run(given: argparse.Namespace, results: str) -> None:
    """Build and time the contenders, print the table, and append the line if it is asked for."""
    vectors = _vectors(given)
    figures = {}
    for name in given.names:
        figures[name] = _contender(given, name, vectors)
        print(name, json.dumps(figures[name]), flush=True)
    print(table(figures))
    if given.append:
        settings = {"build_threads": given.build_threads, "threads": 1, **vectors.about}
        print(journal.append(results, ("numpy", "numba"), settings, figures))


def table(figures: dict[str, Any]) -> str:
    """Return a row for each reported setting."""
    rows = []
    for name, one in figures.items():
        build = [f"{one['build_seconds']:,.1f}", f"{one['bytes'] / 1e6:,.0f}"]
        for row in one["settings"]:
            setting = ", ".join(f"{key} {value}" for key, value in row["setting"].items())
            recalls = [f"{row['recall@10']:.4f}", f"{row['recall@{}'.format(row['k'])]:.4f}"]
            times = [f"{row['p50_ms']:.2f}", f"{row['p95_ms']:.2f}"]
            rows.append([name, str(row["k"]), setting, *recalls, *times, *build])
    head = ["contender", "k", "setting", "recall@10", "recall@k", "p50 ms", "p95 ms", "build s", "MB"]
    return markdown(head, rows)


def _vectors(given: argparse.Namespace) -> VectorsFolder:
    folder = given.work / "vectors"
    if given.index:
        return contender_data.of_index(folder, given.index, given.asked, given.queries)
    return contender_data.of_topics(folder, given.documents, given.queries, given.seed)


def _contender(given: argparse.Namespace, name: str, vectors: VectorsFolder) -> dict[str, Any]:
    """Return the figures of building, which are kept beside what was built, and of searching."""
    python = Path(sys.executable) if name.startswith(OURS) else given.python
    folder = given.work / name.replace(" ", "_").replace(",", "")
    kept = folder.with_suffix(".json")
    if given.again or not kept.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        done = _process(python, "build", name, vectors.path, folder, given.build_threads)
        kept.write_text(json.dumps(done | {"build_threads": given.build_threads}), encoding="utf-8")
    built: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
    if built["build_threads"] != given.build_threads:
        raise SystemExit(f"{folder}: was built with {built['build_threads']} threads; give --again")
    return built | _process(python, "time", name, vectors.path, folder, 1)


def _process(python: Path, step: str, name: str, vectors: Path, folder: Path, threads: int) -> dict[str, Any]:
    """Return what the last line of the process says."""
    environment = os.environ | dict.fromkeys(THREADS, str(threads)) | QUIET | {"PYTHONPATH": str(journal.ROOT / "src")}
    command = [str(python), str(PROCESS), step, name, str(vectors), str(folder)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name}: {step} ended with status {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
