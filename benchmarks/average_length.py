"""What BM25's fixed average length costs beside one measured on each collection: nDCG@10 through the index.

    PYTHONPATH=src python benchmarks/average_length.py COLLECTIONS nfcorpus:dev … [--encoder mini] [--lengths 40 80]

COLLECTIONS has folders in BEIR's layout. The index is a default one but for `average_length`; "measured" gives it the
collection's own average, in words without stop words. Appends a line to benchmarks/results/average_length.jsonl.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import ir_measures
from ir_measures import nDCG

import journal
from denslice import Doc, Index, Query
from denslice.corpus.documents import read_docs, read_queries
from denslice.corpus.runs import read_qrels
from denslice.encoders.analysis import Analyzer
from mini_quality import remember_readings

PACKAGES = ("numpy", "onnxruntime", "tokenizers", "ir-measures")
MEASURE = nDCG @ 10
K = 10
Figures = dict[str, dict[str, float]]


def main() -> None:
    """Measures, prints and appends the JSON line."""
    given = _arguments()
    remember_readings()
    found: Figures = {}
    lengths: dict[str, float] = {}
    for name in given.collections:
        collection, _, split = name.partition(":")
        folder = given.folder / collection
        docs = list(read_docs([folder]))
        lengths[name] = round(sum(len(Analyzer().words(doc.contents)) for doc in docs) / len(docs), 1)
        queries, judged = _judged(folder, split or "test")
        averages = {"measured": lengths[name]} | {f"{length:g}": length for length in given.lengths}
        found[name] = {told: _ndcg(docs, queries, judged, given.encoder, one) for told, one in averages.items()}
        told = "  ".join(f"{length} {value:.4f}" for length, value in found[name].items())
        print(f"{name:28} {lengths[name]:6.1f}  {told}", flush=True)
    figures = {"ndcg@10": found, "mean": means(found), "average_length": lengths}
    place = journal.append("average_length", PACKAGES, {"encoder": given.encoder, "k": K}, figures)
    print(f"{'mean':36}  " + "  ".join(f"{length} {value:.4f}" for length, value in means(found).items()))
    print(f"\nFrom {place}, commit {journal.commit()}.")


def means(found: Figures) -> dict[str, float]:
    """The means over the collections."""
    rows = list(found.values())
    return {length: round(sum(row[length] for row in rows) / len(rows), 5) for length in rows[0]}


def _judged(folder: Path, split: str) -> tuple[list[Query], dict[str, dict[str, int]]]:
    qrels = read_qrels(folder / "qrels" / f"{split}.tsv")
    queries = [query for query in read_queries(folder) if query.id in qrels]
    return queries, {query.id: qrels[query.id] for query in queries}


def _ndcg(
    docs: Sequence[Doc], queries: Sequence[Query], judged: dict[str, dict[str, int]], encoder: str, average: float
) -> float:
    with TemporaryDirectory(prefix="denslice-length-") as temporary:
        index = Index.create(Path(temporary, "it.idx"), encoder, options={"average_length": average})
        index.add(docs)
        run = {found.query_id: dict(zip(found.ids, found.scores, strict=True)) for found in index.rank(queries, K)}
    return round(float(ir_measures.calc_aggregate([MEASURE], judged, run)[MEASURE]), 5)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="COLLECTIONS")
    parser.add_argument("collections", nargs="+", metavar="NAME:SPLIT")
    parser.add_argument("--encoder", default="bm25")
    parser.add_argument("--lengths", type=float, nargs="+", default=[20, 40, 60, 80, 100, 150, 200, 300])
    return parser.parse_args()


if __name__ == "__main__":
    main()
