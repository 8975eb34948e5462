"""`denslice bench products`: programs are checked before they are timed, killed, resumed, and shown in one table."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from denslice.__main__ import app
from denslice.bench import product_texts
from denslice.bench.product_bench import PRODUCTS, ProductBench, chosen_products
from denslice.bench.product_checks import after_changes, change_and_look, check_answers, check_ids
from denslice.bench.product_kills import KillTest, totals
from denslice.bench.product_process import (
    MORE,
    VECTORS,
    PeakMemory,
    ProductError,
    ProductProcess,
    code_lines,
    python_of,
)
from denslice.bench.product_table import product_table
from denslice.bench.product_texts import PLANTED, TextFolder, large_folder
from denslice.bench.product_vectors import MinilmVectors, text_digest
from denslice.errors import InputError

WORDS = ["fox", "hound", "river", "stone", "night", "meadow", "winter", "bread", "candle", "ship", "garden", "bridge"]
DOCUMENTS = 62  # of the large folder
RUN_HERE = {"denslice, words": "denslice", "tantivy": "tantivy", "bm25s + Faiss": "bm25s", "sqlite-vec": "sqlite_vec"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five small collections in BEIR's layout, each with 25 texts and 2 queries."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(1)
    for name in dict.fromkeys((*product_texts.SOURCES, *product_texts.JUDGED)):
        (folder / name / "qrels").mkdir(parents=True)
        docs = [{"_id": f"{name}{i}", "text": f"{' '.join(rng.choice(WORDS, 8))} {name}{i}"} for i in range(25)]
        asked = [{"_id": f"q{i}", "text": " ".join(docs[i]["text"].split()[:4])} for i in range(2)]
        for file, records in (("corpus", docs), ("queries", asked)):
            (folder / name / f"{file}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
        qrels = f"query-id\tcorpus-id\tscore\nq0\t{name}0\t1\nq1\t{name}1\t1\n"
        (folder / name / "qrels" / "test.tsv").write_text(qrels)
    return folder


@pytest.fixture(scope="module")
def work(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work folder whose environments are this one, with vectors of the words of every text in place of MiniLM's."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "environments").mkdir()
    for program in PRODUCTS:
        if program.folder != "denslice" and not (folder / "environments" / program.folder).exists():
            (folder / "environments" / program.folder).symlink_to(sys.prefix, target_is_directory=True)
    large = large_folder(data, folder / "large", DOCUMENTS)
    texts = [doc["text"] for doc in large.docs] + large.questions
    texts += [text for one in PLANTED for text in (one.text, one.question, one.changed, one.changed_question) if text]
    write_vectors(MinilmVectors.under(folder).folder, list(dict.fromkeys(texts)))
    return folder


@pytest.fixture
def large(work: Path, data: Path) -> TextFolder:
    return large_folder(data, work / "large", DOCUMENTS)


def write_vectors(folder: Path, texts: list[str]) -> None:
    """Sums of a random vector for each word, so that texts with the same words are near to each other."""
    folder.mkdir()
    words = sorted({word for text in texts for word in text.lower().split()})
    of_words = dict(zip(words, np.random.default_rng(2).standard_normal((len(words), 384)), strict=True))
    vectors = np.stack([np.sum([of_words[word] for word in text.lower().split()], axis=0) for text in texts])
    (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32).tofile(folder / "vectors.bin")
    lines = [
        {"load_seconds": 2.0, "versions": {}, "core_share": 1.0},
        {"seconds": 9.0, "digests": [text_digest(one) for one in texts]},
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def started(name: str, work: Path, store: Path) -> ProductProcess:
    (program,) = chosen_products([name])
    store.parent.mkdir(exist_ok=True)
    folders = {VECTORS: MinilmVectors.under(work).folder}
    return ProductProcess(program, python_of(program, work / "environments"), store, work / "log", folders)


@pytest.mark.parametrize("name", RUN_HERE)
def test_a_product_finds_what_was_planted_obeys_filters_and_keeps_its_changes(
    name: str, work: Path, large: TextFolder, tmp_path: Path
) -> None:
    if find_spec(RUN_HERE[name]) is None:
        pytest.skip(f"{RUN_HERE[name]} is not installed")
    store = tmp_path / "store"
    with started(name, work, store) as product:
        assert product.ask("build", folder=str(large.path)) == 0
        check_answers(product, large)
        assert change_and_look(product, large)["seen"] == {"add": True, "delete": True, "update": True}
    with started(name, work, store) as product:
        product.ask("open")
        check_ids(product, after_changes(large))


def test_an_answer_that_is_wrong_or_missing_is_an_error(work: Path, large: TextFolder, tmp_path: Path) -> None:
    with started("tantivy", work, tmp_path / "store") as product:
        product.ask("build", folder=str(large.path))
        with pytest.raises(ProductError, match="1 of 63 documents are missing and 0 too many"):
            check_ids(product, [*(doc["id"] for doc in large.docs), "part0/999999.txt"])
        assert check_answers(product, large) == []
        fox = {"text": "a fox by the river"}
        product.ask("add", docs=[large.planted(0) | fox, large.docs[0] | {"text": PLANTED[0].text}])
        assert check_answers(product, large) == [PLANTED[0].question, f"{PLANTED[0].question} in part0"]
        product.ask("add", docs=[large.planted(1) | fox, large.docs[1] | {"text": PLANTED[1].text}])
        with pytest.raises(ProductError, match="found other documents than those planted for"):
            check_answers(product, large)
        with pytest.raises(ProductError, match=r"the program ended; the end of .*log:(.|\n)*KeyError: 'dance'"):
            product.ask("dance")


def test_a_kill_loses_nothing_that_tantivy_acknowledged_and_what_is_missing_is_counted(
    work: Path, large: TextFolder, tmp_path: Path
) -> None:
    base, copy = tmp_path / "base" / "store", tmp_path / "copy" / "store"
    with started("tantivy", work, base) as product:
        product.ask("build", folder=str(large.path))
    ids, more = (
        [doc["id"] for doc in large.docs],
        [{"id": f"part1/{i}.txt", "part": "part1", "text": "x"} for i in range(20)],
    )
    test = KillTest(lambda store: started("tantivy", work, store), base, ids, more)
    found = [test.killed(copy, after) for after in (0.0, test.undisturbed(copy) / 2)]
    assert found[0]["acknowledged"] == 0
    assert totals(found) == {
        "lost": 0, "twice": 0, "lost_for_good": 0, "twice_then": 0, "kills": 2, "unopened": 0, "rounds": found
    }  # fmt: skip
    assert test.counted(base, more) == (True, 20, 0)
    (base / "meta.json").unlink()
    assert test.counted(base, more) == (False, 82, 0)


@pytest.fixture
def pages() -> Iterator[object]:
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
        yield importlib.import_module("product_pages")


def test_a_run_appends_one_line_for_each_product_however_often_it_is_resumed(
    data: Path, work: Path, pages: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = work / "lines.jsonl"
    monkeypatch.setenv("DENSLICE_COMMIT", "abc")
    options = ["--data", str(data), "--work", str(work), "--documents", str(DOCUMENTS), "--kills", "1"]
    command = ["bench", "products", *options, "--only", "tantivy", "--out", str(out)]
    first, again = (CliRunner().invoke(app, command) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert "tantivy: kill-0" in first.stderr
    assert (again.stderr, again.stdout) == ("", first.stdout)
    (line,) = (json.loads(one) for one in out.read_text(encoding="utf-8").splitlines())
    means, values = (line["figures"][name] for name in ("ndcg@10", "ndcg@10_of_queries"))
    assert means.keys() == {*product_texts.JUDGED}
    assert means == pytest.approx({name: sum(some) / 2 for name, some in values.items()}, abs=1e-4)
    assert "| tantivy | words |" in first.stdout
    assert "| tantivy | 0, 0 (1) | adds, deletes, updates | BM25 of each word" in first.stdout
    approximate = line | {"figures": line["figures"] | {"missed": ["one", "two"]}}
    assert "| tantivy | words (2 of 4 planted texts not first) |" in product_table([approximate])
    busy, quiet = (line | {"figures": line["figures"] | {"core_share": share}} for share in (0.5, 1.0))
    assert "| tantivy | words | – | 3" in product_table([busy])
    assert "| tantivy | words | – |" not in product_table([quiet])
    tables = pages.newest_lines([line | {"hardware": {}}, line])  # type: ignore[attr-defined]
    assert tables == [line]
    changes = pages.changes_table(tables).splitlines()  # type: ignore[attr-defined]
    assert [row.count("|") for row in changes] == [5, 5, 5]
    assert changes[2].startswith("| tantivy | ")
    best, worse = (
        line | {"product": name, "figures": line["figures"] | {"ndcg@10_of_queries": dict.fromkeys(means, values)}}
        for name, values in (("denslice, full", [1.0, 1.0]), ("tantivy", [0.0, 0.5]))
    )
    gaps = pages.behind_table([best, worse]).splitlines()  # type: ignore[attr-defined]
    assert gaps[0] == "|  | fiqa-judged (2 queries) | cranfield (2 queries) | npl (2 queries) | mean |"
    assert gaps[2:] == ["| tantivy | -0.750 ± 3.177 | -0.750 ± 3.177 | -0.750 ± 3.177 | -0.750 ± 1.834 |"]


def test_the_first_answer_is_timed_with_nothing_compiled_and_then_again(data: Path, work: Path, pages: object) -> None:
    bench = ProductBench(data, work, DOCUMENTS, 0, print)
    (program,) = chosen_products(["tantivy"])
    compiled = work / "caches" / "tantivy" / "left-over"
    compiled.mkdir(parents=True)
    found = bench.first_answers(program)
    assert not compiled.exists()
    assert found["never_run_seconds"] > 0 < found["again_seconds"]
    assert found["minilm_seconds"] == 0.0
    needing = {"never_run_seconds": 3.04, "again_seconds": 2.0, "minilm_seconds": 10.0, "core_share": 1.0}
    line = {"commit": "abc", "configuration": {"documents": 1_000}, "figures": {"a": found | {"core_share": 0.5}}}
    head, _, busy = pages.first_table(line).splitlines()[:3]  # type: ignore[attr-defined]
    assert head.startswith("|  | first answer about 1,000 texts, never run before, s |")
    assert busy == "| a | – | – | – |"
    assert "| b | 13.0 | 12.0 | 10.0 |" in pages.first_table(line | {"figures": {"b": needing}})  # type: ignore[attr-defined]


def test_a_process_that_a_program_started_a_moment_ago_belongs_to_it() -> None:
    command = ["sh", "-c", "read _; sleep 60 & echo $!; wait"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        memory = PeakMemory(program.pid)
        program.stdin.write("start\n")
        started = int(program.stdout.readline())
        memory.stop()
        os.kill(started, signal.SIGKILL)
    assert started in memory.family


def test_long_texts_of_the_large_folder_end_with_a_word(data: Path, tmp_path: Path) -> None:
    longer = tmp_path / "data"
    shutil.copytree(data, longer)
    with (longer / product_texts.SOURCES[0] / "corpus.jsonl").open("a") as corpus:
        corpus.writelines(json.dumps({"_id": text[:9], "text": text}) + "\n" for text in ("meadow " * 70, "x" * 500))
    texts = {doc["text"] for doc in large_folder(longer, tmp_path, DOCUMENTS + 42).docs}
    cut = {text for text in texts if text.startswith(("meadow meadow meadow", "xx"))}
    assert cut == {("meadow " * 57).rstrip(), "x" * product_texts.LENGTH}


def test_an_interrupted_encoding_keeps_its_complete_chunks(tmp_path: Path) -> None:
    vectors = MinilmVectors(tmp_path / "minilm")
    write_vectors(vectors.folder, ["a fox", "a hound"])
    for file, left in (("rows.jsonl", b'{"seconds": 1.0, "dig'), ("vectors.bin", bytes(700))):
        with (vectors.folder / file).open("ab") as open_file:
            open_file.write(left)
    vectors.complete(["a fox"], ["a hound"], tmp_path, print)  # starts no model: both are known
    assert (vectors.folder / "vectors.bin").stat().st_size == 2 * 384 * 4
    assert vectors.costs().seconds(["a fox"]) == 2.0 + 9.0 / 2


@pytest.mark.parametrize("program", PRODUCTS, ids=lambda one: one.name)
def test_every_product_has_pinned_requirements_and_a_program_whose_lines_can_be_counted(program: object) -> None:
    path: Path = program.path  # type: ignore[attr-defined]
    assert path.read_text(encoding="utf-8").count(MORE) == 1
    assert 10 < program.lines() < 100  # type: ignore[attr-defined]
    if path.parent.name != "denslice":
        wanted = path.with_name("requirements.txt").read_text(encoding="utf-8").splitlines()
        assert [line for line in wanted if "==" not in line] == []


def test_blank_lines_comments_and_docstrings_are_no_lines_of_code() -> None:
    assert (
        code_lines(
            '"""About."""\n\nimport os  # why\n\n\ndef f():\n    """Say\n    more."""\n    # so\n    return os\n'
        )
        == 3
    )


def test_what_cannot_be_measured_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no product 'lucene'; there are denslice, words; "):
        chosen_products(["lucene"])
    with pytest.raises(InputError, match="--data names the folder that holds acl-title-abstract"):
        _ = ProductBench(tmp_path, tmp_path, 1_000, 0, print).large
