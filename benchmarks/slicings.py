"""Measures what slicing costs: nDCG@10 of BM25 by kind of slicing, number of slices, and full or sliced query.

Nothing is compared unless BM25 without collisions agrees with bm25s. Appends a line to results/slicings.jsonl and, with
--out, refreshes the tables of a page and draws its plot: intervals need every query's value, which no line keeps.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import bm25s
import ir_measures
import numpy as np
import Stemmer

import journal
from denslice import Doc, Index, Query
from denslice.analysis.analyzer import Analyzer
from denslice.corpus.documents import read_docs, read_queries
from denslice.corpus.runs import read_qrels
from denslice.reproduce.table_page import refresh
from denslice.store.snapshot import Snapshot
from slicing_tables import Floats, Result, Setting, draw, tables

K1, B, K = 0.9, 0.4, 100
SEEDS = (0, 1, 2)  # of random slicings; figures are means over them
PARTS = (0.5, 0.25, 0.1)  # shares of the documents that a slicing is learned from; otherwise from all
NO_COLLISIONS = 1_000_000  # slices, more than any of these vocabularies has tokens
PARITY = 0.002
PACKAGES = ("numpy", "scipy", "numba", "PyStemmer", "bm25s", "ir_measures")
NDCG, RECALL = ir_measures.nDCG @ 10, ir_measures.R @ K
Run = dict[str, dict[str, float]]  # query → document → score


@dataclass(frozen=True)
class Collection:
    """The documents of a BEIR folder, and the queries of its test split that have judgements."""

    name: str
    docs: list[Doc]
    queries: list[Query]
    qrels: dict[str, dict[str, int]]
    average_length: float


def main() -> None:
    """Measure, print, append the line and refresh the page."""
    arguments = _arguments()
    collections = [collection(folder) for folder in arguments.data]
    peers = [measured(c, bm25s_run(c)) for c in collections]
    undensified = [result(c, Setting("stride", NO_COLLISIONS, "full")) for c in collections]
    check_parity([ndcg for ndcg, _ in peers], undensified)
    results = [result(c, setting) for c in collections for setting in settings(arguments.slices)]
    references = {c.name: float(ndcg.mean()) for c, (ndcg, _) in zip(collections, peers, strict=True)}
    figures = {"bm25s": _rounded(references), "results": [as_json(one) for one in (*undensified, *results)]}
    configuration = {"k1": K1, "b": B, "k": K, "seeds": SEEDS, "data": [str(folder) for folder in arguments.data]}
    cited = journal.append("slicings", PACKAGES, configuration, figures)
    made = tables(references, undensified, results) | {"source": source(cited)}
    print("\n\n".join(made.values()))
    if arguments.out:
        refresh(arguments.out, made)
        draw(arguments.out.with_suffix(".svg"), undensified, results)


def collection(folder: Path) -> Collection:
    """Read the collection of a BEIR folder."""
    docs, qrels = list(read_docs([folder])), read_qrels(folder / "qrels" / "test.tsv")
    queries = [query for query in read_queries(folder) if query.id in qrels]
    length = sum(len(Analyzer().words(doc.contents)) for doc in docs)
    return Collection(folder.name, docs, queries, qrels, length / len(docs))


def settings(slices: Sequence[int]) -> list[Setting]:
    """Return every cell of the tables."""
    kinds, queries = ("contiguous", "stride", "random", "learned"), ("full", "sliced")
    whole = [Setting(kind, number, query) for kind, number, query in product(kinds, slices, queries)]
    return whole + [Setting("learned", number, "full", part) for number, part in product(slices, PARTS)]


def bm25s_run(collection: Collection) -> Run:
    """Return the run of the bm25s package, with the same stop words and stemmer."""
    index = bm25s.BM25(method="lucene", k1=K1, b=B)
    index.index(_bm25s_words([doc.contents for doc in collection.docs]), show_progress=False)
    asked = _bm25s_words([query.text for query in collection.queries])
    rows, scores = index.retrieve(asked, k=min(K, len(collection.docs)), show_progress=False)
    ids = np.array([doc.id for doc in collection.docs], dtype=object)[rows]  # (queries, k)
    return {
        query.id: dict(zip(ids[i].tolist(), scores[i].tolist(), strict=True))
        for i, query in enumerate(collection.queries)
    }


def result(collection: Collection, setting: Setting) -> Result:
    """Return the setting's measures on a collection; random slicings are averaged over seeds."""
    print(f"{collection.name}: {setting}", file=sys.stderr)
    runs = [denslice_run(collection, setting, seed) for seed in (SEEDS if setting.slicing == "random" else SEEDS[:1])]
    ndcg, recall = zip(*[measured(collection, run) for run, _ in runs], strict=True)
    lost = [lost for _, lost in runs]
    return Result(collection.name, setting, np.mean(ndcg, axis=0), float(np.mean(recall)), float(np.mean(lost)))


