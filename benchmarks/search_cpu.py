"""Search on the CPU: building an index of ready vectors, then single queries on one thread and runs on all cores.

Takes the folder that tools/splade_like.py writes (docs.npz, queries.npz). Builds in a process of its own, checks a
sample of queries against the definition (densify, gip), and only then times, at θ = 0. Appends a line to
benchmarks/results/search_cpu.jsonl.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

import journal
from denslice import Index, Query, Ranking, Slices, Slicing, densify, gip
from denslice.build import SAMPLE
from denslice.gip import gip_full

PACKAGES = ("numpy", "scipy", "numba", "llvmlite")
CLOSE = 1e-3  # how far a score may lie from the definition's
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("NUMBA", "OMP", "OPENBLAS", "MKL")}
KS = (10, 100, 1000)
ROWS = 20_000  # documents densified at a time by the definition
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Configuration:
    """What is built and asked; the names are the options' names."""

    vectors: str
    slicing: str
    slices: int
    query: str
    repeats: int
    checked: int


def main() -> None:
    """Builds, verifies, times, prints and appends the JSON line."""
    configuration = _arguments()
    if not ONE_THREAD.items() <= os.environ.items():  # libraries read these as they load: start over with them set
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    folder = Path(configuration.vectors)
    with tempfile.TemporaryDirectory() as work:
        path = Path(work, "vectors.idx")
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            built = pool.submit(build, folder, path, configuration).result()
        index = Index.open(path)
        queries = _load(folder / "queries.npz")
        checked = verify(index, _load(folder / "docs.npz"), queries[: configuration.checked], configuration)
        timed = [time_one(index, queries, k, configuration) for k in KS]
        figures = {
            "documents": len(index),
            "weights_a_document": round(index.info()["weights"] / len(index), 1),
            "bytes_a_document": round(index.info()["bytes"] / len(index), 1),
            "build": built,
            "verify": checked,
            "one_thread": timed,
            "all_cores": time_all(index, queries, configuration),
        }
    place = journal.append("search_cpu", PACKAGES, asdict(configuration) | {"theta": 0.0}, figures)
    print(f"{table(figures)}\n\nFrom {place}, commit {journal.commit()}.")


# --- building


def build(folder: Path, path: Path, configuration: Configuration) -> dict[str, float]:
    """Builds the index; seconds to read the vectors, seconds to build, and the process's peak memory."""
    start = time.perf_counter()
    docs = _load(folder / "docs.npz")
    ids = [str(row) for row in range(docs.shape[0])]
    read = time.perf_counter()
    kind: dict[str, Any] = {"slicing": configuration.slicing, "slices": configuration.slices}
    index = Index.create(path, "vectors", vocab=docs.shape[1], query=configuration.query, **kind)
    index.add_vectors(ids, docs)
    seconds = {"read_s": round(read - start, 2), "build_s": round(time.perf_counter() - read, 2)}
    return seconds | {"peak_gb": round(_peak_bytes() / 1e9, 3)}


def _peak_bytes() -> int:
    """The most memory this process held. The kernel's own count, as ru_maxrss starts from the parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# --- verifying


def verify(
    index: Index, docs: sp.csr_array, queries: sp.csr_array, configuration: Configuration
) -> dict[str, float | int]:
    """The largest errors of the best 1000 against the definition; stops the benchmark where one is too large.

    Against stored weights (float16) scores must be equal to CLOSE and so must the best 1000, and the best 100 may
    differ only in documents whose scores are as close as that. Against float32 weights errors are reported.
    """
    slicing = Slicing.made(configuration.slicing, docs[:SAMPLE], configuration.slices)
    stored, exact = defined_scores(docs, queries, slicing, configuration.query)
    errors, exact_errors, relative, same = [], [], [], []
    for row in range(queries.shape[0]):
        found = index.search_vectors(queries[row : row + 1], k=KS[-1])
        at, scores = np.array(found.ids, dtype=np.int64), np.array(found.scores, dtype=np.float32)
        errors.append(_error(found, stored[row]))
        exact_errors.append(np.abs(scores - exact[row, at]).max())
        relative.append((np.abs(scores - exact[row, at]) / exact[row, at]).max())
        same.append(len(set(at[:100].tolist()) & set(np.argsort(-exact[row])[:100].tolist())))
    if max(errors) > CLOSE:
        raise SystemExit(f"search differs from the definition by {max(errors):.2g}; nothing is timed")
    return {
        "queries": queries.shape[0],
        "largest_error": float(max(errors)),
        "largest_error_float32": float(max(exact_errors)),
        "largest_relative_error_float32": float(max(relative)),
        "same_of_best_100_float32": round(float(np.mean(same)), 2),
    }


def _error(found: Ranking, defined: Floats) -> float:
    """How far a ranking is from the definition's scores: of its own documents, and rank by rank of the best ones."""
    at, scores = np.array(found.ids, dtype=np.int64), np.array(found.scores, dtype=np.float32)
    best = -np.sort(-defined)[: KS[-1]]
    missing = best[len(scores) :].max(initial=0)  # documents without a matching term need not be returned
    of_own = np.abs(scores - defined[at]).max(initial=0)
    return float(max(of_own, np.abs(scores - best[: len(scores)]).max(initial=0), missing))


