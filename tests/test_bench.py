"""The benchmark itself: contenders find the best documents, builds are reused, and lines say what was measured."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ttest_1samp
from typer.testing import CliRunner

from denslice.__main__ import app
from denslice.bench.bench_data import DEPTH, BenchTexts, BenchVectors, best_by_product, best_documents, recall
from denslice.bench.bench_table import table
from denslice.bench.contender import Contender
from denslice.bench.cpu_bench import contenders
from denslice.bench.host_documents import HostDocuments, text_of, write_part
from denslice.bench.peers.faiss_peer import best_by_dense_product
from denslice.bench.timing import reportable
from denslice.errors import InputError
from denslice.search.gpu.gpu_share import GpuAnswer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,200 documents and 6 queries, sparse enough that a slicing of 768 loses nothing."""
    rng = np.random.default_rng(3)
    where = tmp_path_factory.mktemp("vectors")
    for name, rows in (("docs", 1_200), ("queries", 6)):
        weights = rng.gamma(2.0, 0.5, (rows, 300)) * (rng.random((rows, 300)) < 0.1)
        sp.save_npz(where / f"{name}.npz", sp.csr_matrix(weights.astype(np.float32)))
    return where


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 texts of five words each, and two questions, in BEIR's layout."""
    words = ["fox", "hound", "river", "stone", "night", "meadow", "winter", "bread", "candle", "ship"]
    where = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(5)
    docs = [{"_id": str(i), "text": " ".join(rng.choice(words, 5))} for i in range(40)]
    asked = [{"_id": "q1", "text": "a fox by the river"}, {"_id": "q2", "text": "bread and candles"}]
    for name, records in (("corpus", docs), ("queries", asked)):
        (where / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    (where / "qrels").mkdir()
    (where / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\t1\t1\nq2\t2\t1\n")
    return where


def test_the_best_by_product_are_the_best_scores_and_ties_go_by_position() -> None:
    docs = sp.csr_array(np.array([[1.0, 0], [0, 2], [3, 0], [1, 0]]))
    assert best_by_product(docs, sp.csr_array(np.array([[1.0, 1.0]]))).tolist() == [[2, 1, 0, 3]]


def test_recall_is_the_share_of_the_best_that_were_found() -> None:
    best = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    assert recall([np.array([2, 1, 9, 9]), np.array([5, 9, 9, 9])], best, 2) == pytest.approx(0.75)


OF_VECTORS, OF_TEXTS = contenders(BenchVectors(Path())), contenders(BenchTexts(Path()))


@pytest.mark.parametrize("contender", [one for one in OF_VECTORS if one.module != "seismic"], ids=lambda one: one.name)
def test_exact_contenders_find_the_best_documents(folder: Path, tmp_path: Path, contender: Contender) -> None:
    pytest.importorskip(contender.module)
    check_recall(contender, BenchVectors(folder), tmp_path, at_least=0.99)


def test_seismic_with_the_most_careful_settings_finds_most_of_the_best(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("seismic")
    check_recall(
        next(one for one in OF_VECTORS if one.module == "seismic"), BenchVectors(folder), tmp_path, at_least=0.9
    )


@pytest.mark.parametrize("contender", OF_TEXTS, ids=lambda one: one.name)
def test_searches_of_words_find_the_best_by_bm25(texts: Path, tmp_path: Path, contender: Contender) -> None:
    pytest.importorskip(contender.module)
    collection = BenchTexts(texts)
    contender.prepare(collection, tmp_path)
    contender.build(collection, tmp_path)
    opened = contender.open(collection, tmp_path)
    scores = (collection.queries @ collection.docs.T).toarray()
    for at in (1, 0):  # many documents score the same, so scores are compared
        found = opened.docs(opened.search(opened.query(at), 10, {}))
        assert scores[at][found] == pytest.approx(np.sort(scores[at])[::-1][:10], abs=1e-3)
    assert opened.search_all(10, {}) == 2


def check_recall(contender: Contender, collection: BenchVectors | BenchTexts, work: Path, at_least: float) -> None:
    contender.prepare(collection, work)
    contender.build(collection, work)
    opened = contender.open(collection, work)
    best = best_by_dense_product(work, DEPTH) if contender.dense else best_documents(collection, work, 10**6)
    setting = list(contender.settings(10))[-1]
    queries = range(collection.queries.shape[0])
    found = [opened.docs(opened.search(opened.query(at), 10, setting)) for at in queries]
    assert recall(found, best, 10) >= at_least
    assert opened.search_all(10, setting) == len(queries)


def test_the_command_appends_a_line_and_keeps_what_it_built(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "lines.jsonl"
    options = ["bench", "cpu", "--vectors", str(folder), "--work", str(tmp_path / "work"), "--out", str(out)]
    for only in (["denslice", "scipy"], ["scipy"]):
        chosen = [part for name in only for part in ("--only", name)]
        done = CliRunner().invoke(app, [*options, *chosen, "--repeats", "1"])
        assert done.exit_code == 0, done.output
    first, second = (json.loads(line) for line in out.read_text(encoding="utf-8").splitlines())
    ours, rough, scipy = first["figures"]["contenders"]
    assert [one["name"] for one in (ours, rough, scipy)] == ["denslice", "denslice, pruning", "scipy CSR"]
    assert [one["recall@10"] for one in ours["settings"] if one.get("reported")] == [1.0] * 3
    (again,) = second["figures"]["contenders"]
    assert (scipy["build"]["kept"], again["build"]["kept"]) == (False, True)
    assert "| denslice | 10 | 1.000 |" in table(first)
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    plots = importlib.import_module("recall_plot")
    assert plots.recall_against_time(first).startswith(b"<?xml")
    assert plots.time_against_size([first, second]).startswith(b"<?xml")


def test_quality_is_drawn_from_the_first_possible_search_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    grown = [{"seconds": 1.5, "ndcg@10": 0.4}, {"seconds": 20.0, "ndcg@10": 0.6}]
    contenders = [{"name": "denslice", "points": grown}, {"name": "peer", "points": grown[1:]}]
    figures = {"documents": 1200, "contenders": contenders}
    line = {"configuration": {"collection": "it:dev"}, "hardware": {"cores": 2}, "figures": figures}
    drawn = importlib.import_module("recall_plot").quality_against_seconds(line).decode()
    told = ["it:dev, 1,200 documents", "denslice: from 1.5 s", "peer: from 20.0 s", "since the start, 2 cores"]
    assert [one for one in told if one not in drawn] == []


def contender(name: str, *recalls: float, ms: float = 1.0) -> dict[str, Any]:
    """Figures of a contender that reached these recalls at k = 10, 100 and 1000."""
    ks = (10, 100, 1000)
    settings = [
        {"k": k, "setting": {}, "recall@10": found, f"recall@{k}": found, "p50_ms": ms, "p95_ms": ms, "reported": True}
        for k, found in zip(ks, recalls, strict=True)
    ]
    rates = [{"k": k, "queries_a_second": 7.0} for k in ks]
    build = {"build_s": 3.0, "bytes": 1000, "kept": False}
    facts = {"name": name, "documents": 10, "is_linear": True, "resident_bytes": 10}
    return facts | {"build": build, "settings": settings, "all_cores": rates}


def test_a_setting_that_misses_the_recall_has_no_times() -> None:
    both = [contender("denslice", 0.9699, 0.98, 0.98), contender("peer", 0.99, 0.99, 0.96, ms=5.0)]
    shape = {"documents": 10, "queries": 2, "weights_a_document": 3, "weights_a_query": 3}
    line = {"collection": "it", "figures": shape | {"contenders": both}}
    rows = table(line).splitlines()[4:]
    assert [row.split(" | ")[4:7] for row in rows] == [
        ["–"] * 3, ["1", "1", "7"], ["1", "1", "7"], ["5", "5", "7"], ["5", "5", "7"], ["–"] * 3
    ]  # fmt: skip


def test_of_settings_that_all_miss_the_recall_the_one_that_finds_most_is_reported() -> None:
    few = [{"recall@10": 0.5, "p50_ms": 1.0}, {"recall@10": 0.9, "p50_ms": 3.0}]
    assert reportable(few) == few[1]
    assert reportable([*few, {"recall@10": 0.98, "p50_ms": 9.0}, {"recall@10": 0.97, "p50_ms": 8.0}])["p50_ms"] == 8.0


def test_a_build_that_was_cut_short_is_begun_again(folder: Path, tmp_path: Path) -> None:
    from denslice.bench.builds import ABOUT, built

    ours, _ = contenders(BenchVectors(folder), ["denslice"])
    where, made = built(ours, BenchVectors(folder), tmp_path)
    assert not made["kept"]
    (where / ABOUT).unlink()
    again, made = built(ours, BenchVectors(folder), tmp_path)
    assert again == where
    assert not made["kept"]


def test_the_size_of_an_index_counts_everything_but_texts(folder: Path, tmp_path: Path) -> None:
    ours, _ = contenders(BenchVectors(folder), ["denslice"])
    ours.build(BenchVectors(folder), tmp_path)
    counted = {path for pattern in ours.files for path in tmp_path.glob(pattern) if path.is_file()}
    left_out = {path.name for path in tmp_path.rglob("*") if path.is_file()} - {path.name for path in counted}
    assert left_out == {"docs.sqlite"}


def test_unknown_contenders_and_missing_vectors_are_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no contender 'lucene'"):
        contenders(BenchVectors(folder), ["lucene"])
    done = CliRunner().invoke(app, ["bench", "cpu"])
    assert (done.exit_code, "--vectors FOLDER or --texts FOLDER" in done.output) == (2, True)
    done = CliRunner().invoke(app, ["bench", "cpu", "--vectors", str(tmp_path)])
    assert (done.exit_code, "docs.npz" in done.output) == (2, True)


def test_positions_become_ids_and_texts_as_in_a_reader(tmp_path: Path) -> None:
    for number, (first, rows) in enumerate([(0, 3), (3, 4)]):
        write_part(tmp_path / str(number), first, rows)
    host = HostDocuments([3, 4], tmp_path)
    answer = GpuAnswer(np.array([5, 1, 6, 0]), np.array([9, 7, 7, 2], np.float32), np.zeros(0, np.float32))
    found = host.ids(answer, 3)
    assert found.ids == ["doc-00000005", "doc-00000001", "doc-00000006"]  # equal scores by id
    assert [doc.text for doc in host.texts(found)] == [text_of(5), text_of(1), text_of(6)]


def test_an_interval_over_seeds_is_that_of_the_queries_or_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    intervals = importlib.import_module("seed_intervals")
    queries = np.random.default_rng(1).normal(0.02, 0.2, 400)
    low, high = ttest_1samp(queries, 0).confidence_interval(0.95)
    one = intervals.interval(queries[None])
    assert (one.mean - one.half, one.mean + one.half) == pytest.approx((low, high))
    alike = intervals.interval(np.tile(queries, (3, 1)))  # seeds that do not differ say no more than one
    assert (alike.half, alike.verdict) == (pytest.approx(one.half), one.verdict)
    apart = intervals.interval(queries + np.array([[-0.05], [0.0], [0.05]]))
    assert apart.mean == pytest.approx(one.mean)
    variance = 0.05**2 / 3 + queries.var(ddof=1) / 400  # of seeds and of queries
    assert apart.half > 1.96 * variance**0.5
    assert apart.verdict == "level"
