"""The command line: what it prints where, and how it fails: one line, exit status 2, nothing half-made."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from command_line import assert_one_line, denslice, on_terminal, process, write_docs
from denslice import __version__
from denslice.corpus.runs import read_run
from denslice.index.index import Index
from waiting import wait_until

DOCS: list[dict[str, Any]] = [
    {"id": "cats", "title": "On cats", "text": "The cats sat on the mat, easily.", "year": 2020},
    {"id": "dogs", "text": "Dogs chase cats."},
    {"id": "tags", "text": "A text with [bold]tags[/bold] and an escape \x1b[31m in it."},
]

Snapshot = Mapping[str, str]


def write_npz(path: Path, ids: list[str], rows: list[list[float]]) -> Path:
    matrix = sp.csr_array(np.array(rows, dtype=np.float32))
    arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    np.savez(path, format=np.array(b"csr"), ids=np.array(ids), _is_array=True, **arrays)
    return path


def contents(folder: Path) -> Snapshot:
    """Every file under the folder by its digest; the write lock is no part of an index."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "my.idx"
    result = denslice("index", write_docs(tmp_path / "docs.jsonl", DOCS), "--to", folder, "--encoder", "bm25")
    assert result.exit_code == 0, result.output
    return folder


# --- indexing


def test_index_makes_an_index_and_says_so_in_a_line_for_each_level(tmp_path: Path) -> None:
    result = denslice("index", write_docs(tmp_path / "docs.jsonl", DOCS), "--to", tmp_path / "my.idx")
    quick, deep = result.stdout.splitlines()
    assert quick.startswith(f"indexed 3 documents into {tmp_path / 'my.idx'} (")
    assert deep.startswith(f"deepened 3 documents of {tmp_path / 'my.idx'} (")
    assert result.stderr == ""
    assert len(Index.open(tmp_path / "my.idx")) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs.jsonl", "my.idx"]


def test_index_adds_to_an_index_that_is_there(index: Path, tmp_path: Path) -> None:
    more = write_docs(tmp_path / "more.jsonl", [{"id": "birds", "text": "Birds sing."}])
    result = denslice("index", more, "--to", index)
    assert result.stdout.startswith("indexed 1 document into")
    assert {doc.id for doc in Index.open(index).docs()} == {"cats", "dogs", "tags", "birds"}


def test_index_passes_its_options_on(tmp_path: Path) -> None:
    docs = write_docs(tmp_path / "docs.jsonl", DOCS)
    options = ["--slices", "16", "--slicing", "random", "--query", "sliced", "--language", "german", "--skip", "1"]
    assert denslice("index", docs, "--to", tmp_path / "my.idx", *options, "--seed", "7").exit_code == 0
    info = Index.open(tmp_path / "my.idx").info()
    assert (info["slices"], info["slicing"], info["query"], info["skip"]) == (16, "random", "sliced", 1)
    assert info["encoder_options"]["language"] == "german"


def test_index_makes_missing_parent_folders_and_takes_an_empty_folder(tmp_path: Path) -> None:
    docs = write_docs(tmp_path / "docs.jsonl", DOCS)
    (tmp_path / "empty").mkdir()
    for to in (tmp_path / "a" / "b" / "my.idx", tmp_path / "empty"):
        assert denslice("index", docs, "--to", to).exit_code == 0
        assert len(Index.open(to)) == 3


def test_index_takes_ready_vectors_of_several_npz_files_in_one_commit(tmp_path: Path) -> None:
    one = write_npz(tmp_path / "one.npz", ["a"], [[1.0, 0.0, 2.0]])
    two = write_npz(tmp_path / "two.npz", ["b", "c"], [[0.0, 3.0, 0.0], [1.0, 1.0, 0.0]])
    result = denslice("index", one, two, "--to", tmp_path / "my.idx", "--slicing", "stride", "--slices", "3")
    assert result.exit_code == 0, result.output
    index = Index.open(tmp_path / "my.idx")
    assert (index.info()["encoder"], index.info()["vocabulary"], index.info()["segments"]) == ("vectors", 3, 1)
    assert [hit.id for hit in index.search_vectors(sp.csr_array([[0.0, 1.0, 0.0]]))] == ["b", "c"]


