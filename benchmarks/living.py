"""A living index: what adding, replacing and deleting 1,000 documents costs, and what many segments cost a search.

Takes the folder that tools/splade_like.py writes (docs.npz, queries.npz). Documents are ready vectors with a text of a
few words each. Results over many segments and over merged ones are checked to be the same before searches are timed.
Appends a line to benchmarks/results/living.jsonl.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import journal
from denslice import Index

PACKAGES = ("numpy", "scipy", "numba", "llvmlite")
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("NUMBA", "OMP", "OPENBLAS", "MKL")}
KS = (10, 1000)
CHANGED = 1_000  # documents an add, a replacement or a delete is timed with


@dataclass(frozen=True)
class Configuration:
    """What is built and asked; the names are the options' names."""

    vectors: str
    slicing: str
    slices: int
    segments: int
    repeats: int
    queries: int


def main() -> None:
    """Builds, verifies, times, prints and appends the JSON line."""
    configuration = _arguments()
    if not ONE_THREAD.items() <= os.environ.items():  # libraries read these as they load: start over with them set
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    folder = Path(configuration.vectors)
    docs = sp.csr_array(sp.load_npz(folder / "docs.npz"))
    queries = sp.csr_array(sp.load_npz(folder / "queries.npz"))[: configuration.queries]
    with tempfile.TemporaryDirectory() as work:
        many = in_segments(Path(work, "many.idx"), docs, configuration)
        shutil.copytree(many.path, Path(work, "merged.idx"))
        merged = Index.open(Path(work, "merged.idx"))
        start = time.perf_counter()
        rewritten = merged.merge()
        merging = {"rewritten": rewritten, "merge_s": round(time.perf_counter() - start, 2)}
        searched = {"segments": [many.info()["segments"], merged.info()["segments"]], **merging}
        verify(many, merged, queries)
        searched["timed"] = [time_search(many, merged, queries, k, configuration.repeats) for k in KS]
        empty = in_segments(Path(work, "empty.idx"), docs[:0], configuration)
        changed = [time_changes(index, docs, configuration.repeats) for index in (empty, merged)]
    figures = {"documents": docs.shape[0], "changed": CHANGED, "changes": changed, "search": searched}
    place = journal.append("living", PACKAGES, asdict(configuration) | {"theta": 0.0}, figures)
    print(f"{table(figures)}\n\nFrom {place}, commit {journal.commit()}.")


def in_segments(path: Path, docs: sp.csr_array, configuration: Configuration) -> Index:
    """An index of the documents, added in as many commits as there shall be segments."""
    kind: dict[str, Any] = {"slicing": configuration.slicing, "slices": configuration.slices}
    index = Index.create(path, "vectors", vocab=docs.shape[1], **kind)
    for part in np.array_split(np.arange(docs.shape[0]), configuration.segments):
        if len(part):
            index.add_vectors(*_documents(part, docs))
    return index


def verify(many: Index, merged: Index, queries: sp.csr_array) -> None:
    """Stops the benchmark where the two do not find the same documents with the same scores, to the last bit."""
    for row in range(queries.shape[0]):
        first, second = (index.search_vectors(queries[row : row + 1], k=KS[-1]) for index in (many, merged))
        if (first.ids, first.scores) != (second.ids, second.scores):
            raise SystemExit(f"query {row}: merging changed the results; nothing is timed")


# --- changing


