"""How well an encoder searches whole collections: nDCG@10 of words, of meaning and of both, through the index itself.

    PYTHONPATH=src python benchmarks/mini_quality.py COLLECTIONS scifact:test npl:test [--encoder E] [--slices 768]

COLLECTIONS has folders in BEIR's layout. Everything is as a user would have it: the default index, its λ and its
learned slicing, the best 100 of each query. Appends a line to benchmarks/results/mini_quality.jsonl.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ir_measures
from ir_measures import nDCG

import journal
from denslice import Index
from denslice.corpus.documents import read_docs, read_queries
from denslice.corpus.runs import read_qrels
from denslice.encoders.mini import OnnxModel

PACKAGES = ("numpy", "onnxruntime", "tokenizers", "ir-measures")
MEASURE = nDCG @ 10
K = 100


def main() -> None:
    """Measures, prints and appends the JSON line."""
    given = _arguments()
    remember_readings()
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in given.collections:
        collection, _, split = name.partition(":")
        for slices in given.slices:
            options = {} if given.phrases is None else {"phrases": given.phrases}
            ways = measured(given.folder / collection, split or "test", given.encoder, slices, options, given.lam)
            found.setdefault(name, {})[str(slices)] = ways
            told = "  ".join(f"{way} {value:.4f}" for way, value in ways.items())
            print(f"{name:28} {slices:5}  {told}", flush=True)
    configuration = {key: value for key, value in vars(given).items() if key != "folder"} | {"k": K}
    place = journal.append("mini_quality", PACKAGES, configuration, {"ndcg@10": found, "mean": means(found)})
    for slices, ways in means(found).items():
        print(f"{'mean':28} {slices:>5}  " + "  ".join(f"{way} {value:.4f}" for way, value in ways.items()))
    print(f"\nFrom {place}, commit {journal.commit()}.")


def measured(
    folder: Path, split: str, encoder: str, slices: int, options: dict[str, Any], lams: Sequence[float]
) -> dict[str, float]:
    """nDCG@10 in each mode, and of both together with other λ."""
    qrels = read_qrels(folder / "qrels" / f"{split}.tsv")
    queries = [query for query in read_queries(folder) if query.id in qrels]
    judged = {query.id: qrels[query.id] for query in queries}
    with TemporaryDirectory(prefix="denslice-quality-") as temporary:
        index = Index.create(Path(temporary, "it.idx"), encoder, slices=slices, options=options)
        began = time.perf_counter()
        docs = index.add(read_docs([folder]))
        ways: dict[str, dict[str, Any]] = {"hybrid": {}, "lexical": {"mode": "lexical"}, "dense": {"mode": "dense"}}
        ways |= {f"λ {lam:g}": {"lam": lam} for lam in lams}
        if index.info()["dimensions"] is None:
            ways = {"lexical": {}}
        speed = {"docs_a_second": round(docs / (time.perf_counter() - began), 1)}
        return {way: _ndcg(index, queries, judged, how) for way, how in ways.items()} | speed


def _ndcg(index: Index, queries: Sequence[Any], judged: dict[str, dict[str, int]], how: dict[str, Any]) -> float:
    run = {found.query_id: dict(zip(found.ids, found.scores, strict=True)) for found in index.rank(queries, K, **how)}
    return round(float(ir_measures.calc_aggregate([MEASURE], judged, run)[MEASURE]), 5)


def remember_readings() -> None:
    """Has the model read each text once, though it is indexed with several numbers of slices."""
    read, known = OnnxModel.read, {}

    def remembered(self: OnnxModel, texts: Sequence[str], length: int, spans: Callable[[str], Any]) -> Iterator[Any]:
        new = [text for text in dict.fromkeys(texts) if (length, text) not in known]
        known.update(zip(((length, text) for text in new), read(self, new, length, spans), strict=True))
        return iter([known[length, text] for text in texts])

    OnnxModel.read = remembered  # type: ignore[method-assign]


def means(found: dict[str, dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """The means over the collections, by number of slices."""
    every = list(found.values())
    return {
        slices: {way: round(sum(one[slices][way] for one in every) / len(every), 5) for way in ways}
        for slices, ways in every[0].items()
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="COLLECTIONS")
    parser.add_argument("collections", nargs="+", metavar="NAME:SPLIT")
    parser.add_argument("--encoder", default="mini")
    parser.add_argument("--slices", type=int, nargs="+", default=[768])
    parser.add_argument("--phrases", type=float)
    parser.add_argument("--lam", type=float, nargs="+", default=[])
    return parser.parse_args()


if __name__ == "__main__":
    main()