def test_index_takes_ready_vectors_of_json_lines(tmp_path: Path) -> None:
    docs = write_docs(tmp_path / "docs.jsonl", [{"id": "a", "vector": {"cat": 1.5}}])
    assert denslice("index", docs, "--to", tmp_path / "my.idx", "--encoder", "vectors").exit_code == 0
    assert Index.open(tmp_path / "my.idx").info()["encoder"] == "vectors"


# --- indexing that fails


BAD_LINES = {
    "broken JSON": ('{"id": "a", "text": ', "broken JSON"),
    "no id": ('{"text": "x"}', "no id"),
    "duplicate id": ('{"id": "first", "text": "x"}', "'first' was already used"),
    "fraction as id": ('{"id": 7.5, "text": "x"}', "id 7.5 is float, expected a string or a whole number"),
    "NaN": ('{"id": "a", "vector": {"x": NaN}}', "NaN"),
    "infinite": ('{"id": "a", "vector": {"x": 1e999}}', "inf"),
    "negative": ('{"id": "a", "vector": {"x": -1}}', "-1"),
}


@pytest.mark.parametrize(("line", "told"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_named_and_nothing_is_left(tmp_path: Path, line: str, told: str) -> None:
    docs = tmp_path / "docs.jsonl"
    docs.write_text('{"id": "first", "text": "x", "vector": {"x": 1}}\n' + line + "\n")
    result = denslice("index", docs, "--to", tmp_path / "new" / "my.idx", "--encoder", "vectors")
    assert_one_line(result, f"{docs}:2: ", told)
    assert list(tmp_path.iterdir()) == [docs]


@pytest.mark.parametrize(("line", "told"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_leaves_an_index_unchanged(index: Path, tmp_path: Path, line: str, told: str) -> None:
    before, docs = contents(index), tmp_path / "bad.jsonl"
    docs.write_text('{"id": "first", "text": "x"}\n' + line + "\n")
    assert_one_line(denslice("index", docs, "--to", index), f"{docs}:2: ", told)
    assert contents(index) == before


def empty_file(tmp_path: Path) -> Path:
    path = tmp_path / "empty.jsonl"
    path.write_text("\n\n")
    return path


def bare_folder(tmp_path: Path) -> Path:
    path = tmp_path / "bare"
    path.mkdir()
    (path / ".hidden").write_bytes(b"")
    return path


def missing_file(tmp_path: Path) -> Path:
    return tmp_path / "missing.jsonl"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (empty_file, "has no documents"),
        (bare_folder, "nothing to read in this folder"),
        (missing_file, "no such file or folder"),
    ],
    ids=["empty file", "folder with nothing to read", "missing file"],
)
def test_an_input_without_documents_is_named(
    index: Path, tmp_path: Path, make: Callable[[Path], Path], told: str
) -> None:
    source, before = make(tmp_path), contents(tmp_path)
    assert_one_line(denslice("index", source, "--to", tmp_path / "new.idx"), str(source), told)
    assert_one_line(denslice("index", source, "--to", index), str(source), told)
    assert contents(tmp_path) == before
    assert not (tmp_path / "new.idx").exists()


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -1.0])
def test_weights_that_are_not_finite_or_negative_are_refused_in_npz_files(tmp_path: Path, weight: float) -> None:
    source = write_npz(tmp_path / "vectors.npz", ["a"], [[1.0, weight]])
    assert_one_line(denslice("index", source, "--to", tmp_path / "my.idx"), f"{source}: vectors hold")
    assert list(tmp_path.iterdir()) == [source]


def test_vectors_of_another_vocabulary_are_refused(tmp_path: Path) -> None:
    three = write_npz(tmp_path / "three.npz", ["a"], [[1.0, 2.0, 3.0]])
    two = write_npz(tmp_path / "two.npz", ["b"], [[1.0, 2.0]])
    assert denslice("index", three, "--to", tmp_path / "my.idx").exit_code == 0
    before = contents(tmp_path)
    told = f"{two}: vectors have 2 columns, expected a vocabulary of 3"
    assert_one_line(denslice("index", two, "--to", tmp_path / "my.idx"), told)
    assert_one_line(denslice("index", three, two, "--to", tmp_path / "new.idx"), told)
    assert_one_line(denslice("index", two, "--to", tmp_path / "new.idx", "--vocab", "3"), told)
    assert contents(tmp_path) == before


