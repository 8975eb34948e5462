"""Times hybrid and dense search of denslice beside LanceDB, bm25s with Faiss, and Faiss, on the same vectors.

    python benchmarks/hybrid_contenders.py WORK --python PYTHON [--documents 62413] [--append]
    python benchmarks/hybrid_contenders.py WORK --python PYTHON --index INDEX --asked QUERIES.jsonl

PYTHON has the packages lancedb, bm25s, numba, scipy and faiss-cpu. One core searches. Recall is against exact search
and measured first. Settings are chosen on other queries than the timed: the fastest with recall@10 of .99 or more, else
the one with the highest. denslice is reported exact and as it is by default.
"""

from __future__ import annotations

from contender_runs import arguments, run

NAMES = ("denslice", "LanceDB", "bm25s + Faiss HNSW", "denslice, dense", "Faiss HNSW")

if __name__ == "__main__":
    run(arguments(__doc__, NAMES), "hybrid_contenders")
