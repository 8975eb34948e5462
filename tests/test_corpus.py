"""Every input format becomes documents, queries or vectors; every bad line is named."""

from __future__ import annotations

import gc
import gzip
import os
import sys
from collections import namedtuple
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from denslice.corpus.documents import read_docs, read_queries
from denslice.corpus.formats.source_file import Problem
from denslice.errors import DensliceWarning, InputError, MissingExtraError
from denslice.queries import Query
from denslice.records import Doc

DATA = Path(os.environ.get("DENSLICE_DATA", Path(__file__).parents[2] / "shared" / "data"))
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"no collections at {DATA}; set DENSLICE_DATA")


def write(path: Path, text: str | bytes) -> Path:
    """The path, after the file was written with exactly these bytes, gzipped if it is named so."""
    raw = text.encode() if isinstance(text, str) else text
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def docs_of(*paths: Path) -> list[Doc]:
    return list(read_docs(paths))


def problem_of(*paths: Path) -> str:
    """What reading the documents complains of."""
    with pytest.raises(InputError) as caught:
        docs_of(*paths)
    return str(caught.value)


# --- documents


def test_jsonl_lines_become_documents_and_other_fields_metadata(tmp_path: Path) -> None:
    path = write(tmp_path / "docs.jsonl", '{"id": "1", "text": "a b", "title": "t", "year": 2021}\n')
    assert docs_of(path) == [Doc("1", "a b", "t", {"year": 2021})]


@pytest.mark.parametrize("id_field", ["id", "_id", "docid"])
@pytest.mark.parametrize("text_field", ["text", "contents", "content"])
def test_ids_and_texts_go_by_several_names(tmp_path: Path, id_field: str, text_field: str) -> None:
    path = write(tmp_path / "docs.json", f'{{"{id_field}": "1", "{text_field}": "a"}}')
    assert docs_of(path) == [Doc("1", "a")]


def test_ready_vectors_are_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "docs.jsonl", '{"id": "1", "contents": "a", "vector": {"cat": 1.5, "dog": 2}}\n')
    assert docs_of(path) == [Doc("1", "a", vector={"cat": 1.5, "dog": 2})]


def test_tsv_lines_are_cut_at_the_first_tab(tmp_path: Path) -> None:
    path = write(tmp_path / "collection.tsv", "0\tthe cat\n1\ttwo\ttabs\n2\t\n")
    assert docs_of(path) == [Doc("0", "the cat"), Doc("1", "two\ttabs"), Doc("2", "")]


@pytest.mark.parametrize("name", ["docs.tsv.gz", "DOCS.TSV.GZ"])
def test_gzipped_files_are_read_by_the_ending_before_gz(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, b"")
    path.write_bytes(gzip.compress(b"1\ta\n"))
    assert docs_of(path) == [Doc("1", "a")]