def test_npz_files_go_with_no_other_encoder_and_no_other_files(index: Path, tmp_path: Path) -> None:
    source, new = write_npz(tmp_path / "vectors.npz", ["a"], [[1.0]]), tmp_path / "new.idx"
    assert_one_line(denslice("index", source, "--to", index), str(source), "--encoder bm25")
    assert_one_line(denslice("index", source, "--to", new, "--encoder", "bm25"), str(source), "--encoder bm25")
    assert_one_line(denslice("index", source, tmp_path / "docs.jsonl", "--to", new), str(tmp_path / "docs.jsonl"))
    assert_one_line(denslice("index", source, source, "--to", new), str(source), "'a' was already used")


def test_lines_with_vectors_want_the_encoder_named(tmp_path: Path) -> None:
    docs = write_docs(tmp_path / "docs.jsonl", [{"id": "a", "text": "cat", "vector": {"cat": 1.5}}])
    assert_one_line(denslice("index", docs, "--to", tmp_path / "my.idx"), "'a' has a ready vector", "--encoder vectors")
    assert denslice("index", docs, "--to", tmp_path / "my.idx", "--encoder", "bm25").exit_code == 0


@pytest.mark.parametrize(
    ("option", "value", "made"),
    [
        ("encoder", "vectors", "bm25"),
        ("slices", "5", "768"),
        ("slicing", "stride", "learned"),
        ("query", "sliced", "full"),
        ("skip", "1", "0"),
    ],
)
def test_options_that_are_not_the_index_own_are_refused(tmp_path: Path, option: str, value: str, made: str) -> None:
    index, given = tmp_path / "my.idx", write_docs(tmp_path / "docs.jsonl", DOCS)
    assert denslice("index", given, "--to", index, "--encoder", "bm25", "--slices", "768").exit_code == 0
    before, docs = contents(index), write_docs(tmp_path / "more.jsonl", [{"id": "new", "text": "x"}])
    told = f"was made with --{option} {made}, not {value}"
    assert_one_line(denslice("index", docs, "--to", index, f"--{option}", value), f"{index}: ", told)
    assert contents(index) == before
    assert denslice("index", docs, "--to", index, f"--{option}", made).exit_code == 0


def test_an_index_that_keeps_every_token_cannot_be_sliced_later(index: Path, tmp_path: Path) -> None:
    docs = write_docs(tmp_path / "more.jsonl", [{"id": "new", "text": "x"}])
    for option, value in (("slices", "5"), ("slicing", "learned")):
        told = f"was made without --{option}, not {value}"
        assert_one_line(denslice("index", docs, "--to", index, f"--{option}", value), f"{index}: ", told)


def test_a_slicing_without_slices_is_refused(tmp_path: Path) -> None:
    docs = write_docs(tmp_path / "docs.jsonl", DOCS)
    for option in ("--slicing=stride", "--query=sliced"):
        assert_one_line(denslice("index", docs, "--to", tmp_path / "my.idx", option), "give slices too")
    assert list(tmp_path.iterdir()) == [docs]


@pytest.mark.parametrize("option", ["--slicing=odd", "--encoder=odd", "--query=odd", "--slices=0", "--language=odd"])
def test_settings_that_cannot_be_leave_nothing(tmp_path: Path, option: str) -> None:
    docs = write_docs(tmp_path / "docs.jsonl", DOCS)
    assert_one_line(denslice("index", docs, "--to", tmp_path / "new" / "my.idx", option))
    assert list(tmp_path.iterdir()) == [docs]


def test_an_index_is_not_made_over_something_else(tmp_path: Path) -> None:
    docs, folder = write_docs(tmp_path / "docs.jsonl", DOCS), tmp_path / "photos"
    folder.mkdir()
    (folder / "cat.jpg").write_bytes(b"cat")
    before = contents(tmp_path)
    assert_one_line(denslice("index", docs, "--to", folder), f"{folder}: ", "not an index")
    assert_one_line(denslice("index", docs, "--to", docs), f"{docs}: ", "is a file")
    assert contents(tmp_path) == before


