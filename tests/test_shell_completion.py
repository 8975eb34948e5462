"""Shell completion: what Tab offers in a real bash, for commands and for the folders of indexes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from denslice.cli.index_completion import DEEPEST, index_folders
from denslice.index.index import Index

COMPLETE = """
denslice --install-completion > /dev/null && source ~/.bashrc
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _denslice_completion denslice; echo "${COMPREPLY[*]}"; }
complete_words denslice search m
complete_words denslice exp
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_index(path: Path) -> None:
    Index.create(path, "bm25").close()


def test_only_folders_that_are_indexes_are_offered(here: Path) -> None:
    make_index(here / "my.idx")
    (here / "music").mkdir()
    (here / "my.txt").touch()
    assert index_folders("m") == index_folders("") == ["my.idx"]
    assert index_folders("x") == []


def test_indexes_in_folders_are_offered_with_their_paths(here: Path) -> None:
    make_index(here / "data" / "one.idx")
    make_index(here / "data" / "more" / "two.idx")
    assert index_folders("d") == index_folders("data/") == ["data/more/two.idx", "data/one.idx"]
    assert index_folders("./data/o") == ["./data/one.idx"]
    assert index_folders(f"{here}/data/m") == [f"{here}/data/more/two.idx"]


def test_a_cluster_is_offered_and_not_its_shards(here: Path) -> None:
    make_index(here / "my.cluster" / "shards" / "00000")
    (here / "my.cluster" / "cluster.json").touch()
    assert index_folders("my") == ["my.cluster"]


def test_hidden_and_very_deep_folders_are_offered_once_they_are_typed(here: Path) -> None:
    make_index(here / ".hidden" / "one.idx")
    deep = "/".join("abcdef"[:DEEPEST])
    make_index(here / deep / "two.idx")
    assert index_folders("") == []
    assert index_folders(".h") == [".hidden/one.idx"]
    assert index_folders(f"{deep}/") == [f"{deep}/two.idx"]


def test_a_folder_that_is_not_there_offers_nothing(here: Path) -> None:
    assert index_folders("nowhere/x") == []


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_bash_completes_commands_and_indexes_after_one_command(here: Path) -> None:
    make_index(here / "my.idx")
    (here / "mine").mkdir()
    program = here / "bin" / "denslice"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom denslice.__main__ import main\nmain()\n")
    program.chmod(0o755)
    paths = {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": ":".join(sys.path), "HOME": str(here)}
    done = subprocess.run(["bash", "-c", COMPLETE], env=paths, capture_output=True, text=True, timeout=60)
    assert (done.stdout.splitlines(), done.stderr) == (["my.idx", "export export-docs"], "")
