"""Times what one more shard adds to a search: milliseconds by the number of shards, all on this machine.

The shards are tiny, so that nearly all of the time is Ray's; queries go to the first 1, 2, 4, 8 and 16 of them.
Appends a line to results/ray_calls.jsonl.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import journal

sys.path.insert(0, str(journal.ROOT / "tests"))
from denslice import Query, open_cluster
from denslice.cluster.cluster_build import build_cluster
from denslice.cluster.replica import Find
from denslice.options import SearchOptions
from three_nodes import Unseen, questions, three_nodes, write_texts

PACKAGES = ("numpy", "ray")
ASKED = (1, 2, 4, 8, 16)


def main() -> None:
    """Measure, print and append the line."""
    asked = _arguments()
    with tempfile.TemporaryDirectory() as work, three_nodes():
        figures = measure(Path(work), asked)
    print(figures)
    print(journal.append("ray_calls", PACKAGES, vars(asked), figures))


def measure(work: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Return p50 by number of shards, and the straight line through these times."""
    texts = write_texts(work / "docs.jsonl", 200)
    build_cluster([str(texts)], work / "c", {"encoder": "bm25", "slices": 64}, max(ASKED), Unseen())
    with open_cluster(work / "c", cpus=0.05, complete=True) as cluster:
        view, settings = cluster.reader, SearchOptions(10)
        query = view.query_vectors(view.encode([Query("", questions(1)[0])]), settings)
        p50 = {}
        for count in ASKED:
            requests = dict.fromkeys(range(count), ("", pickle.dumps(Find(query, settings))))
            took = []
            for _ in range(asked.repeats):
                began = time.perf_counter()
                answers = view.replicas.ask(requests)
                took.append(1000 * (time.perf_counter() - began))
                if len(answers) != count:
                    raise SystemExit("a shard gave no answer; nothing is timed")
            p50[count] = round(float(np.median(took[10:])), 3)
    slope, fixed = np.polyfit(list(p50), list(p50.values()), 1)
    return {"p50_ms": p50, "ms_a_shard": round(float(slope), 4), "fixed_ms": round(float(fixed), 4)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=200)
    return parser.parse_args()


if __name__ == "__main__":
    main()
