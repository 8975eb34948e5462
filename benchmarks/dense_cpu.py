"""Times exact dense search on one core: milliseconds for a million documents, by dimensions.

The vectors are random. The ten best documents are compared with numpy's products before anything is timed. Appends a
line to results/dense_cpu.jsonl.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import journal
from denslice import Index
from denslice.bench.builds import apart

PACKAGES = ("numpy", "scipy", "numba", "llvmlite")
REPEATS = 5


def main() -> None:
    """Measure each width, print and append the line."""
    asked = _arguments()
    figures = [apart(measure, asked.docs, width, asked.queries, threads=1) for width in asked.dimensions]
    for one in figures:
        print(one)
    print(journal.append("dense_cpu", PACKAGES, vars(asked), figures))


def measure(docs: int, width: int, queries: int) -> dict[str, Any]:
    """Check and time one width."""
    made = np.random.default_rng(0)
    vectors = made.standard_normal((docs, width), dtype=np.float32)
    asked = made.standard_normal((queries, width), dtype=np.float32)
    none = sp.csr_array((docs, 8), dtype=np.float32)
    with tempfile.TemporaryDirectory() as work:
        index = Index.create(Path(work, "i"), "vectors", vocab=8, slices=2, slicing="stride")
        index.add_vectors([f"{row:08d}" for row in range(docs)], none, dense=vectors)
        stored = vectors.astype(np.float16).astype(np.float32)
        took = []
        for query in asked:
            times = []
            for _ in range(REPEATS):
                began = time.perf_counter()
                found = index.search_vectors(none[[0]], dense=query, k=10, mode="dense")
                times.append(1000 * (time.perf_counter() - began))
            took.append(min(times))  # a busy machine hides the rest
            products = stored @ query
            best = np.argsort(-products, kind="stable")[:10]
            if not np.allclose(found.scores, products[best], rtol=1e-4):
                raise SystemExit("search differs from the definition; nothing is timed")
    p50 = float(np.median(took[1:]))
    rates = {"p50_of_fastest_ms": round(p50, 3), "ms_a_million": round(p50 * 1e6 / docs, 2)}
    return {"documents": docs, "dimensions": width} | rates


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=200_000)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[256, 384, 768])
    parser.add_argument("--queries", type=int, default=30)
    return parser.parse_args()


if __name__ == "__main__":
    main()
