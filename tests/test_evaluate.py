"""Measures are ir-measures' own to the last digit; every judged query counts; slips are told in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from typer.testing import CliRunner, Result

from denslice.__main__ import app
from denslice.corpus.runs import read_qrels, read_run, write_run
from denslice.errors import InputError, MissingExtraError
from denslice.evaluate import Evaluation, as_run, evaluate, without_self
from denslice.evaluate.comparison import holm, p_values, paired_p
from denslice.evaluate.evaluation import Run
from denslice.rankings import Ranking

MEASURES = ("nDCG@10", "RR@10", "R@1000", "AP", "AP@5", "P@3", "RR", "nDCG", "R@2")
QRELS = "q1 0 d1 2\nq1 0 d2 1\nq1 0 d3 0\nq2 0 d4 1\nq3 0 d5 1\n"
RUN = "q1 Q0 d3 1 3.0 t\nq1 Q0 d1 2 2.0 t\nq2 Q0 d9 1 1.0 t\nq2 Q0 d4 2 0.5 t\nq8 Q0 d1 1 1.0 t\n"


def denslice(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def qrels(tmp_path: Path) -> Path:
    return write(tmp_path / "qrels.txt", QRELS)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write(tmp_path / "run.trec", RUN)


def evaluated(*arguments: object) -> Any:
    result = denslice("evaluate", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def by_ir_measures(qrels: Path, run: Path, by_query: bool = False) -> dict[tuple[str, str], float]:
    """What ir-measures' own command prints, by query and measure, `all` standing for the mean."""
    command = [sys.executable, "-m", "ir_measures", str(qrels), str(run), *MEASURES, "-o", "jsonl"]
    printed = subprocess.run([*command, "-q"] if by_query else command, check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in printed.stdout.splitlines()]
    return {(line.get("query_id", "all"), line["measure"]): line["value"] for line in lines}


# --- the same figures as ir-measures


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("ties", [False, True])
def test_measures_agree_with_the_command_of_ir_measures(tmp_path: Path, seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    judged = [f"q{q} 0 d{d} {rng.integers(-1, 4)}\n" for q in range(30) for d in rng.permutation(60)[:20]]
    scores = rng.integers(0, 8, (30, 60)) if ties else rng.standard_normal((30, 60))
    found = [f"q{q} Q0 d{d} 1 {scores[q, d]} t\n" for q in range(5, 35) for d in range(60) if q < 30]
    qrels, run = write(tmp_path / "qrels.txt", "".join(judged)), write(tmp_path / "run.trec", "".join(found))
    ours = evaluated(run, qrels, *(part for measure in MEASURES for part in ("-m", measure)), "--per-query")
    theirs = by_ir_measures(qrels, run, by_query=True)
    for measure in MEASURES:
        assert ours["runs"][0]["measures"][measure] == pytest.approx(theirs["all", measure], abs=1e-6)
        for query, value in ours["runs"][0]["per_query"][measure].items():
            assert value == pytest.approx(theirs[query, measure], abs=1e-6)
    assert len(theirs) == len(MEASURES) * 31


def test_the_order_a_run_was_written_in_is_the_order_every_measure_sees(tmp_path: Path) -> None:
    """ir-measures takes equal scores by id upwards for RR@10 and downwards for nDCG@10: there must be none."""
    ranking = Ranking("q1", ("d1", "d2", "d3"), (1.0, 1.0, 1.0))
    write_run(tmp_path / "run.trec", [ranking])
    for place, relevant in enumerate(ranking.ids, 1):
        qrels = write(tmp_path / "qrels.txt", f"q1 0 {relevant} 1\n")
        for found in (evaluated(tmp_path / "run.trec", qrels)["runs"][0]["measures"], evaluate_ranking(ranking, qrels)):
            assert found["RR@10"] == pytest.approx(1 / place)
            assert found["nDCG@10"] == pytest.approx(1 / np.log2(place + 1))


def evaluate_ranking(ranking: Ranking, qrels: Path) -> dict[str, float]:
    return evaluate(as_run([ranking]), read_qrels(qrels)).means


ids = st.sampled_from([f"d{i}" for i in range(8)])
runs = st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), st.lists(ids, min_size=1, unique=True), min_size=1)