def time_changes(index: Index, docs: sp.csr_array, repeats: int) -> dict[str, float | int]:
    """Median milliseconds of one commit that adds, replaces or deletes 1,000 documents, after a warm-up.

    Replaced and deleted are documents spread over the whole collection, where there is one. Between repeats, not
    timed, what was added is deleted and what was deleted is put back. The warm-up settles an empty index's slicing.
    """
    before, took = len(index), dict[str, list[float]]()

    def timed(name: str, change: Callable[[], int]) -> None:
        start = time.perf_counter()
        count = change()
        took.setdefault(name, []).append(1000 * (time.perf_counter() - start))
        if count != CHANGED:
            raise SystemExit(f"{name}: {count} documents changed, not {CHANGED}")

    rng = np.random.default_rng(0)
    for repeat in range(repeats + 1):
        rows = rng.permutation(docs.shape[0])[:CHANGED]
        ids, vectors, texts = _documents(rows, docs)
        new = [f"new {repeat} {id}" for id in ids]
        timed("add_ms", lambda: index.add_vectors(new, vectors, texts))  # noqa: B023, called at once
        if before:
            timed("replace_ms", lambda: index.add_vectors(ids, vectors, texts))  # noqa: B023
            timed("delete_ms", lambda: index.delete(ids))  # noqa: B023
            index.add_vectors(ids, vectors, texts)
        index.delete(new)
    if len(index) != before:
        raise SystemExit(f"{len(index):,} documents are left of {before:,}")
    return {"documents": before} | {name: round(float(np.median(times[1:])), 1) for name, times in took.items()}


def _documents(rows: np.ndarray, docs: sp.csr_array) -> tuple[list[str], sp.csr_array, list[str]]:
    return [str(row) for row in rows], docs[rows], [f"document {row} and its few words of text" for row in rows]


# --- searching


def time_search(many: Index, merged: Index, queries: sp.csr_array, k: int, repeats: int) -> dict[str, float]:
    """Median milliseconds of `search_vectors` on one thread, the two indexes taking turns query by query."""
    rows = [queries[row : row + 1] for row in range(queries.shape[0])]
    took = np.empty((repeats + 1, len(rows), 2))
    for repeat in range(repeats + 1):  # the first is the warm-up
        for i, row in enumerate(rows):
            for at, index in enumerate((many, merged)):
                start = time.perf_counter()
                index.search_vectors(row, k=k)
                took[repeat, i, at] = 1000 * (time.perf_counter() - start)
    p50, p95 = np.median(took[1:], axis=(0, 1)), np.percentile(took[1:], 95, axis=(0, 1))
    best = np.median(took[1:].min(axis=0), axis=0)  # of each query's fastest repeat: what a busy machine hides
    figures = {"many_p50_ms": p50[0], "merged_p50_ms": p50[1], "many_p95_ms": p95[0], "merged_p95_ms": p95[1]}
    figures |= {"many_p50_of_fastest_ms": best[0], "merged_p50_of_fastest_ms": best[1]}
    figures |= {"ratio": p50[0] / p50[1], "ratio_of_fastest": best[0] / best[1]}
    return {"k": k} | {name: round(float(figure), 3) for name, figure in figures.items()}


def table(figures: dict[str, Any]) -> str:
    """The figures for people to read, as Markdown."""
    search = figures["search"]
    many, merged = search["segments"]
    lines = [
        f"| {figures['changed']:,} documents in one commit | ms in an empty index | ms in {figures['documents']:,} |",
        "|---|---|---|",
    ]
    empty, full = figures["changes"]
    for name in ("add", "replace", "delete"):
        lines.append(_line([name, empty.get(f"{name}_ms", ""), full[f"{name}_ms"]]))
    lines += [
        "",
        f"Merging {search['rewritten']} segments into {merged} took {search['merge_s']} s; results are the same.",
        "",
        f"| k | p50 ms, {many} segments | p50 ms, {merged} segments | ratio | ratio of fastest |",
        "|---|---|---|---|---|",
    ]
    names = ("k", "many_p50_ms", "merged_p50_ms", "ratio", "ratio_of_fastest")
    lines += [_line([one[name] for name in names]) for one in search["timed"]]
    return "\n".join(lines)


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def _arguments() -> Configuration:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", required=True, help="the folder with docs.npz and queries.npz")
    parser.add_argument("--slicing", default="learned", choices=["stride", "contiguous", "random", "learned"])
    parser.add_argument("--slices", type=int, default=768)
    parser.add_argument("--segments", type=int, default=20, help="how many segments the unmerged index has")
    parser.add_argument("--repeats", type=int, default=5, help="how often each change and each query is timed")
    parser.add_argument("--queries", type=int, default=200, help="how many queries are asked")
    return Configuration(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