def test_a_beir_folder_gives_its_corpus_only(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl", '{"_id": "1", "title": "t", "text": "a", "metadata": {"url": "u"}}\n')
    write(tmp_path / "queries.jsonl", '{"_id": "q", "text": "b"}\n')
    assert docs_of(tmp_path) == [Doc("1", "a", "t", {"url": "u"})]


def test_a_beir_folder_may_hold_a_gzipped_corpus(tmp_path: Path) -> None:
    write(tmp_path / "corpus.jsonl.gz", '{"_id": "1", "text": "a"}\n')
    write(tmp_path / "queries.jsonl", '{"_id": "q", "text": "b"}\n')
    assert docs_of(tmp_path) == [Doc("1", "a")]


def test_a_folder_is_read_whole_and_tables_keep_their_ids(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    write(notes / "t.tsv", "2\tb\n")
    write(notes / "a.jsonl.gz", '{"id": "1", "text": "a"}\n')
    write(notes / "b.md", "# b\r\nend\r\n")
    write(notes / "a" / "x y.txt", "x")
    write(notes / "a" / "z.txt.gz", "z")
    write(notes / "a" / "line\nfeed.txt", "f")
    for hidden in (".hidden.tsv", "a/.hidden.txt", ".git/c.txt"):
        write(notes / hidden, "3\tno")
    read = {doc.id: (doc.title, doc.text) for doc in docs_of(notes)}
    assert read == {
        "notes/a/line%0Afeed.txt": ("line%0Afeed", "f"),
        "notes/a/x y.txt": ("x y", "x"),
        "notes/a/z.txt.gz": ("z", "z"),
        "1": ("", "a"),
        "notes/b.md": ("b", "# b\nend\n"),
        "2": ("", "b"),
    }


def test_what_is_skipped_in_a_folder_is_a_warning_or_reported(tmp_path: Path) -> None:
    write(tmp_path / "notes" / "a.txt", "a")
    write(tmp_path / "notes" / "b.png", bytes(range(256)))
    with pytest.warns(DensliceWarning, match=r"notes/b.png: skipped, not a text"):
        assert [doc.text for doc in docs_of(tmp_path / "notes")] == ["a"]
    found: list[Problem] = []
    assert len(list(read_docs([tmp_path / "notes"], report=found.append))) == 1
    assert [problem.kind for problem in found] == ["binary"]


@pytest.mark.parametrize("name", ["notes", "notes/a.txt"])
def test_an_empty_text_is_an_empty_document_that_has_the_name_of_its_file(tmp_path: Path, name: str) -> None:
    write(tmp_path / "notes" / "a.txt", "")
    (doc,) = docs_of(tmp_path / name)
    assert (doc.id, doc.title, doc.text, doc.meta["path"]) == ("notes/a.txt", "a", "", "notes/a.txt")


def test_several_paths_are_read_in_the_order_given(tmp_path: Path) -> None:
    second, first = write(tmp_path / "a.tsv", "2\tb\n"), write(tmp_path / "b.tsv", "1\ta\n")
    assert [doc.id for doc in read_docs([str(first), second])] == ["1", "2"]


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    text = "one\u2028two\x85three\x0cfour"
    path = write(tmp_path / "docs.jsonl", f'{{"id": "1", "text": "{text[:13]}"}}\n')
    assert docs_of(path) == [Doc("1", text[:13])]
    assert docs_of(write(tmp_path / "docs.tsv", f"1\t{text}\n")) == [Doc("1", text)]


def test_byte_order_marks_blank_lines_and_crlf_are_no_trouble(tmp_path: Path) -> None:
    path = write(tmp_path / "docs.tsv", b"\xef\xbb\xbf1\ta\r\n\r\n  \n2\tb")
    assert docs_of(path) == [Doc("1", "a"), Doc("2", "b")]
    assert docs_of(write(tmp_path / "note.txt", b"\xef\xbb\xbfa"))[0].text == "a"


def test_documents_come_before_the_rest_of_the_file_is_read(tmp_path: Path) -> None:
    docs = read_docs([write(tmp_path / "docs.tsv", "1\ta\nbroken\n")])
    assert next(docs) == Doc("1", "a")
    with pytest.raises(InputError, match=r"docs.tsv:2: no tab"):
        next(docs)


@pytest.mark.parametrize("name", ["docs.tsv", "docs.tsv.gz"])
def test_an_abandoned_reader_closes_its_file(tmp_path: Path, name: str) -> None:
    docs = read_docs([write(tmp_path / name, "1\ta\n2\tb\n")])
    next(docs)
    del docs
    gc.collect()  # a file left open would be a ResourceWarning, which is an error here
    assert not any(str(tmp_path) in name for name in open_files())


def open_files() -> Iterable[str]:
    descriptors = Path("/proc/self/fd")
    return (str(link.readlink()) for link in descriptors.iterdir() if link.is_symlink()) if descriptors.is_dir() else ()


# --- what is wrong with documents


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "2", "text": ', "broken JSON at column"),
        ("[1, 2]", "the JSON is list, expected an object"),
        ("null", "the JSON is NoneType, expected an object"),
        pytest.param("[" * 100_000, "broken JSON: ", id="too deep"),
        ('{"text": "b"}', "no id"),
        ('{"id": 2.0, "text": "b"}', "id 2.0 is float, expected a string or a whole number"),
        ('{"id": true, "text": "b"}', "id True is bool, expected a string or a whole number"),
        ('{"id": 1, "text": "b"}', "document id '1' was already used"),
        ('{"id": "2", "n": 1e999}', "field 'n' is inf, which JSON cannot hold"),
        ('{"id": "", "text": "b"}', "the id is empty"),
        ('{"id": "1", "text": "b"}', "document id '1' was already used"),
        ('{"id": "2", "text": 5}', "text is int, expected a string"),
        ('{"id": "2", "text": "\\ud83d"}', "half a surrogate pair"),
        ('{"id": "2", "n": NaN}', "broken JSON: NaN is not a JSON number"),
        ('{"id": "2", "vector": [1]}', "vector is list, expected an object"),
        ('{"id": "2", "vector": {"cat": "1"}}', "the weight of token 'cat' is '1', expected a number"),
        ('{"id": "2", "vector": {"cat": true}}', "the weight of token 'cat' is True, expected a number"),
        ('{"id": "2", "vector": {"cat": null}}', "the weight of token 'cat' is None, expected a number"),
        ('{"id": "2", "vector": {"cat": NaN}}', "broken JSON: NaN is not a JSON number"),
        ('{"id": "2", "vector": {"cat": -Infinity}}', "broken JSON: -Infinity is not a JSON number"),
        ('{"id": "2", "vector": {"cat": 1e999}}', "the weight of token 'cat' is inf"),
        ('{"id": "2", "vector": {"cat": 1e39}}', "the weight of token 'cat' is 1e+39"),
        ('{"id": "2", "vector": {"cat": -0.5}}', "the weight of token 'cat' is -0.5, expected a finite number, 0 or"),
    ],
)
def test_a_bad_json_line_names_file_line_and_fault(tmp_path: Path, line: str, problem: str) -> None:
    path = write(tmp_path / "docs.jsonl", f'{{"id": "1", "text": "a"}}\n\n{line}\n')
    assert problem_of(path).startswith(f"{path}:3: {problem}")