def test_an_index_of_another_format_is_refused(index: Path, tmp_path: Path) -> None:
    manifest = index / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    before = contents(index)
    commands = [("search", index, "cats"), ("info", index), ("verify", index)]
    commands += [("index", tmp_path / "docs.jsonl", "--to", index)]
    for command in commands:
        assert_one_line(denslice(*command), str(manifest), "format 99", "upgrade")
    assert contents(index) == before


def test_where_nothing_can_be_made_one_line_says_so(tmp_path: Path) -> None:
    docs = write_docs(tmp_path / "docs.jsonl", DOCS)
    assert_one_line(denslice("index", docs, "--to", "/proc/my.idx"), "/proc/my.idx: cannot make an index here")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_without_permission_to_write_one_line_says_so(index: Path, tmp_path: Path) -> None:
    docs, before = write_docs(tmp_path / "more.jsonl", [{"id": "new", "text": "x"}]), contents(index)
    tmp_path.chmod(0o500)
    (index / "lock").chmod(0o400)
    try:
        assert_one_line(denslice("index", docs, "--to", tmp_path / "new.idx"), str(tmp_path), "Permission denied")
        assert_one_line(denslice("index", docs, "--to", index), str(index), "Permission denied")
    finally:
        tmp_path.chmod(0o700)
    assert contents(index) == before


@pytest.mark.parametrize("largest", [100, 4_000, 40_000])
def test_a_full_disk_leaves_nothing_and_changes_nothing(index: Path, tmp_path: Path, largest: int) -> None:
    many = [{"id": f"d{number}", "text": f"word{number}", "note": "x" * 400} for number in range(150)]
    docs = write_docs(tmp_path / "more.jsonl", many)
    before = contents(tmp_path)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    for to in (index, tmp_path / "new.idx"):
        running = process("index", docs, "--to", to, preexec_fn=limit)
        _, told = running.communicate(timeout=120)
        assert running.returncode == 2, told
        assert told.count("\n") == 1
        assert told.startswith(f"error: {to}")
    assert contents(tmp_path) == before
    assert not (tmp_path / "new.idx").exists()


# --- indexing that is stopped


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A pipe with a name: whoever indexes it waits for documents."""
    path = tmp_path / "slow.jsonl"
    os.mkfifo(path)
    return path


def _heed_interrupts() -> None:
    """Whoever runs the tests in the background of a shell has them ignore interrupts, and so would the process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _is_empty(pipe: int) -> bool:
    """Whether all that was written has been read."""
    return not any(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))


def begin(slow: Path, to: Path) -> tuple[subprocess.Popen[str], int]:
    """A process that has its hidden folder locked and waits for the pipe's next line."""
    running = process("index", slow, "--to", to, preexec_fn=_heed_interrupts)
    feed = os.open(slow, os.O_WRONLY)  # returns when the process reads
    os.write(feed, b'{"id": "a", "text": "x"}\n')
    held = to.with_name(f".{to.name}.building") / "lock"
    wait_until(lambda: (held.exists() and _is_empty(feed)) or running.poll() is not None)
    assert running.poll() is None
    return running, feed


def test_ctrl_c_removes_what_was_begun(tmp_path: Path, slow: Path) -> None:
    running, feed = begin(slow, tmp_path / "my.idx")
    running.send_signal(signal.SIGINT)
    out, told = running.communicate(timeout=200)
    os.close(feed)
    assert (running.returncode, out, told) == (130, "", "interrupted\n")
    assert list(tmp_path.iterdir()) == [slow]


def test_a_killed_run_is_cleared_away_by_the_next(tmp_path: Path, slow: Path) -> None:
    running, feed = begin(slow, tmp_path / "my.idx")
    running.kill()
    running.communicate(timeout=200)
    os.close(feed)
    assert not (tmp_path / "my.idx").exists()
    docs = write_docs(tmp_path / "docs.jsonl", DOCS)
    assert denslice("index", docs, "--to", tmp_path / "my.idx").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["docs.jsonl", "my.idx", "slow.jsonl"]


