"""What operators of an index expect: metadata changed in place, copies of a living index, a word on Windows."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from denslice import Index, InputError, open_index
from denslice.__main__ import app


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """Two segments of notes."""
    made = Index.create(tmp_path / "my.idx", "bm25", slices=4, filterable=["year"])
    made.add([{"id": f"{n}", "title": f"note {n}", "text": f"apple number{n} pear", "year": n} for n in range(5)])
    made.add([{"id": "x", "text": "apple", "year": 7, "tags": ["a"]}])
    return made


def test_update_changes_the_metadata_of_a_document_and_nothing_else(index: Index) -> None:
    before = {hit.id: (hit.score, hit.title, hit.text) for hit in index.search("apple number3", 50)}
    why = index.explain("apple number3", "3")
    assert index.update("3", {"year": 2030, "checked": True}) is True
    doc = index.get("3")
    assert doc is not None
    assert dict(doc.meta) == {"year": 2030, "checked": True}
    assert {hit.id: (hit.score, hit.title, hit.text) for hit in index.search("apple number3", 50)} == before
    assert index.explain("apple number3", "3") == why
    assert index.search("apple", where={"year": {"gt": 2000}}).ids == ("3",)
    assert index.search("apple", where={"year": 3}).ids == ()
    assert len(index) == len(open_index(index.path)) == 6
    index.verify()


def test_update_of_an_id_nobody_has_says_so_and_commits_nothing(index: Index) -> None:
    before = index.generation
    assert index.update("nobody", {"year": 1}) is False
    assert index.generation == before


def test_update_needs_no_encoder(tmp_path: Path) -> None:
    weights = sp.csr_array(np.eye(3, dtype=np.float32))
    made = Index.create(tmp_path / "v.idx", "vectors", vocab=3)
    made.add_vectors(["a", "b", "c"], weights, dense=np.eye(3, 2))
    before = [made.search_vectors(weights[n : n + 1], dense=np.ones(2)).scores for n in range(3)]
    assert made.update("b", {"kind": "vector"})
    assert [made.search_vectors(weights[n : n + 1], dense=np.ones(2)).scores for n in range(3)] == before
    assert made.merge() == 2
    assert [made.search_vectors(weights[n : n + 1], dense=np.ones(2)).scores for n in range(3)] == before


def test_update_refuses_metadata_that_is_not_json(index: Index) -> None:
    with pytest.raises(InputError, match="metadata of document '3' is not JSON"):
        index.update("3", {"bad": {1, 2}})
    assert index.search("apple", where={"year": 3}).ids == ("3",)


def test_a_backup_is_an_index_of_its_own(index: Index, tmp_path: Path) -> None:
    index.delete(["1"])
    index.backup(tmp_path / "copy.idx")
    with open_index(tmp_path / "copy.idx") as copy:
        copy.verify()
        assert list(copy.docs()) == list(index.docs())
        assert copy.search("apple number3", 50).scores == index.search("apple number3", 50).scores
        copy.add([{"id": "only here", "text": "quince"}])
        copy.merge()
    assert index.refresh() is False
    assert index.search("quince").ids == ()
    index.verify()
    index.merge()
    open_index(tmp_path / "copy.idx").verify()


def test_a_backup_goes_where_nothing_is(index: Index, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").write_text("keep")
    with pytest.raises(InputError, match="the folder is not empty"):
        index.backup(tmp_path / "there")
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["mine"]


def test_a_backup_of_an_index_that_is_written_to_is_one_commit(tmp_path: Path) -> None:
    made = Index.create(tmp_path / "my.idx", "bm25")
    made.add([{"id": "head", "text": "head", "docs": 1}])
    done = threading.Event()

    def write() -> None:
        writer = open_index(made.path)
        for n in range(1, 10_000):
            if done.is_set():
                return
            writer.add([{"id": f"{n}", "text": f"word{n}"}, {"id": "head", "text": "head", "docs": n + 1}])

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for n in range(15):
            made.backup(tmp_path / f"copy{n}")
    finally:
        done.set()
        writing.join()
    for n in range(15):
        with open_index(tmp_path / f"copy{n}") as copy:
            copy.verify()
            head = copy.get("head")
            assert head is not None
            assert len(copy) == head.meta["docs"] == len(list(copy.docs()))


def test_the_command_copies_and_says_so(index: Index, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["backup", str(index.path), "--to", str(tmp_path / "copy.idx")])
    assert shown.exit_code == 0
    assert shown.stdout == f"copied 6 documents to {tmp_path / 'copy.idx'}\n"


def test_windows_is_told_in_one_sentence_where_denslice_runs() -> None:
    code = "import sys; sys.platform = 'win32'; import denslice"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith(
        "ImportError: denslice runs on Linux and macOS; on Windows, install"
    )