def defined_scores(docs: sp.csr_array, queries: sp.csr_array, slicing: Slicing, query: str) -> tuple[Floats, Floats]:
    """The definition's scores (queries, docs): with weights rounded to float16 as an index stores them, and not."""
    stored, exact = [], []
    for start in range(0, docs.shape[0], ROWS):
        slices = densify(docs[start : start + ROWS], slicing)
        rounded = Slices(slices.values.astype(np.float16).astype(np.float32), slices.gates)
        for scores, these in ((stored, rounded), (exact, slices)):
            whole = query == "full"
            scores.append(gip_full(queries, these, slicing) if whole else gip(densify(queries, slicing), these))
    return np.concatenate(stored, axis=1), np.concatenate(exact, axis=1)


# --- timing


def time_one(index: Index, queries: sp.csr_array, k: int, configuration: Configuration) -> dict[str, float]:
    """Milliseconds of `search_vectors` on one thread, over every query and repeat after a warm-up."""
    rows = [queries[row : row + 1] for row in range(queries.shape[0])]
    for row in rows:
        index.search_vectors(row, k=k)
    took = np.empty((configuration.repeats, len(rows)))
    for repeat in range(configuration.repeats):
        for i, row in enumerate(rows):
            start = time.perf_counter()
            index.search_vectors(row, k=k)
            took[repeat, i] = 1000 * (time.perf_counter() - start)
    best = np.median(took.min(axis=0))  # of each query's fastest repeat: what a busy machine hides
    figures = {"p50_ms": np.median(took), "p95_ms": np.percentile(took, 95), "p50_of_fastest_ms": best}
    return {"k": k} | {name: round(float(figure), 3) for name, figure in figures.items()}


def time_all(index: Index, queries: sp.csr_array, configuration: Configuration) -> list[dict[str, float]]:
    """Queries a second of `rank`, which uses every core; turning the queries into rows is part of it."""
    asked = [_as_query(str(row), queries[row : row + 1]) for row in range(queries.shape[0])]
    figures = []
    for k in KS:
        took = []
        for _ in range(1 + configuration.repeats):  # the first is the warm-up
            start = time.perf_counter()
            answered = sum(1 for _ in index.rank(asked, k))
            took.append(time.perf_counter() - start)
            if answered != len(asked):
                raise SystemExit(f"{len(asked)} queries asked, {answered} answered")
        figures.append({"k": k, "queries_a_second": round(len(asked) / float(np.median(took[1:])), 1)})
    return figures


def table(figures: dict[str, Any]) -> str:
    """The figures for people to read, as Markdown."""
    built, checked = figures["build"], figures["verify"]
    lines = [
        f"{figures['documents']:,} documents of {figures['weights_a_document']} weights, "
        f"{figures['bytes_a_document']} bytes each; built in {built['build_s']} s, peak {built['peak_gb']} GB.",
        f"{checked['queries']} queries equal the definition to {checked['largest_error']:.1g} "
        f"(with float32 weights to {checked['largest_error_float32']:.1g}).",
        "",
        "| k | p50 ms | p95 ms | p50 of fastest ms | queries/s, all cores |",
        "|---|---|---|---|---|",
    ]
    for one, every in zip(figures["one_thread"], figures["all_cores"], strict=True):
        cells = [one["k"], one["p50_ms"], one["p95_ms"], one["p50_of_fastest_ms"], every["queries_a_second"]]
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join(lines)


def _as_query(id: str, row: sp.csr_array) -> Query:
    return Query(id, vector={str(token): float(w) for token, w in zip(row.indices, row.data, strict=True)})


def _load(path: Path) -> sp.csr_array:
    return sp.csr_array(sp.load_npz(path))


def _arguments() -> Configuration:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", required=True, help="the folder with docs.npz and queries.npz")
    parser.add_argument("--slicing", default="learned", choices=["stride", "contiguous", "random", "learned"])
    parser.add_argument("--slices", type=int, default=768)
    parser.add_argument("--query", default="full", choices=["full", "sliced"])
    parser.add_argument("--repeats", type=int, default=5, help="how often each query is timed")
    parser.add_argument("--checked", type=int, default=20, help="how many queries are checked first")
    return Configuration(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