def test_a_run_that_is_alive_is_left_alone(tmp_path: Path, slow: Path) -> None:
    running, feed = begin(slow, tmp_path / "my.idx")
    docs = write_docs(tmp_path / "docs.jsonl", DOCS)
    assert_one_line(denslice("index", docs, "--to", tmp_path / "my.idx"), f"process {running.pid} is making")
    os.close(feed)
    out, told = running.communicate(timeout=200)
    assert (running.returncode, told) == (0, "")
    assert out.startswith("indexed 1 document")


# --- searching


def test_search_prints_tabs_and_no_colours_into_a_pipe(index: Path) -> None:
    result = denslice("search", index, "easily cat")
    first, second = (line.split("\t") for line in result.stdout.splitlines())
    assert (first[0], first[2:]) == ("1", ["cats", "On cats", "The cats sat on the mat, easily.", ""])
    assert float(first[1]) > float(second[1])
    assert (second[0], second[2:]) == ("2", ["dogs", "", "Dogs chase cats.", ""])
    assert result.stderr == ""


def test_search_explains_with_products(index: Path) -> None:
    lines = denslice("search", index, "easily cat", "--explain").stdout.splitlines()
    terms = [line.split("\t") for line in lines if line.startswith("\t")]
    assert [term[1] for term in terms] == ["easili", "cat", "cat"]
    assert all(" × " in term[2] and " = " in term[2] for term in terms)


def test_search_shows_what_the_slicing_lost(tmp_path: Path) -> None:
    docs = write_docs(tmp_path / "docs.jsonl", [{"id": "a", "text": "cat cat dog"}])
    assert denslice("index", docs, "--to", tmp_path / "my.idx", "--slices", "1", "--encoder", "bm25").exit_code == 0
    lines = denslice("search", tmp_path / "my.idx", "cat dog", "--explain").stdout.splitlines()
    assert [line.split("\t")[1] for line in lines[1:]] == ["cat", "dog"]
    assert lines[2].endswith("lost by the slicing")


def test_search_prints_one_json_object_for_each_hit(index: Path) -> None:
    hits = [json.loads(line) for line in denslice("search", index, "easily cat", "--json").stdout.splitlines()]
    assert [hit["id"] for hit in hits] == ["cats", "dogs"]
    assert list(hits[0]) == ["id", "score", "lexical", "dense", "title", "text", "meta", "passages"]
    assert hits[0]["meta"] == {"year": 2020}


def test_json_explanations_sum_to_the_score(index: Path) -> None:
    lines = denslice("search", index, "easily cat", "--json", "--explain", "-k", "1").stdout.splitlines()
    (hit,) = map(json.loads, lines)
    assert {term["token"] for term in hit["terms"]} == {"easili", "cat"}
    assert sum(term["contribution"] for term in hit["terms"]) == pytest.approx(hit["score"], rel=1e-5)
    assert hit["lost"] == []


def test_text_of_documents_is_printed_as_it_stands_but_moves_no_cursor(index: Path) -> None:
    line = denslice("search", index, "tags").stdout
    assert "[bold]tags[/bold]" in line
    assert "\x1b" not in line


def test_search_without_results_says_so_on_stderr(index: Path) -> None:
    result = denslice("search", index, "zebra")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no document matches\n")


def test_search_can_fail_if_nothing_is_found(index: Path) -> None:
    assert denslice("search", index, "cat", "--fail-if-empty").exit_code == 0
    result = denslice("search", index, "zebra", "--fail-if-empty", "--no-fuzzy")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "no document matches\n")


@pytest.mark.parametrize("option", ["-k=0", "--theta=-1", "--theta=nan", "--candidates=0"])
def test_search_refuses_settings_that_cannot_be(index: Path, option: str) -> None:
    assert_one_line(denslice("search", index, "cats", *option.split("=")))


def test_search_in_no_index_is_told(tmp_path: Path) -> None:
    assert_one_line(denslice("search", tmp_path / "none.idx", "cats"), f"{tmp_path / 'none.idx'}: no such index")
    assert_one_line(denslice("search", tmp_path, "cats"), f"{tmp_path}: not an index")