@given(found=runs, relevant=st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), ids, min_size=3))
def test_rankings_are_measured_in_their_own_order(found: dict[str, list[str]], relevant: dict[str, str]) -> None:
    rankings = [Ranking(query, tuple(docs), tuple(1.0 for _ in docs)) for query, docs in found.items()]
    qrels = {query: {doc: 1} for query, doc in relevant.items()}
    ranks = {q: found[q].index(doc) + 1 for q, doc in relevant.items() if doc in found.get(q, [])}
    values = evaluate(as_run(rankings), qrels, ["RR", "R@2"]).per_query
    assert values["RR"] == pytest.approx({query: 1 / ranks[query] if query in ranks else 0.0 for query in relevant})
    assert values["R@2"] == {query: float(ranks.get(query, 9) <= 2) for query in relevant}


def test_ms_marco_runs_and_beir_judgements_give_what_trec_files_give(tmp_path: Path, qrels: Path, run: Path) -> None:
    beir = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t1\nq1\td3\t0\nq2\td4\t1\nq3\td5\t1\n"
    marco = "q1\td3\t1\nq1\td1\t2\nq2\td9\t1\nq2\td4\t2\n"
    both = (write(tmp_path / "run.tsv", marco), write(tmp_path / "test.tsv", beir))
    assert evaluated(*both)["runs"][0]["measures"] == evaluated(run, qrels)["runs"][0]["measures"]


# --- which queries count


def test_a_judged_query_without_results_counts_as_0_and_an_unjudged_one_not_at_all(run: Path, qrels: Path) -> None:
    found = evaluated(run, qrels, "-m", "RR@10", "--per-query")
    assert found["queries"] == 3
    assert found["runs"][0]["per_query"]["RR@10"] == {"q1": 0.5, "q2": 0.5, "q3": 0.0}
    assert found["runs"][0]["measures"]["RR@10"] == pytest.approx(1 / 3)
    text = denslice("evaluate", run, qrels).stdout
    assert "Means over 3 judged queries." in text
    assert f"{run} has results for 2 of them; the others count as 0." in text


def test_a_result_that_is_the_query_itself_is_left_out_when_asked(tmp_path: Path) -> None:
    run = write(tmp_path / "run.trec", "a Q0 a 1 3.0 t\na Q0 b 2 2.0 t\n")
    qrels = write(tmp_path / "qrels.txt", "a 0 b 1\n")
    assert evaluated(run, qrels, "-m", "RR@10")["runs"][0]["measures"]["RR@10"] == 0.5
    assert evaluated(run, qrels, "-m", "RR@10", "--exclude-self")["runs"][0]["measures"]["RR@10"] == 1.0
    assert without_self({"a": {"a": 1.0, "b": 1.0}, "b": {"a": 1.0}}) == {"a": {"b": 1.0}, "b": {"a": 1.0}}


def test_equal_scores_are_told(tmp_path: Path, qrels: Path) -> None:
    run = write(tmp_path / "run.trec", "q1 Q0 d1 1 1.0 t\nq1 Q0 d2 2 1.0 t\nq2 Q0 d4 1 1.0 t\n")
    assert f"{run} has equal scores in 1 of them; ir-measures decides" in denslice("evaluate", run, qrels).stdout


# --- runs side by side


def worse_run(run: Path) -> Path:
    return write(run.with_name("worse.trec"), RUN.replace("d4 2 0.5", "d7 2 0.5"))


def test_several_runs_stand_side_by_side_with_p_values(run: Path, qrels: Path) -> None:
    lines = denslice("evaluate", run, worse_run(run), qrels, "-m", "RR@10", "-m", "P@1").stdout.splitlines()
    assert lines[0].split() == ["RR@10", "P@1"]
    assert lines[1].split() == [str(run), "0.3333", "0.0000"]
    assert lines[2].split() == [str(run.with_name("worse.trec")), "0.1667", "(0.85)", "0.0000", "(1)"]
    assert lines[-1] == f"In brackets: p of a paired t-test against {run}, Holm-corrected for 2 comparisons."


def test_per_query_lines_have_a_column_for_each_run(run: Path, qrels: Path) -> None:
    result = denslice("evaluate", run, worse_run(run), qrels, "-m", "RR@10", "--per-query")
    assert [line.split("\t") for line in result.stdout.splitlines()] == [
        ["query", "measure", str(run), str(run.with_name("worse.trec"))],
        ["q1", "RR@10", "0.5000", "0.5000"],
        ["q2", "RR@10", "0.5000", "0.0000"],
        ["q3", "RR@10", "0.0000", "0.0000"],
    ]


