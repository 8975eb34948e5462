"""Measures what BM25's fixed average length costs beside one measured on each collection: nDCG@10 through an index.

    python benchmarks/average_length.py COLLECTIONS nfcorpus:dev … [--encoder mini] [--lengths 40 80]

COLLECTIONS holds folders in BEIR's layout. Indexes have their default settings except for `average_length`; "measured"
is the collection's own average, in words without stop words. Appends a line to results/average_length.jsonl.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import journal
from denslice import Doc, Index, Query
from denslice.analysis.analyzer import Analyzer
from quality import PACKAGES, K, Qrels, judged, ndcg

Figures = dict[str, dict[str, float]]


def main() -> None:
    """Measure, print and append the line."""
    given = _arguments()
    found: Figures = {}
    own: dict[str, float] = {}
    for name in given.collections:
        docs, queries, qrels = judged(given.folder, name)
        own[name] = round(sum(len(Analyzer().words(doc.contents)) for doc in docs) / len(docs), 1)
        lengths = {"measured": own[name]} | {f"{length:g}": length for length in given.lengths}
        found[name] = {told: mean(docs, queries, qrels, given.encoder, one) for told, one in lengths.items()}
        print(name, own[name], found[name], flush=True)
    means = {length: round(sum(row[length] for row in found.values()) / len(found), 5) for length in lengths}
    figures = {"ndcg@10": found, "mean": means, "average_length": own}
    print(journal.append("average_length", PACKAGES, {"encoder": given.encoder, "k": K}, figures))


def mean(docs: Sequence[Doc], queries: Sequence[Query], qrels: Qrels, encoder: str, average_length: float) -> float:
    """Return mean nDCG@10 with this average length."""
    with TemporaryDirectory(prefix="denslice-length-") as temporary:
        index = Index.create(Path(temporary, "it.idx"), encoder, options={"average_length": average_length})
        index.add(docs)
        return round(float(ndcg(index, queries, qrels).mean()), 5)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="COLLECTIONS")
    parser.add_argument("collections", nargs="+", metavar="NAME:SPLIT")
    parser.add_argument("--encoder", default="bm25")
    parser.add_argument("--lengths", type=float, nargs="+", default=[20, 40, 60, 80, 100, 150, 200, 300])
    return parser.parse_args()


if __name__ == "__main__":
    main()