def test_search_on_a_terminal_marks_the_words_and_draws_bars(index: Path) -> None:
    shown = on_terminal("search", index, "easily cat", "--explain")
    assert "\x1b[1;35mcats\x1b[0m sat on the mat, \x1b[1;35measily\x1b[0m" in shown
    assert "█" * 20 in shown
    tags = on_terminal("search", index, "tags")
    assert "[bold]\x1b[1;35mtags\x1b[0m[/bold]" in tags
    assert "\x1b[31m" not in tags


def test_indexing_on_a_terminal_shows_a_bar(index: Path, tmp_path: Path) -> None:
    shown = on_terminal("index", tmp_path / "docs.jsonl", "--to", tmp_path / "other.idx")
    assert "indexing" in shown
    assert "3/3" in shown
    assert "indexed 3 documents into" in shown


def test_a_reader_that_goes_away_is_no_error(index: Path) -> None:
    running = process("search", index, "cats")
    assert running.stdout is not None
    running.stdout.close()
    assert running.stderr is not None
    with running.stderr:
        assert running.stderr.read() == ""
    assert running.wait(timeout=200) == 1


def test_output_that_cannot_be_written_is_one_line(index: Path) -> None:
    with Path("/dev/full").open("w") as full:
        running = process("info", index, stdout=full)
        _, told = running.communicate(timeout=200)
    assert (running.returncode, told) == (2, "error: No space left on device\n")


# --- runs, verify, info


def test_run_writes_what_search_finds(index: Path, tmp_path: Path) -> None:
    (tmp_path / "queries.tsv").write_text("q1\teasily cat\nq2\tzebra\nq3\ttags\n")
    result = denslice("run", index, tmp_path / "queries.tsv", "--out", tmp_path / "run.trec")
    assert result.stdout.startswith(f"answered 3 queries into {tmp_path / 'run.trec'} (3 lines, ")
    rankings = read_run(tmp_path / "run.trec")
    assert [(ranking.query_id, ranking.ids) for ranking in rankings] == [("q1", ("cats", "dogs")), ("q3", ("tags",))]
    assert rankings[0].scores == Index.open(index).search("easily cat").scores


def test_run_keeps_k_documents(index: Path, tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "cats"}\n')
    assert denslice("run", index, tmp_path, "--out", tmp_path / "run.trec", "-k", "1").exit_code == 0
    assert [len(ranking) for ranking in read_run(tmp_path / "run.trec")] == [1]


def test_run_names_a_bad_query_and_writes_nothing(index: Path, tmp_path: Path) -> None:
    queries, out = tmp_path / "queries.tsv", tmp_path / "run.trec"
    queries.write_text("q1\tcats\nq2 without a tab\n")
    assert_one_line(denslice("run", index, queries, "--out", out), f"{queries}:2: no tab")
    assert_one_line(denslice("run", index, tmp_path / "none.tsv", "--out", out), f"{tmp_path / 'none.tsv'}: no such")
    queries.write_text("q1\tcats\n")
    assert_one_line(denslice("run", index, queries, "--out", tmp_path / "none" / "run"), "cannot be written")
    assert not out.exists()


def test_index_puts_a_document_in_the_place_of_one_with_its_id(index: Path, tmp_path: Path) -> None:
    newer = write_docs(tmp_path / "newer.jsonl", [{"id": "dogs", "text": "Dogs sleep."}])
    assert denslice("index", newer, "--to", index).exit_code == 0
    assert denslice("search", index, "chase").stderr == "no document matches\n"
    assert "dogs" in denslice("search", index, "sleep").stdout