def test_p_is_scipys_for_one_comparison_and_larger_for_several() -> None:
    rng = np.random.default_rng(0)
    values = [{str(q): value for q, value in enumerate(rng.random(50) + shift)} for shift in (0.0, 0.1, 0.2)]
    found = [Evaluation(f"run{i}", {"AP": 0.0}, {"AP": one}, 50, 0) for i, one in enumerate(values)]
    alone = [stats.ttest_rel(list(values[0].values()), list(one.values())).pvalue for one in values[1:]]
    assert p_values(found[:2])["run1", "AP"] == pytest.approx(alone[0])
    together = p_values(found)
    assert sorted(together.values()) == pytest.approx([2 * min(alone), max(alone)])


def test_holm_multiplies_by_what_is_left_and_never_falls() -> None:
    assert holm([0.04, 0.01, 0.03, 0.5]) == pytest.approx([0.09, 0.04, 0.09, 0.5])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_keeps_the_order_of_p_and_never_lowers_it(values: list[float]) -> None:
    corrected = holm(values)
    assert all(before <= after <= 1 for before, after in zip(values, corrected, strict=True))
    ordered = [corrected[i] for i in np.argsort(values, kind="stable")]
    assert ordered == sorted(ordered)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [([0.5], [0.7], None), ([0.5, 0.2], [0.5, 0.2], 1.0), ([0.5, 0.25], [0.75, 0.5], 0.0)],
    ids=["one query", "no difference", "the same difference everywhere"],
)
def test_p_of_odd_cases(one: list[float], other: list[float], expected: float | None) -> None:
    assert paired_p(dict(enumerate(one)), dict(enumerate(other))) == expected  # type: ignore[arg-type]


# --- slips


@pytest.mark.parametrize(
    ("measure", "problem"),
    [
        ("foo", "measure 'foo': measure not found: foo; expected a measure such as nDCG@10"),
        ("R", "measure 'R': it needs a cutoff"),
        ("P@0", "the cutoff must be a whole number of at least 1, not 0"),
        ("nDCG@-1", "measure 'nDCG@-1'"),
        ("nDCG@1.5", "not 1.5"),
        ("nDCG(", "measure 'nDCG('"),
        ("alpha_nDCG@10", "ir-measures cannot compute it with what is installed"),
    ],
)
def test_a_measure_that_cannot_be_computed_is_told_in_one_line(
    run: Path, qrels: Path, measure: str, problem: str
) -> None:
    result = denslice("evaluate", run, qrels, "-m", measure)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert problem in result.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("q1 Q0 d1 1 1.0\n", ":1: 5 columns, expected 6 (TREC) or 3 (MS MARCO)"),
        ("q1 Q0 d1 1 x t\n", ":1: score 'x' is not a number"),
        ("", ": has no results"),
        (
            "other Q0 d1 1 1.0 t\n",
            ": no query of the run is judged; its first query is 'other', that of the judgements 'q1'",
        ),
    ],
)
def test_a_run_that_cannot_be_measured_is_told_in_one_line(
    tmp_path: Path, qrels: Path, text: str, problem: str
) -> None:
    bad = write(tmp_path / "bad.trec", text)
    result = denslice("evaluate", bad, qrels)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", f"error: {bad}{problem}\n")


def test_judgements_alone_are_not_enough(qrels: Path) -> None:
    result = denslice("evaluate", qrels)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "name one or more runs and then the judgements" in result.stderr


def test_without_ir_measures_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_measures", None)
    with pytest.raises(MissingExtraError, match=r"evaluation needs optional packages: pip install 'denslice\[eval\]'"):
        evaluate({}, {})


def test_empty_rankings_are_no_answers() -> None:
    with pytest.raises(InputError, match="no query of the run is judged"):
        evaluate({"q1": {}}, {"q1": {"d1": 1}})


def test_reading_a_run_and_measuring_it_needs_no_order(run: Path, qrels: Path) -> None:
    found: Run = {ranking.query_id: dict(zip(ranking.ids, ranking.scores, strict=True)) for ranking in read_run(run)}
    backwards = {query: dict(reversed(list(docs.items()))) for query, docs in found.items()}
    judged = read_qrels(qrels)
    assert evaluate(found, judged, MEASURES).means == evaluate(backwards, judged, MEASURES).means
