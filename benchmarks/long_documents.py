"""Measures long documents before and after they are cut into passages: nDCG@10 through an index of each kind.

    python benchmarks/long_documents.py COLLECTIONS squad-dev:test scifact:test [--join squad-dev] [--encoder mini]

COLLECTIONS holds folders in BEIR's layout. The paragraphs of a collection named in `--join` become one document for
each title, or for each id up to its last hyphen, and questions are judged by the document of their paragraph. "Whole"
is an index whose documents are not cut, as all were once. Appends a line to results/long_documents.jsonl.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import journal
from denslice import Doc, Index, Query
from denslice.index.create import new_manifest
from denslice.options import IndexOptions
from denslice.store import snapshot
from quality import PACKAGES, Floats, K, Qrels, judged, ndcg

MOST_QUERIES = 2_000


def main() -> None:
    """Measure, print and append the line."""
    given = _arguments()
    found: dict[str, dict[str, Any]] = {}
    for name in given.collections:
        docs, queries, qrels = judged(given.folder, name)
        if name.partition(":")[0] in given.join:
            docs, qrels = joined(docs, qrels)
        chosen = np.random.default_rng(0).permutation(len(queries))[:MOST_QUERIES]
        found[name] = compared(docs, [queries[at] for at in sorted(chosen.tolist())], qrels, given.encoder)
        print(name, found[name], flush=True)
    configuration = {"encoder": given.encoder, "joined": given.join, "k": K, "most_queries": MOST_QUERIES}
    print(journal.append("long_documents", PACKAGES, configuration, {"ndcg@10": found}))


def joined(docs: Sequence[Doc], qrels: Qrels) -> tuple[list[Doc], Qrels]:
    """Return the paragraphs of each title, or of each id up to its last hyphen, as one document."""
    owner = {doc.id: doc.title or doc.id.rpartition("-")[0] for doc in docs}
    texts: dict[str, list[Doc]] = {}
    for doc in docs:
        texts.setdefault(owner[doc.id], []).append(doc)
    whole = [Doc(id, "\n\n".join(doc.text for doc in some), some[0].title) for id, some in texts.items()]
    return whole, {query: {owner[id]: grade for id, grade in rows.items()} for query, rows in qrels.items()}


def compared(docs: Sequence[Doc], queries: Sequence[Query], qrels: Qrels, encoder: str) -> dict[str, Any]:
    """Return nDCG@10 by kind of index and mode, the gain with half its 95 % interval, and what each kind costs."""
    figures: dict[str, Any] = {"documents": len(docs), "queries": len(queries)}
    values: dict[str, dict[str, Floats]] = {}
    for kind, cut in (("whole", False), ("passages", True)):
        with TemporaryDirectory(prefix="denslice-long-") as temporary:
            folder = Path(temporary, "it.idx")
            snapshot.create(folder, replace(new_manifest(IndexOptions(encoder)), passages=cut))
            index = Index.open(folder)
            began = time.perf_counter()
            index.add(docs)
            figures[kind] = {"seconds": round(time.perf_counter() - began, 1), "bytes": index.info().bytes}
            modes = ["lexical"] if encoder == "bm25" else ["lexical", "dense", "hybrid"]
            judged_queries = {query.id: qrels[query.id] for query in queries}
            values[kind] = {mode: ndcg(index, queries, judged_queries, mode=mode) for mode in modes}
            figures[kind] |= {"passages": index.info().passages}
            figures[kind] |= {mode: round(float(one.mean()), 4) for mode, one in values[kind].items()}
    for mode, after in values["passages"].items():
        gain = after - values["whole"][mode]
        half = 1.96 * gain.std(ddof=1) / len(gain) ** 0.5
        figures[f"gain, {mode}"] = [round(float(gain.mean()), 4), round(float(half), 4)]
    return figures


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="COLLECTIONS")
    parser.add_argument("collections", nargs="+", metavar="NAME:SPLIT")
    parser.add_argument("--join", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--encoder", default="mini")
    return parser.parse_args()


if __name__ == "__main__":
    main()