def test_whole_surrogate_pairs_are_text(tmp_path: Path) -> None:
    path = write(tmp_path / "docs.jsonl", '{"id": "1", "text": "\\ud83d\\ude00"}\n')
    assert docs_of(path) == [Doc("1", "\U0001f600")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"no tab here", "no tab; expected an id, a tab and a text"),
        (b"\ttext", "the id is empty"),
        (b"1\tagain", "document id '1' was already used"),
    ],
)
def test_a_bad_tsv_line_names_file_line_and_fault(tmp_path: Path, line: bytes, problem: str) -> None:
    path = write(tmp_path / "docs.tsv", b"1\ta\n" + line + b"\n")
    assert problem_of(path).startswith(f"{path}:2: {problem}")


def test_an_id_in_two_files_is_an_error_at_the_second(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.tsv", "1\ta\n"), write(tmp_path / "b.tsv", "2\tb\n1\tc\n")
    assert problem_of(first, second) == f"{second}:2: document id '1' was already used; ids must be unique"


@pytest.mark.parametrize("name", ["docs.jsonl", "docs.tsv", "docs.csv", "docs.json", "docs.jsonl.gz"])
@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_has_no_documents(tmp_path: Path, name: str, content: str) -> None:
    path = write(tmp_path / name, content)
    assert problem_of(path).startswith(f"{path}: has no documents")


def test_a_missing_file_is_named_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere.jsonl: no such file or folder"):
        read_docs([write(tmp_path / "docs.tsv", "1\ta\n"), tmp_path / "nowhere.jsonl"])


def test_a_file_of_any_extension_is_a_text_unless_it_is_binary(tmp_path: Path) -> None:
    assert docs_of(write(tmp_path / "notes.xyz", "words"))[0].text == "words"
    path = write(tmp_path / "picture.png", bytes(range(256)))
    assert problem_of(path).startswith(f"{path}: not a text")


def test_a_folder_with_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / ".hidden", "no")
    assert problem_of(tmp_path).startswith(f"{tmp_path}: nothing to read in this folder")


@pytest.mark.parametrize(
    "damage",
    [lambda raw: raw[:-12], lambda raw: b"1\tnot gzip\n", lambda raw: raw[:12] + b"!!!!"],
    ids=["cut off", "never was", "garbled"],
)
def test_a_damaged_gzip_file_is_named(tmp_path: Path, damage: Any) -> None:
    path = write(tmp_path / "docs.tsv.gz", "".join(f"{n}\ta text\n" for n in range(100)))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(InputError, match=r"docs.tsv.gz: damaged, or not compressed as its name says"):
        list(read_docs([path]))


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path / "docs.tsv", "1\ta\n")
    monkeypatch.setattr(Path, "open", refuse)
    assert problem_of(path) == f"{path}: cannot be read: Permission denied"


