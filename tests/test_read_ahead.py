"""Large files are read ahead by other processes, and what is read, and every error, is that of reading them here."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Thread
from threading import enumerate as enumerate_threads
from typing import Any

import pytest

from denslice import InputError
from denslice.corpus import read_ahead as module
from denslice.corpus.documents import read_docs
from denslice.corpus.read_ahead import can_read_ahead, read_ahead
from denslice.index.doc_batches import cut_docs
from denslice.records import checked_docs

LONG = "Foxes sleep by day in the old oven, and bake bread at night. " * 99
DOCS: list[dict[str, Any]] = [
    {"id": "fox", "title": "Füchse", "text": LONG, "year": 2001, "tags": ["a", {"b": 0.1}]},
    {"id": 7, "text": "# Heat\n\nA heat pump " + LONG},
    {"id": "line", "text": "one line\u2028of two"},
    {"_id": "empty", "text": ""},
]


def jsonl(path: Path, docs: Sequence[dict[str, Any]] = DOCS) -> str:
    path.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    return str(path)


def read_here(names: Sequence[str], text_field: str | None = None, do_cut: bool = True) -> list[Any]:
    return [tuple(one) for one in cut_docs(checked_docs(read_docs(names, text_field)), do_cut)]


@pytest.mark.parametrize("do_cut", [True, False])
def test_documents_are_those_that_are_read_here(tmp_path: Path, do_cut: bool) -> None:
    names = [jsonl(tmp_path / "a.jsonl"), str(tmp_path / "b.tsv")]
    (tmp_path / "b.tsv").write_text("1\tA wing\n2\tAn oven\n")
    expected = read_here(names, None, do_cut)
    found = list(read_ahead(names, None, do_cut))
    assert [doc for doc, _ in found] == [doc for doc, _ in expected]
    assert [places for _, places in found] == [places if do_cut else [] for _, places in expected]


@pytest.mark.parametrize(
    "broken", ['{"id": "x", "text": 5}', "{no json", '{"id": "fox", "text": "again"}', '{"id": "y", "text": "\\ud800"}']
)
def test_errors_are_those_of_reading_here(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "a.jsonl"
    names = [jsonl(path)]
    with path.open("a") as file:
        file.write(f"{broken}\n")
    with pytest.raises(InputError) as here:
        read_here(names)
    with pytest.raises(InputError) as ahead:
        list(read_ahead(names, None, True))
    assert str(ahead.value) == str(here.value)
    assert str(path) in str(here.value)


def test_an_id_of_an_earlier_file_and_an_empty_file_are_errors(tmp_path: Path) -> None:
    names = [jsonl(tmp_path / "a.jsonl"), jsonl(tmp_path / "b.jsonl", [{"id": "new", "text": "a"}, DOCS[0]])]
    with pytest.raises(InputError, match=r"b\.jsonl:2: document id 'fox' was already used"):
        list(read_ahead(names, None, True))
    with pytest.raises(InputError) as here:
        read_here([jsonl(tmp_path / "empty.jsonl", [])])
    with pytest.raises(InputError) as ahead:
        list(read_ahead([str(tmp_path / "empty.jsonl")], None, True))
    assert str(ahead.value) == str(here.value)


def test_what_was_guessed_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    name = jsonl(tmp_path / "a.jsonl", [{"id": "1", "abstract": "Foxes sleep by day and hunt at night."}])
    with caplog.at_level(logging.INFO):
        here = read_here([name])
        there = list(read_ahead([name], None, True))
    assert [doc for doc, _ in here] == [doc for doc, _ in there]
    notes = [record.getMessage() for record in caplog.records]
    assert len(notes) == 2
    assert notes[0] == notes[1]


def test_reading_begins_at_once_and_ends_with_the_last_reference(tmp_path: Path) -> None:
    docs = read_ahead([jsonl(tmp_path / "a.jsonl")], None, True)
    assert readers()
    del docs
    assert not readers()


def readers() -> list[Thread]:
    return [thread for thread in enumerate_threads() if thread.name == "denslice-read"]


def test_only_large_files_of_lines_are_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores", lambda: 2)
    name = jsonl(tmp_path / "a.jsonl")
    assert not can_read_ahead([name])
    monkeypatch.setattr(module, "SMALLEST", 1)
    assert can_read_ahead([name])
    (tmp_path / "a.csv").write_text("id,text\n1,a\n")
    assert not any(can_read_ahead([name, other]) for other in ("-", str(tmp_path / "a.csv"), str(tmp_path)))
    monkeypatch.setattr(module, "cores", lambda: 1)
    assert not can_read_ahead([name])
