"""BM25 through an index, on Cranfield: without slices it ranks as bm25s, and 768 learned slices lose little."""

import os
from dataclasses import replace
from pathlib import Path

import bm25s
import ir_measures
import numpy as np
import pytest
import Stemmer

from denslice import Doc, Index, Query
from denslice.analysis.analyzer import Analyzer
from denslice.corpus.documents import read_docs, read_queries
from denslice.corpus.runs import read_qrels
from denslice.index.create import new_manifest
from denslice.options import IndexOptions
from denslice.store import snapshot

DATA = Path(os.environ.get("DENSLICE_DATA", Path(__file__).parents[2] / "shared" / "data"))
CRANFIELD = DATA / "cranfield"

pytestmark = pytest.mark.skipif(not CRANFIELD.is_dir(), reason=f"no cranfield in {DATA}; set DENSLICE_DATA")

Qrels = dict[str, dict[str, int]]
Run = dict[str, dict[str, float]]


@pytest.fixture(scope="module")
def docs() -> list[Doc]:
    return list(read_docs([CRANFIELD]))


@pytest.fixture(scope="module")
def qrels() -> Qrels:
    return read_qrels(CRANFIELD / "qrels" / "test.tsv")


@pytest.fixture(scope="module")
def queries(qrels: Qrels) -> list[Query]:
    return [query for query in read_queries(CRANFIELD) if query.id in qrels]


@pytest.fixture(scope="module")
def undensified(tmp_path_factory: pytest.TempPathFactory, docs: list[Doc], queries: list[Query], qrels: Qrels) -> float:
    path = tmp_path_factory.mktemp("undensified") / "it.idx"
    index = uncut(path, IndexOptions("bm25", options=as_bm25s(docs)))
    index.add(docs)
    return ndcg(run(index, queries), qrels)


def test_bm25_without_slices_ranks_as_bm25s_does(
    undensified: float, docs: list[Doc], queries: list[Query], qrels: Qrels
) -> None:
    assert undensified == pytest.approx(ndcg(bm25s_run(docs, queries), qrels), abs=0.002)


@pytest.mark.parametrize("query", ["full", "sliced"])
def test_learned_768_slices_stay_within_one_percent_of_no_slicing(
    query: str, tmp_path: Path, undensified: float, docs: list[Doc], queries: list[Query], qrels: Qrels
) -> None:
    sliced = IndexOptions("bm25", slices=768, slicing="learned", query=query, options=as_bm25s(docs))
    index = uncut(tmp_path / "it.idx", sliced)
    index.add(docs)
    assert ndcg(run(index, queries), qrels) == pytest.approx(undensified, rel=0.01)


def uncut(path: Path, options: IndexOptions) -> Index:
    """An index whose documents are not cut into passages, as bm25s knows none."""
    snapshot.create(path, replace(new_manifest(options), passages=False))
    return Index.open(path)


def as_bm25s(docs: list[Doc]) -> dict[str, float]:
    """The average length that bm25s measures, and titles that count as text, as it knows no fields."""
    return {"average_length": sum(len(Analyzer().words(doc.contents)) for doc in docs) / len(docs), "title": 1.0}


def run(index: Index, queries: list[Query]) -> Run:
    rankings = list(index.rank(queries, 100))
    assert [ranking.query_id for ranking in rankings] == [query.id for query in queries]
    return {ranking.query_id: dict(zip(ranking.ids, ranking.scores, strict=True)) for ranking in rankings}


def bm25s_run(docs: list[Doc], queries: list[Query]) -> Run:
    index = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    index.index(bm25s_words([doc.contents for doc in docs]), show_progress=False)
    rows, scores = index.retrieve(bm25s_words([query.text for query in queries]), k=100, show_progress=False)
    ids = np.array([doc.id for doc in docs], dtype=object)[rows]
    pairs = zip(queries, ids, scores, strict=True)
    return {query.id: dict(zip(best.tolist(), theirs.tolist(), strict=True)) for query, best, theirs in pairs}


def bm25s_words(texts: list[str]) -> list[list[str]]:
    tokenizer = bm25s.tokenization.Tokenizer(stopwords="en", stemmer=Stemmer.Stemmer("english"))
    # allow_empty=True would give an empty text one word and so a length
    words: list[list[str]] = tokenizer.tokenize(
        texts, update_vocab=True, return_as="string", show_progress=False, allow_empty=False
    )
    return words


def ndcg(run: Run, qrels: Qrels) -> float:
    return ir_measures.calc_aggregate([ir_measures.nDCG @ 10], qrels, run)[ir_measures.nDCG @ 10]
