"""Judgements and runs are read as their makers wrote them, and written so that they come back the same."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denslice.corpus.runs import read_qrels, read_run, write_run
from denslice.errors import InputError
from denslice.evaluate.evaluation import evaluate_files
from denslice.rankings import Ranking

DATA = Path(os.environ.get("DENSLICE_DATA", Path(__file__).parents[2] / "shared" / "data"))
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no collections at {DATA}; set DENSLICE_DATA")


def write(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


# --- judgements


@pytest.mark.parametrize(
    "text",
    [
        "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n",
        "q1\td1\t2\nq1\td2\t0\n",
        "q1 0 d1 2\nq1 0 d2 0\n",
        "q1 Q0 d1 2\r\n\r\nq1 Q0 d2 0\r\n",
        "q1\t0\td1\t2\nq1\t0\td2\t0\n",
    ],
    ids=["beir", "beir without header", "trec", "trec Q0 crlf", "ms marco"],
)
@pytest.mark.parametrize("name", ["test.tsv", "qrels.gz"])
def test_every_form_of_judgements_reads_the_same(tmp_path: Path, name: str, text: str) -> None:
    assert read_qrels(write(tmp_path / name, text)) == {"q1": {"d1": 2, "d2": 0}}


def test_ids_with_spaces_survive_in_tab_separated_judgements(tmp_path: Path) -> None:
    assert read_qrels(write(tmp_path / "test.tsv", "q 1\tmy doc\t-1\n")) == {"q 1": {"my doc": -1}}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("q1 d1", ":2: 2 columns, expected `query document grade` or"),
        ("q1 0 d1 2 x", ":2: 5 columns, expected"),
        ("q1 0 d2 1.5", ":2: grade '1.5' is not a whole number"),
        ("q1\t\t1", ":2: the id is empty"),
        ("q1 0 d1 0", ":2: document 'd1' has grade 0 for query 'q1', and 2 in a line before"),
        ("query-id\tcorpus-id\tscore", ":2: grade 'score' is not a whole number"),
    ],
)
def test_a_bad_judgement_names_file_line_and_fault(tmp_path: Path, line: str, problem: str) -> None:
    path = write(tmp_path / "qrels.txt", f"q1 0 d1 2\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_qrels(path)
    assert str(caught.value).startswith(f"{path}{problem}")


def test_a_judgement_given_twice_alike_is_no_trouble(tmp_path: Path) -> None:
    assert read_qrels(write(tmp_path / "qrels.txt", "q1 0 d1 2\nq1 0 d1 2\n")) == {"q1": {"d1": 2}}


@pytest.mark.parametrize("text", ["", "query-id\tcorpus-id\tscore\n"])
def test_a_file_without_judgements_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"test.tsv: has no judgements"):
        read_qrels(write(tmp_path / "test.tsv", text))


def test_a_folder_of_judgements_asks_for_one_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"is a folder; give the path of one file, such as .*qrels/test.tsv"):
        read_qrels(tmp_path)


def test_missing_judgements_and_runs_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: no such file"):
        read_qrels(tmp_path / "nowhere")
    with pytest.raises(InputError, match="nowhere: no such file"):
        read_run(tmp_path / "nowhere")


# --- runs


def test_a_trec_run_is_ordered_by_score_then_document_id(tmp_path: Path) -> None:
    text = "q2 Q0 c 1 1.5 t\nq1 Q0 x 1 -1e-3 t\nq2 Q0 b 2 1.5 t\nq2 Q0 a 3 7 t\n"
    assert read_run(write(tmp_path / "run.trec", text)) == [
        Ranking("q2", ("a", "b", "c"), (7.0, 1.5, 1.5)),
        Ranking("q1", ("x",), (-0.001,)),
    ]


@pytest.mark.parametrize("name", ["run.tsv", "run.tsv.gz"])
def test_an_ms_marco_run_scores_by_one_over_rank(tmp_path: Path, name: str) -> None:
    run = read_run(write(tmp_path / name, "q1\tb\t2\nq1\ta\t1\n"))
    assert run == [Ranking("q1", ("a", "b"), (1.0, 0.5))]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("q1 Q0 d2 2 1.0", ":2: 5 columns, expected 6"),
        ("q1 d2 1", ":2: 3 columns, expected 6, as in the lines before"),
        ("q1 Q0 d2 2 high t", ":2: score 'high' is not a number"),
        ("q1 Q0 d2 2 nan t", ":2: score 'nan' is not finite"),
        ("q1 Q0 d1 2 0.5 t", ":2: document 'd1' occurs twice for query 'q1'"),
    ],
)
def test_a_bad_run_line_names_file_line_and_fault(tmp_path: Path, line: str, problem: str) -> None:
    path = write(tmp_path / "run.trec", f"q1 Q0 d1 1 2.0 t\n{line}\n")
    with pytest.raises(InputError) as caught:
        read_run(path)
    assert str(caught.value).startswith(f"{path}{problem}")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("q1\td1\t0\n", ":1: rank 0 is below 1"),
        ("q1\td1\tfirst\n", ":1: rank 'first' is not a whole number"),
        ("q1 d1\n", ":1: 2 columns, expected 6 (TREC) or 3 (MS MARCO)"),
        ("", ": has no results"),
    ],
)
def test_a_bad_first_line_of_a_run_is_named(tmp_path: Path, text: str, problem: str) -> None:
    path = write(tmp_path / "run.tsv", text)
    with pytest.raises(InputError) as caught:
        read_run(path)
    assert str(caught.value) == f"{path}{problem}"


def test_a_run_is_written_in_six_columns_and_its_lines_are_counted(tmp_path: Path) -> None:
    rankings = [Ranking("q1", ("b", "a"), (2.0, 0.1)), Ranking("q2", (), ()), Ranking("q3", ("é",), (-1.0,))]
    assert write_run(tmp_path / "run.trec", iter(rankings)) == 3
    text = (tmp_path / "run.trec").read_text(encoding="utf-8")
    assert text == "q1 Q0 b 1 2.0 denslice\nq1 Q0 a 2 0.1 denslice\nq3 Q0 é 1 -1.0 denslice\n"


def test_a_run_named_gz_is_written_gzipped(tmp_path: Path) -> None:
    write_run(tmp_path / "run.trec.gz", [Ranking("q", ("a",), (1.0,))], tag="mine")
    assert gzip.decompress((tmp_path / "run.trec.gz").read_bytes()) == b"q Q0 a 1 1.0 mine\n"


def test_scores_of_float32_that_differ_in_the_last_bit_stay_apart(tmp_path: Path) -> None:
    low: Any = np.float32(123.45678)
    high: Any = np.nextafter(low, np.float32(np.inf))
    write_run(tmp_path / "run.trec", [Ranking("q", ("z", "a"), (high, low))])
    assert read_run(tmp_path / "run.trec") == [Ranking("q", ("z", "a"), (float(high), float(low)))]


words = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=5)
floats = st.floats(-(2.0**100), 2.0**100, width=32)
found = st.dictionaries(words, floats, min_size=1, max_size=5)


@given(run=st.dictionaries(words, found, min_size=1, max_size=4))
def test_writing_then_reading_a_run_gives_the_same_order_and_scores_and_no_ties(
    tmp_path_factory: pytest.TempPathFactory, run: dict[str, dict[str, float]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "run.trec"
    rankings = []
    for query, scores in run.items():
        best = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
        rankings.append(Ranking(query, tuple(doc for doc, _ in best), tuple(score for _, score in best)))
    assert write_run(path, rankings) == sum(map(len, run.values()))
    for read, written in zip(read_run(path), rankings, strict=True):
        assert (read.query_id, read.ids) == (written.query_id, written.ids)
        assert np.all(np.diff(np.array(read.scores, dtype=np.float32)) < 0)
        if len(set(written.scores)) == len(written.scores):
            assert read.scores == written.scores
        assert read.scores == pytest.approx(written.scores, rel=1e-6, abs=1e-40)


def test_equal_scores_are_written_a_step_apart_so_that_every_tool_keeps_their_order(tmp_path: Path) -> None:
    write_run(tmp_path / "run.trec", [Ranking("q", ("a", "b", "c", "d"), (2.0, 2.0, 2.0, 1.0))])
    step = 2.0**-23
    assert read_run(tmp_path / "run.trec")[0].scores == (2.0, 2.0 - step, 2.0 - 2 * step, 1.0)


@pytest.mark.parametrize(
    ("ranking", "problem"),
    [
        (Ranking("q", ("my doc", "my%20doc"), (1.0, 0.5)), "two documents would both be 'my%20doc'"),
        (Ranking("my query", ("a",), (1.0,)), "query id 'my query' is empty or has white space"),
        (Ranking("q", ("a",), (float("nan"),)), "score of document 'a' for query 'q' is nan"),
    ],
)
def test_what_a_run_cannot_hold_is_refused_and_the_old_file_stays(
    tmp_path: Path, ranking: Ranking, problem: str
) -> None:
    path = write(tmp_path / "run.trec", "old\n")
    with pytest.raises(InputError, match=problem):
        write_run(path, [Ranking("ok", ("a",), (1.0,)), ranking])
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("run.trec", "old\n")]


def test_a_tag_with_a_space_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tag 'my run'"):
        write_run(tmp_path / "run.trec", [], tag="my run")


def test_a_run_that_fails_halfway_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[Ranking]:
        yield Ranking("q", ("a",), (1.0,))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_run(tmp_path / "run.trec", failing())
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_not_written_over_a_folder_or_into_a_missing_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a file"):
        write_run(tmp_path, [])
    with pytest.raises(InputError, match=r"run.trec: cannot be written: No such file or directory"):
        write_run(tmp_path / "missing" / "run.trec", [])
    file = write(tmp_path / "file", "x")
    with pytest.raises(InputError, match=r"run.trec: cannot be written: Not a directory"):
        write_run(file / "run.trec", [])


# --- real judgements


@needs_data
@pytest.mark.parametrize(
    ("name", "queries", "judgements"),
    [
        ("msmarco-topics-qrels/qrels.dl19-passage.txt", 43, 9260),
        ("msmarco-topics-qrels/qrels.dl20-passage.txt", 54, 11386),
        ("msmarco-topics-qrels/qrels.msmarco-passage.dev-subset.txt", 6980, 7437),
        ("scifact/qrels/test.tsv", 300, 339),
        ("msmarco-toy/qrels/train.tsv", 100, 100),
    ],
)
def test_real_judgements_are_read_whole(name: str, queries: int, judgements: int) -> None:
    qrels = read_qrels(DATA / name)
    assert (len(qrels), sum(map(len, qrels.values()))) == (queries, judgements)


def test_ids_with_spaces_are_written_as_in_an_address_and_meet_those_of_qrels(tmp_path: Path) -> None:
    write_run(tmp_path / "run.trec", [Ranking("q", ("notes/my fox.md", "a\u00a0b", "100%"), (3.0, 2.0, 1.0))])
    lines = (tmp_path / "run.trec").read_text().splitlines()
    assert [line.split()[2] for line in lines] == ["notes/my%20fox.md", "a%C2%A0b", "100%"]
    (tmp_path / "qrels.tsv").write_text("q\tnotes/my fox.md\t1\n")
    (found,) = evaluate_files([tmp_path / "run.trec"], tmp_path / "qrels.tsv", ["RR"])
    assert found.means == {"RR": 1.0}