def test_search_and_run_take_filters(index: Path, tmp_path: Path) -> None:
    where = '{"year": {"gte": 2020}}'
    found = denslice("search", index, "cats", "--where", where, "--json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in found] == ["cats"]
    queries = tmp_path / "queries.tsv"
    queries.write_text("q\tcats\n")
    assert denslice("run", index, queries, "--out", tmp_path / "run", "--where", where).exit_code == 0
    assert (tmp_path / "run").read_text().split()[:3] == ["q", "Q0", "cats"]


def test_a_field_that_no_document_has_is_told_in_one_line_on_stderr(index: Path) -> None:
    result = denslice("search", index, "cats", "--where", '{"yeer": 2020}')
    told = ["warning: no document has the field 'yeer', which where names", "no document matches"]
    assert (result.exit_code, result.stdout, result.stderr.splitlines()) == (0, "", told)


NOT_A_FILTER = ["{", "[]", '{"year": {"near": 2020}}', '{"year": NaN}', '{"year": {"in": [1, -Infinity]}}']
NOT_A_FILTER += ['{"year": {"lt": 1e999}}', '{"not": ' * 5_000]


@pytest.mark.parametrize("where", NOT_A_FILTER, ids=range(len(NOT_A_FILTER)))
def test_a_filter_that_is_none_is_refused(index: Path, where: str) -> None:
    assert_one_line(denslice("search", index, "cats", "--where", where), "where")


def test_filterable_fields_are_named_with_commas(tmp_path: Path) -> None:
    folder = tmp_path / "my.idx"
    assert (
        denslice(
            "index", write_docs(tmp_path / "docs.jsonl", DOCS), "--to", folder, "--filterable", "year,lang"
        ).exit_code
        == 0
    )
    assert json.loads(denslice("info", folder, "--json").stdout)["filterable"] == ["year", "lang"]


def test_delete_takes_ids_and_files_of_ids_and_says_how_many_there_were(index: Path, tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("tags\ncats\n")
    result = denslice("delete", index, "cats", "nobody", "--from", tmp_path / "ids.txt")
    assert result.stdout == f"deleted 2 documents from {index}\n"
    assert json.loads(denslice("info", index, "--json").stdout)["documents"] == 1
    assert_one_line(denslice("delete", index), "no ids given")


def test_merge_says_what_it_rewrote(index: Path, tmp_path: Path) -> None:
    denslice("index", write_docs(tmp_path / "more.jsonl", [{"id": "new", "text": "x y z"}]), "--to", index)
    assert denslice("merge", index).stdout.startswith(f"rewrote 2 segments; {index} now has 1, ")
    assert denslice("merge", index).stdout.startswith("rewrote 0 segments; ")


def test_verify_tells_a_whole_index_from_a_damaged_one(index: Path) -> None:
    assert denslice("verify", index).stdout.startswith(f"{index} is intact: 3 documents, ")
    damaged = next((index / "segments").rglob("*.arrays"))
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    assert_one_line(denslice("verify", index), str(damaged), "damaged")


def test_info_shows_what_the_index_is(index: Path) -> None:
    shown = dict(line.split(maxsplit=1) for line in denslice("info", index).stdout.splitlines())
    assert (shown["documents"], shown["slicing"], shown["slices"]) == ("3", "none", "every token")
    told = json.loads(denslice("info", index, "--json").stdout)
    assert told == Index.open(index).info().to_dict()
    assert (told["slicing"], told["slices"]) == (None, None)


def test_info_shows_the_slicing(tmp_path: Path) -> None:
    docs = write_docs(tmp_path / "docs.jsonl", DOCS)
    assert denslice("index", docs, "--to", tmp_path / "my.idx", "--encoder", "bm25", "--slices", "768").exit_code == 0
    shown = dict(line.split(maxsplit=1) for line in denslice("info", tmp_path / "my.idx").stdout.splitlines())
    assert (shown["slicing"], shown["slices"]) == ("learned", "768")


# --- the whole


@pytest.mark.parametrize("command", [(), ("search",), ("bench", "cpu")])
def test_h_is_help(command: tuple[str, ...]) -> None:
    short, long = denslice(*command, "-h"), denslice(*command, "--help")
    assert (short.exit_code, short.stdout) == (0, long.stdout)
    assert "Usage:" in short.stdout


def test_the_version_is_printed() -> None:
    assert denslice("--version").stdout == f"denslice {__version__}\n"


def test_help_names_every_command() -> None:
    shown = denslice("--help").stdout
    assert all(
        name in shown for name in ("demo", "index", "search", "show", "ls", "export-docs", "run", "verify", "info")
    )


def test_help_waits_for_nothing_heavy() -> None:
    code = "import sys; from denslice.__main__ import app; app(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numba", "rich.progress"} & set(done.stdout.split())
