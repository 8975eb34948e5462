"""Measures what slicing costs: nDCG@10 of BM25 by kind of slicing, number of slices, and full or sliced query.

The vectors are BM25's of whole texts, so that nothing but the slicing differs: no passages, no weights of titles.

Nothing is compared unless BM25 without collisions agrees with bm25s. Appends a line to results/slicings.jsonl with the
value of every query, from which pages.py makes docs/slicing.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import bm25s
import ir_measures
import numpy as np
import scipy.sparse as sp
import Stemmer

import journal
from denslice import Doc, Index, Query
from denslice.corpus.documents import read_docs, read_queries
from denslice.corpus.runs import read_qrels
from denslice.encoders.bm25 import Bm25Config
from denslice.reproduce.whole_bm25 import WholeBm25
from denslice.store.snapshot import Snapshot
from slicing_tables import Floats, Result, Setting, Sliced, tables

K1, B, K = Bm25Config.k1, Bm25Config.b, 100
SEEDS = (0, 1, 2)  # of random slicings; figures are means over them
PARTS = (0.5, 0.25, 0.1)  # shares of the documents that a slicing is learned from; otherwise from all
NO_COLLISIONS = 1_000_000  # slices, more than any of these vocabularies has tokens
PARITY = 0.005  # of nDCG@10: the two cut identifiers, numbers and single letters differently
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
    doc_vectors: sp.csr_array  # (n, V) of whole texts, in which words of a title count once
    query_vectors: sp.csr_array  # (Q, V), times idf


def main() -> None:
    """Measure, append the line and print it as tables."""
    arguments = _arguments()
    collections = [collection(folder) for folder in arguments.data]
    peers = {c.name: float(measured(c, bm25s_run(c))[0].mean()) for c in collections}
    undensified = [result(c, Setting("stride", NO_COLLISIONS, "full")) for c in collections]
    check_parity(peers, undensified)
    results = [result(c, setting) for c in collections for setting in settings(arguments.slices)]
    sliced = Sliced(peers, undensified, results)
    configuration = {"k1": K1, "b": B, "k": K, "seeds": SEEDS, "data": list(peers), "slices": arguments.slices}
    cited = journal.append("slicings", PACKAGES, configuration, sliced.as_json())
    print("\n\n".join([*tables(sliced).values(), cited]))


def collection(folder: Path) -> Collection:
    """Read the collection of a BEIR folder."""
    docs, qrels = list(read_docs([folder])), read_qrels(folder / "qrels" / "test.tsv")
    queries = [query for query in read_queries(folder) if query.id in qrels]
    bm25 = WholeBm25(doc.contents for doc in docs)
    given, asked = bm25.encode_docs([doc.contents for doc in docs]), bm25.encode_queries([one.text for one in queries])
    return Collection(folder.name, docs, queries, qrels, given.lexical, asked.lexical)


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
    sliced: dict[str, Any] = {"slicing": setting.slicing, "slices": setting.slices, "query": setting.query}
    ids, vectors = [doc.id for doc in collection.docs], collection.doc_vectors
    first = round(len(ids) * setting.learned_from)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sliced.idx")
        index = Index.create(path, "vectors", vocab=vectors.shape[1], skip=0, **sliced, seed=seed)
        index.add_vectors(ids[:first], vectors[:first])  # a slicing is learned from the first documents of an index
        if first < len(ids):
            index.add_vectors(ids[first:], vectors[first:])
        found = index.search_vectors_batch(collection.query_vectors, k=K)
        run = {query.id: _scores(hits) for query, hits in zip(collection.queries, found, strict=True)}
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


def check_parity(peers: Mapping[str, float], undensified: Sequence[Result]) -> None:
    """Stop the benchmark if BM25 without collisions is not bm25s' BM25."""
    for ours in undensified:
        if ours.lost or abs(peers[ours.data] - ours.ndcg.mean()) > PARITY:
            raise SystemExit(
                f"{ours.data}: undensified nDCG@10 is {ours.ndcg.mean():.4f} with {ours.lost:.2%} of weights lost, "
                f"bm25s has {peers[ours.data]:.4f}: nothing is compared until they agree to {PARITY}"
            )


def _bm25s_words(texts: list[str]) -> list[list[str]]:
    tokenizer = bm25s.tokenization.Tokenizer(stopwords="en", stemmer=Stemmer.Stemmer("english"))
    # allow_empty=True would give an empty text one word and so a length
    words: list[list[str]] = tokenizer.tokenize(
        texts, update_vocab=True, return_as="string", show_progress=False, allow_empty=False
    )
    return words


def _scores(ranking: Any) -> dict[str, float]:
    return dict(zip(ranking.ids, ranking.scores, strict=True))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, action="append", required=True, help="a BEIR folder; can be repeated")
    parser.add_argument("--slices", type=int, nargs="+", default=[768, 256, 128])
    return parser.parse_args()


if __name__ == "__main__":
    main()
