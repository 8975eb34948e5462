"""The PyTerrier adapter, in pipelines and experiments of the real library, without Java."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from adapted import CATS, NOT_A_K

pytest.importorskip("pyterrier", reason="the PyTerrier adapter needs the extra pyterrier")

import pandas as pd
import pyterrier as pt
from ir_measures import AP, nDCG
from pyterrier import testing

from denslice import Index, InputError, Query
from denslice.adapters.pyterrier import DensliceIndexer, DensliceRetriever

os.environ["PT_TEST_TRANSFORMER_REPORTS"] = "0"  # they are warnings
CORPUS = [{"docno": one["id"], **{name: one[name] for name in one if name != "id"}} for one in CATS]
TOPICS = pd.DataFrame(
    {"qid": ["1", "2", "3"], "query": ["sleeping cats", "-owls at night", "zebra"], "of": ["a", "b", "c"]}
)
QRELS = pd.DataFrame({"qid": ["1", "2"], "docno": ["cats", "owls"], "label": [1, 1]})


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return DensliceIndexer(tmp_path_factory.mktemp("pyterrier") / "c.idx", "bm25", phrases=0.1).index(iter(CORPUS))


class TestStandardTransformer(testing.TransformerTestCase):
    """What PyTerrier expects of any transformer: columns that can be inspected, and a schematic."""

    folder: TemporaryDirectory[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = TemporaryDirectory()
        super().setUpClass()  # type: ignore[no-untyped-call]

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()  # type: ignore[no-untyped-call]
        cls.folder.cleanup()

    @classmethod
    def get_transformer(cls) -> DensliceRetriever:
        index = DensliceIndexer(Path(cls.folder.name) / "s.idx", "bm25").index(CORPUS)
        return DensliceRetriever(index, fields=["text"])


def test_results_are_those_of_the_index_with_the_columns_of_the_queries(index: Index) -> None:
    results = DensliceRetriever(index).transform(TOPICS)
    assert list(results.columns) == ["qid", "query", "of", "docno", "score", "rank"]
    rankings = index.rank([Query(*both) for both in zip(TOPICS["qid"], TOPICS["query"], strict=True)])
    expected = [
        (ranking.query_id, id, score, rank)
        for ranking in rankings
        for rank, (id, score) in enumerate(zip(ranking.ids, ranking.scores, strict=True))
    ]
    found = results[["qid", "docno", "score", "rank"]].itertuples(index=False, name=None)
    assert list(found) == expected
    assert {qid for qid, *_ in expected} == {"1", "2"}  # none for a zebra; and a minus is no operator
    assert results[results["qid"] == "2"].iloc[0]["docno"] == "owls"
    assert set(results[results["qid"] == "1"]["of"]) == {"a"}


def test_fields_are_columns(index: Index) -> None:
    results = DensliceRetriever(index, fields=["text", "title", "year"]).search("cats").set_index("docno")
    assert results.loc["cats"][["text", "title", "year"]].tolist() == ["Cats sleep all day.", "On cats", 2020]
    assert results.loc["owls"][["title", "year"]].tolist() == [None, None]


def test_a_retriever_takes_the_options_of_a_search(index: Index) -> None:
    assert DensliceRetriever(index, where={"lang": "de"}).search("cats")["docno"].tolist() == ["dogs"]
    assert len(DensliceRetriever(index, num_results=2).search("cats")) == 2
    with pytest.raises(InputError, match="mode must be one of"):
        DensliceRetriever(index, mode="fast")
    with pytest.raises(pt.validate.InputValidationError, match="query"):
        DensliceRetriever(index)(TOPICS[["qid"]])


@pytest.mark.parametrize("k", NOT_A_K, ids=repr)
def test_a_retriever_refuses_what_is_no_number_of_results(index: Index, k: Any) -> None:
    with pytest.raises(InputError, match="num_results must be a whole number of at least 1"):
        DensliceRetriever(index, num_results=k)


def test_retrievers_compose_with_operators(index: Index) -> None:
    whole = DensliceRetriever(index)
    lowered = pt.apply.query(lambda row: row["query"].replace("zebra", "dogs")) >> whole
    assert lowered.transform(TOPICS).query("qid == '3'")["docno"].tolist() == ["dogs"]
    both = (whole + 2 * whole).transform(TOPICS).set_index(["qid", "docno"])["score"]
    alone = whole.transform(TOPICS).set_index(["qid", "docno"])["score"]
    assert both.sort_index().tolist() == pytest.approx((3 * alone).sort_index().tolist())
    reranked = whole >> pt.apply.doc_score(lambda row: -row["score"])
    assert reranked.search("sleeping cats")["docno"].tolist()[::-1] == whole.search("sleeping cats")["docno"].tolist()


def test_a_cutoff_becomes_a_search_for_fewer_documents(index: Index) -> None:
    whole = DensliceRetriever(index, fields=["text"])
    compiled = (whole % 2).compile()
    assert isinstance(compiled, DensliceRetriever)
    assert (compiled.num_results, whole.num_results) == (2, 1000)
    pd.testing.assert_frame_equal(
        compiled.transform(TOPICS), (whole % 2).transform(TOPICS)[compiled.transform(TOPICS).columns], check_dtype=False
    )
    assert DensliceRetriever(index, num_results=1).fuse_rank_cutoff(5).num_results == 1


def test_pipelines_are_compared_and_tuned_by_experiments(index: Index) -> None:
    retriever = DensliceRetriever(index)
    german = DensliceRetriever(index, where={"lang": "de"})
    figures = pt.Experiment([retriever % 1, german], TOPICS, QRELS, [AP, nDCG @ 10], names=["best", "german"])
    assert figures.set_index("name").loc["best"].tolist() == [1.0, 1.0]
    assert figures.set_index("name").loc["german"].tolist() == [0.0, 0.0]
    search: Any = pt.GridSearch  # whose types know of numbers and texts only
    tuned = search(german, {german: {"where": [{"lang": "de"}, None]}}, TOPICS, QRELS, "map", verbose=False)
    assert tuned.where is None


def test_a_pipeline_ends_in_an_indexer(tmp_path: Path) -> None:
    def shouted(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(text=frame["text"].str.upper())

    pipeline: Any = pt.apply.generic(shouted) >> DensliceIndexer(tmp_path / "p.idx", "bm25")
    made = pipeline.index(iter(CORPUS))
    assert made.search("dogs")[0].text == "DOGS CHASE CATS."
    assert made.search("title:cats")[0].title == "On cats"
    with pytest.raises(InputError, match="a document has no field 'text', only docno, body; rename one"):
        DensliceIndexer(tmp_path / "e.idx", "bm25").index([{"docno": "1", "body": "a"}])


def test_no_java_was_needed() -> None:
    assert not pt.java.started()
    assert "jnius" not in sys.modules