def test_a_single_path_in_place_of_a_list_is_an_error() -> None:
    with pytest.raises(InputError, match="takes a list of paths"):
        read_docs("docs.jsonl")


# --- queries


@pytest.mark.parametrize("name", ["queries.tsv", "topics.txt", "queries.tsv.gz"])
def test_queries_are_read_from_tsv(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "7\twho is it?\r\n8\twhat\r\n")
    assert list(read_queries(path)) == [Query("7", "who is it?"), Query("8", "what")]


def test_queries_are_read_from_a_beir_folder_and_from_jsonl(tmp_path: Path) -> None:
    path = write(tmp_path / "queries.jsonl", '{"_id": "7", "text": "who"}\n{"id": "8", "vector": {"cat": 1}}\n')
    expected = [Query("7", "who"), Query("8", "", {"cat": 1})]
    assert list(read_queries(path)) == list(read_queries(str(tmp_path))) == expected


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("queries.tsv", "7\ta\n7\tb\n", ":2: query id '7' was already used"),
        ("queries.tsv", "", ": has no queries"),
        ("queries.jsonl", '{"id": "7", "vector": {"cat": -1}}', ":1: the weight of token 'cat' is -1"),
        ("queries.md", "7\ta\n", ": the extension '.md' is not supported"),
    ],
)
def test_bad_queries_name_file_line_and_fault(tmp_path: Path, name: str, content: str, problem: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(InputError) as caught:
        list(read_queries(path))
    assert str(caught.value).startswith(f"{path}{problem}")


def test_a_folder_without_queries_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no queries.jsonl in this folder"):
        read_queries(tmp_path)


# --- ir_datasets


def test_ir_datasets_names_say_what_to_install_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(MissingExtraError, match=r"reading ir_datasets:beir/scifact needs .*denslice\[datasets\]"):
        read_docs(["ir_datasets:beir/scifact"])


@pytest.fixture
def small_ir_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for the package, which would download: one dataset named `small`, whose third document has no id."""
    titled = namedtuple("titled", "doc_id text title")
    page = namedtuple("page", "doc_id title body default_text")
    query = namedtuple("query", "query_id text")
    rows = [titled("1", "a", "t"), page("2", "t", "b", lambda: "t b"), titled("", "c", None)]
    dataset = SimpleNamespace(
        has_docs=lambda: True,
        has_queries=lambda: True,
        docs_iter=lambda: iter(rows),
        queries_iter=lambda: iter([query("7", "who")]),
    )
    monkeypatch.setitem(sys.modules, "ir_datasets", SimpleNamespace(load=lambda name: {"small": dataset}[name]))


@pytest.mark.usefixtures("small_ir_dataset")
def test_ir_datasets_give_documents_and_queries() -> None:
    docs = read_docs(["ir_datasets:small"])
    assert [next(docs), next(docs)] == [Doc("1", "a", "t"), Doc("2", "t b")]
    with pytest.raises(InputError, match=r"^ir_datasets:small:3: the id is empty"):
        next(docs)
    assert list(read_queries("ir_datasets:small")) == [Query("7", "who")]


@pytest.mark.usefixtures("small_ir_dataset")
def test_an_unknown_ir_dataset_is_an_error() -> None:
    with pytest.raises(InputError, match=r"^ir_datasets:large: ir_datasets has no dataset of this name"):
        read_docs(["ir_datasets:large"])


# --- real collections


@needs_data
@pytest.mark.parametrize(("name", "docs", "queries"), [("scifact", 5183, 1109), ("msmarco-toy", 235, 100)])
def test_real_beir_folders_are_read_whole(name: str, docs: int, queries: int) -> None:
    assert sum(1 for _ in read_docs([DATA / name])) == docs
    assert sum(1 for _ in read_queries(DATA / name)) == queries


@needs_data
@pytest.mark.parametrize(
    ("name", "queries"), [("dl19-passage", 43), ("dl20", 200), ("msmarco-passage.dev-subset", 6980)]
)
def test_real_topics_are_read_whole(name: str, queries: int) -> None:
    topics = list(read_queries(DATA / "msmarco-topics-qrels" / f"topics.{name}.txt"))
    assert len(topics) == queries
    assert not any(topic.text.endswith("\r") for topic in topics)
