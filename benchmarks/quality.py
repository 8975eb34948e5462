"""Measures how well encoders search whole collections: nDCG@10 of lexical, dense and hybrid search through an index.

    python benchmarks/quality.py COLLECTIONS scifact:test npl:test --encoders bm25 minilm=MODEL mini --lam 20 40

COLLECTIONS holds folders in BEIR's layout; an encoder is a name or NAME=FOLDER. Indexes have their default settings.
The last encoder's default search is compared with every other search, query by query. Appends a line to
results/quality.jsonl.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ir_measures
import numpy as np
import numpy.typing as npt
from ir_measures import nDCG

import journal
from denslice import Doc, Index, Query
from denslice.corpus.documents import read_docs, read_queries
from denslice.corpus.runs import read_qrels

PACKAGES = ("numpy", "onnxruntime", "tokenizers", "ir-measures")
MEASURE = nDCG @ 10
K = 10
Qrels = dict[str, dict[str, int]]
Floats = npt.NDArray[np.float64]


def main() -> None:
    """Measure, print and append the line."""
    given = _arguments()
    encoders = dict(_named(encoder) for encoder in given.encoders)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in given.collections:
        values = searched(given.folder, name, encoders, given.lam)
        found[name] = compared(values, list(encoders)[-1])
        print(name, found[name], flush=True)
    configuration = {"encoders": list(encoders), "lam": given.lam, "k": K}
    print(journal.append("quality", PACKAGES, configuration, {"ndcg@10": found, "queries": _counts(given)}))


def searched(folder: Path, name: str, encoders: dict[str, str], lams: Sequence[float]) -> dict[str, Floats]:
    """Return nDCG@10 of each query (queries,) by encoder and search: default, lexical, dense, other values of λ."""
    docs, queries, qrels = judged(folder, name)
    values: dict[str, Floats] = {}
    for called, encoder in encoders.items():
        with TemporaryDirectory(prefix="denslice-quality-") as temporary:
            index = Index.create(Path(temporary, "it.idx"), encoder)
            index.add(docs)
            ways: dict[str, dict[str, Any]] = {called: {}}
            if encoder != "bm25":
                ways |= {f"{called}, {mode}": {"mode": mode} for mode in ("lexical", "dense")}
                ways |= {f"{called}, λ = {lam:g}": {"lam": lam} for lam in lams}
            values |= {way: ndcg(index, queries, qrels, **how) for way, how in ways.items()}
    return values


def compared(values: dict[str, Floats], ours: str) -> dict[str, dict[str, float]]:
    """Return the means, and how far ours lies above each, with half the 95 % interval of the paired difference."""
    found = {}
    for way, theirs in values.items():
        difference = values[ours] - theirs
        half = 1.96 * difference.std(ddof=1) / len(difference) ** 0.5
        figures = {"mean": theirs.mean(), "ahead": difference.mean(), "half": half}
        found[way] = {key: round(float(value), 5) for key, value in figures.items()}
    return found


def judged(folder: Path, name: str) -> tuple[list[Doc], list[Query], Qrels]:
    """Return the documents of a collection NAME:SPLIT, the queries of the split that have judgements, and these."""
    collection, _, split = name.partition(":")
    qrels = read_qrels(folder / collection / "qrels" / f"{split or 'test'}.tsv")
    queries = [query for query in read_queries(folder / collection) if query.id in qrels]
    return list(read_docs([folder / collection])), queries, {query.id: qrels[query.id] for query in queries}


def ndcg(index: Index, queries: Sequence[Query], qrels: Qrels, **how: Any) -> Floats:
    """Return nDCG@10 of each query (queries,); a query without results has 0."""
    run = {found.query_id: dict(zip(found.ids, found.scores, strict=True)) for found in index.rank(queries, K, **how)}
    return ndcg_of(run, queries, qrels)


def ndcg_of(run: dict[str, dict[str, float]], queries: Sequence[Query], qrels: Qrels) -> Floats:
    """Return nDCG@10 of each query (queries,) in a run, query → document → score."""
    by_query = {metric.query_id: metric.value for metric in ir_measures.iter_calc([MEASURE], qrels, run)}
    return np.array([by_query.get(query.id, 0.0) for query in queries])


def _counts(given: argparse.Namespace) -> dict[str, int]:
    return {name: len(judged(given.folder, name)[1]) for name in given.collections}


def _named(encoder: str) -> tuple[str, str]:
    name, _, place = encoder.partition("=")
    return name, place or name


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="COLLECTIONS")
    parser.add_argument("collections", nargs="+", metavar="NAME:SPLIT")
    parser.add_argument("--encoders", nargs="+", default=["bm25", "mini"], metavar="NAME[=FOLDER]")
    parser.add_argument("--lam", type=float, nargs="+", default=[])
    return parser.parse_args()


if __name__ == "__main__":
    main()
