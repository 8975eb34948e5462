"""The demo searches Python's own docstrings, and finds what its questions ask for."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest
from typer.testing import CliRunner

from denslice.__main__ import app
from denslice.corpus.demo_docs import QUESTIONS, stdlib_docs
from denslice.errors import InputError
from denslice.index.index import Index
from denslice.records import Doc

MODULES = ("bisect", "calendar", "copy", "csv", "datetime", "difflib", "glob", "heapq", "string", "textwrap")
ANSWERS = ("python/textwrap.md", "python/datetime.md", "python/difflib.md")


@pytest.fixture(scope="module")
def docs() -> dict[str, Doc]:
    listed = list(stdlib_docs())
    by_id = {doc.id: doc for doc in listed}
    assert len(by_id) == len(listed)  # ids are unique
    return by_id


def test_the_standard_library_gives_several_thousand_documents(docs: dict[str, Doc]) -> None:
    assert len(docs) > 3_000


def test_a_function_is_a_document(docs: dict[str, Doc]) -> None:
    doc = docs["json.dumps"]
    assert doc.text.startswith("Serialize ``obj`` to a JSON formatted ``str``.")
    assert doc.title.startswith("json.dumps(obj, *, skipkeys=False")
    assert doc.meta == {"module": "json", "kind": "function"}


def test_modules_classes_and_methods_are_documents(docs: dict[str, Doc]) -> None:
    kinds = {name: docs[name].meta["kind"] for name in ("textwrap", "gzip.GzipFile", "gzip.GzipFile.rewind")}
    assert kinds == {"textwrap": "module", "gzip.GzipFile": "class", "gzip.GzipFile.rewind": "function"}


def test_neither_tests_nor_installed_packages_nor_private_names_are_documents(docs: dict[str, Doc]) -> None:
    modules = {doc.meta["module"] for doc in docs.values()}
    assert not {"test", "tests", "site-packages", "idlelib"} & {part for name in modules for part in name.split(".")}
    assert not [name for name in docs.keys() - modules if name.rpartition(".")[2].startswith("_")]


def test_a_file_that_does_not_parse_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.py").write_text("def broken(:\n")
    (tmp_path / "good.py").write_text('"""A docstring that is long enough."""\n\ndef short():\n    """Too short."""\n')
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    assert [doc.id for doc in stdlib_docs()] == ["good"]


def test_a_python_without_its_sources_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    with pytest.raises(InputError, match="no source files of Python"):
        list(stdlib_docs())


@pytest.fixture
def _read_already(docs: dict[str, Doc], monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo takes some of the docstrings that have been read for the tests above: encoding all takes a minute."""
    some = [doc for doc in docs.values() if doc.meta["module"] in MODULES]
    monkeypatch.setattr("denslice.corpus.demo_docs.stdlib_docs", lambda: iter(some))


@pytest.mark.usefixtures("_read_already")
def test_the_demo_answers_its_questions_and_follows_a_change(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["demo", "--keep", str(tmp_path / "demo")])
    assert result.exit_code == 0, result.output
    for question, answer in zip(QUESTIONS, ANSWERS, strict=True):
        after = result.stdout.partition(question)[2].splitlines()
        assert answer in after[1]
    assert "1 changed, 1 renamed, 1 removed, " in result.stdout
    assert "denslice index your-files/ --to my.idx" in result.stdout
    index = Index.open(tmp_path / "demo" / "python.idx")
    assert len(index) == len(list((tmp_path / "demo" / "python").iterdir())) == 9
    for question, answer in zip(QUESTIONS, ANSWERS, strict=True):
        assert index.search(question, 1)[0].id == answer


@pytest.mark.usefixtures("_read_already")
def test_the_demo_writes_over_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    result = CliRunner().invoke(app, ["demo", "--keep", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr == f"error: {tmp_path}: is there already; choose another name\n"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