def denslice_run(collection: Collection, setting: Setting, seed: int) -> tuple[Run, float]:
    """Return the run of an index made for the setting, and the share of weights that its slicing dropped."""
    options = {"k1": K1, "b": B, "average_length": collection.average_length}
    sliced: dict[str, Any] = {"slicing": setting.slicing, "slices": setting.slices, "query": setting.query}
    first = round(len(collection.docs) * setting.learned_from)
    with tempfile.TemporaryDirectory() as folder:
        index = Index.create(Path(folder, "sliced.idx"), "bm25", **sliced, seed=seed, options=options)
        index.add(collection.docs[:first])  # a slicing is learned from the first documents an index is given
        if first < len(collection.docs):
            index.add(collection.docs[first:])
        run = {ranking.query_id: _scores(ranking) for ranking in index.rank(collection.queries, K)}
        if run.keys() != {query.id for query in collection.queries}:
            raise SystemExit(f"{collection.name}: {len(collection.queries)} queries asked, {len(run)} answered")
        return run, lost_share(index)


def lost_share(index: Index) -> float:
    """Return the share of the documents' weights that lost their slice to a larger one."""
    return sum(len(segment.lost.keys) for segment in Snapshot(index.path).segments) / index.info().weights


def measured(collection: Collection, run: Run) -> tuple[Floats, float]:
    """Return nDCG@10 of each query (queries,), and the mean recall; a query without results scores 0."""
    metrics = ir_measures.iter_calc([NDCG, RECALL], collection.qrels, run)
    found = {(metric.query_id, metric.measure): metric.value for metric in metrics}
    ndcg, recall = ([found.get((query.id, m), 0.0) for query in collection.queries] for m in (NDCG, RECALL))
    return np.array(ndcg), float(np.mean(recall))


def check_parity(peers: Sequence[Floats], undensified: Sequence[Result]) -> None:
    """Stop the benchmark if BM25 without collisions is not bm25s' BM25."""
    for theirs, ours in zip(peers, undensified, strict=True):
        if ours.lost or abs(theirs.mean() - ours.ndcg.mean()) > PARITY:
            raise SystemExit(
                f"{ours.data}: undensified nDCG@10 is {ours.ndcg.mean():.4f} with {ours.lost:.2%} of weights lost, "
                f"bm25s has {theirs.mean():.4f}: nothing is compared until they agree to {PARITY}"
            )


def as_json(one: Result) -> dict[str, Any]:
    """Return a result as the line holds it."""
    figures = {"nDCG@10": float(one.ndcg.mean()), f"R@{K}": one.recall, "lost": one.lost}
    return {"data": one.data} | asdict(one.setting) | _rounded(figures)


def source(cited: str) -> str:
    """Return where the tables come from: the command, and the citation of its line."""
    options = [f"data/{Path(word).name}" if Path(word).is_dir() else word for word in sys.argv[1:]]
    command = shlex.join(["python", "benchmarks/slicings.py", *options])
    return f"```\n{command}\n```\n\n{cited}"


def _bm25s_words(texts: list[str]) -> list[list[str]]:
    tokenizer = bm25s.tokenization.Tokenizer(stopwords="en", stemmer=Stemmer.Stemmer("english"))
    # allow_empty=True would give an empty text one word and so a length
    words: list[list[str]] = tokenizer.tokenize(
        texts, update_vocab=True, return_as="string", show_progress=False, allow_empty=False
    )
    return words


def _scores(ranking: Any) -> dict[str, float]:
    return dict(zip(ranking.ids, ranking.scores, strict=True))


def _rounded(figures: dict[str, float]) -> dict[str, float]:
    return {name: round(figure, 5) for name, figure in figures.items()}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, action="append", required=True, help="a BEIR folder; can be repeated")
    parser.add_argument("--slices", type=int, nargs="+", default=[768, 256, 128])
    parser.add_argument("--out", type=Path, help="a Markdown page whose tables are refreshed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
