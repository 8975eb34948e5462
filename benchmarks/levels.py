"""Measures the levels of an index: nDCG@10 with none, some and all of its documents deep, beside BM25.

    python benchmarks/levels.py COLLECTIONS fiqa-judged:dev nfcorpus:dev [--encoder MODEL] [--shares 0 0.5 1]

COLLECTIONS holds folders in BEIR's layout. Documents are added at the quick level, in random order, and deepened step
by step; at both ends, queries are read by the table of words too. Default settings throughout. Appends a line to
results/levels.jsonl.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import journal
from denslice import Index, open_index
from quality import PACKAGES, judged, ndcg

SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)  # of the documents that are deep


def main() -> None:
    """Measure, print and append the line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("collections", nargs="+", metavar="NAME:SPLIT")
    parser.add_argument("--encoder", default="mini")
    parser.add_argument(
        "--shares", type=float, nargs="+", default=SHARES, help="of the documents that are deep, rising"
    )
    given = parser.parse_args()
    found = {}
    for name in given.collections:
        found[name] = measured(given.folder, name, given.encoder, given.shares)
        print(name, found[name], flush=True)
    print(journal.append("levels", PACKAGES, {"encoder": given.encoder, "shares": given.shares}, {"ndcg@10": found}))


def measured(folder: Path, name: str, encoder: str, shares: Sequence[float]) -> dict[str, float]:
    """Return nDCG@10 of a collection by the share of its documents that is deep, and of BM25."""
    docs, queries, qrels = judged(folder, name)
    Random(1).shuffle(docs)
    values = {}
    with TemporaryDirectory(prefix="denslice-levels-") as temporary:
        plain = Index.create(Path(temporary, "bm25.idx"), "bm25")
        plain.add(docs)
        values["bm25"] = ndcg(plain, queries, qrels)
        index = Index.create(Path(temporary, "it.idx"), encoder)
        index.add(docs, level="quick")
        for share in shares:
            if left := index.info().quick - round((1 - share) * len(docs)):
                index.deepen(left)
            values[f"{share:.0%}"] = ndcg(index, queries, qrels)
            if share in (0, 1):
                values[f"{share:.0%}, lexical"] = ndcg(index, queries, qrels, mode="lexical")
                quick = open_index(index.path, queries="quick")
                values[f"{share:.0%}, quick queries"] = ndcg(quick, queries, qrels)
    return {way: round(float(value.mean()), 5) for way, value in values.items()}


if __name__ == "__main__":
    main()
