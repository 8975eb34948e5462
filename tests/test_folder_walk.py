"""A walk finds the files of any folder once, in one order, and reports what it cannot read."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from denslice.corpus.folder_walk import beir_corpus, walk
from denslice.corpus.formats.source_file import Problem
from denslice.errors import InputError

GOLDEN = Path(__file__).parent / "golden"
NOBODY = 65534


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name, errors="surrogateescape")


def relatives(folder: Path) -> list[str]:
    """The relative paths of the files of a folder in which everything can be read."""
    found, problems = walked(folder)
    assert problems == []
    return found


def walked(folder: Path) -> tuple[list[str], list[Problem]]:
    problems: list[Problem] = []
    found = [file.relative for file in walk(folder, problems.append)]
    return found, problems


# --- files and their order


def test_files_have_their_size_and_time(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("four")
    os.utime(tmp_path / "a.txt", ns=(5, 7))
    [file] = walk(tmp_path, pytest.fail)  # type: ignore[arg-type]
    assert file == (tmp_path / "a.txt", "a.txt", 4, 7)


def test_files_come_in_the_order_of_the_parts_of_their_paths(tmp_path: Path) -> None:
    write(tmp_path, "b.txt", "a.b/x", "a/z", "a/B", "a/b/c", "a-b", "é", "Z")
    assert relatives(tmp_path) == ["Z", "a/B", "a/b/c", "a/z", "a-b", "a.b/x", "b.txt", "é"]


names = st.binary(min_size=1, max_size=6).filter(lambda name: not {0, 47} & set(name)).map(lambda name: b"f" + name)


@given(st.sets(names, max_size=8))
def test_a_file_of_any_name_is_found_and_can_be_opened(encoded: set[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kept = {name for name in map(os.fsdecode, encoded) if not name.endswith("~")}
        for name in kept:
            Path(folder, name).write_bytes(os.fsencode(name))
        found = list(walk(Path(folder), pytest.fail))  # type: ignore[arg-type]
        assert {file.path.read_bytes() for file in found} == set(map(os.fsencode, kept))
        assert all(file.relative.isprintable() for file in found)
        assert [file.relative for file in found] == sorted({file.relative for file in found})


def test_a_walk_goes_deeper_than_python_recurses(tmp_path: Path) -> None:
    write(tmp_path, "d/" * 300 + "a")
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(250)
    try:
        found = relatives(tmp_path)
    finally:
        sys.setrecursionlimit(limit)
    assert found == ["d/" * 300 + "a"]


def test_the_folder_may_be_named_in_any_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "notes/a.txt")
    (tmp_path / "link").symlink_to("notes")
    monkeypatch.chdir(tmp_path / "notes")
    for folder in (".", "..//notes/", "../link", str(tmp_path / "notes")):
        assert relatives(Path(folder)) == ["a.txt"]


def test_a_folder_that_is_missing_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file or folder"):
        walk(tmp_path / "missing", pytest.fail)  # type: ignore[arg-type]


# --- what is left out


def test_files_of_programs_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.docx", "~$a.docx", "~WRL0001.tmp", ".a.txt", ".#a.txt", "a.txt~", "a.txt.swp", "#a.txt#")
    write(tmp_path, ".DS_Store", "Thumbs.db", "desktop.ini", ".git/config", "node_modules/x/y.js", "__pycache__/a.pyc")
    write(tmp_path, "notes/a~b.txt", "notes/#1.txt", "lib.so")
    assert relatives(tmp_path) == ["a.docx", "lib.so", "notes/#1.txt", "notes/a~b.txt"]


def test_virtual_environments_and_caches_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "env/pyvenv.cfg", "env/a.txt", "cache/a.txt", "no-cache/CACHEDIR.TAG")
    (tmp_path / "cache" / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n# made by x")
    assert relatives(tmp_path) == ["no-cache/CACHEDIR.TAG"]


@pytest.mark.parametrize("index", ["format-2-bm25.zip", "format-3-mini.zip"])
def test_an_index_is_left_out(tmp_path: Path, index: str) -> None:
    write(tmp_path, "a.txt", "app/manifest.json")
    zipfile.ZipFile(GOLDEN / index).extractall(tmp_path / "notes.idx")
    assert relatives(tmp_path) == ["a.txt", "app/manifest.json"]


def test_a_cluster_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "c/shards/00000/x", "d/cluster.json")
    (tmp_path / "c" / "cluster.json").write_text('{\n "format": 1,\n "shards": 2,\n "owner": "blake2b-8 of the id"\n}')
    assert relatives(tmp_path) == ["a.txt", "d/cluster.json"]


def test_a_folder_that_is_named_is_never_left_out(tmp_path: Path) -> None:
    write(tmp_path, ".hidden/a.txt", "node_modules/a.txt", "env/pyvenv.cfg")
    assert relatives(tmp_path / ".hidden") == ["a.txt"]
    assert relatives(tmp_path / "node_modules") == ["a.txt"]
    assert relatives(tmp_path / "env") == ["pyvenv.cfg"]


# --- BEIR


def test_of_a_beir_folder_only_the_corpus_is_found(tmp_path: Path) -> None:
    write(tmp_path, "nq/corpus.jsonl", "nq/queries.jsonl.gz", "nq/qrels/test.tsv", "readme.md")
    assert beir_corpus(tmp_path / "nq") == tmp_path / "nq" / "corpus.jsonl"
    assert relatives(tmp_path / "nq") == ["corpus.jsonl"]
    assert relatives(tmp_path) == ["nq/corpus.jsonl", "readme.md"]


def test_a_corpus_without_queries_is_a_file_like_others(tmp_path: Path) -> None:
    write(tmp_path, "corpus.jsonl.gz", "notes.md")
    assert beir_corpus(tmp_path) is None
    assert relatives(tmp_path) == ["corpus.jsonl.gz", "notes.md"]


# --- links


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A folder beside one that is outside of it."""
    write(tmp_path, "in/sub/a.txt", "in/.hidden/h.txt", "out/o.txt", "out/deep/p.txt")
    return tmp_path / "in"


def test_a_link_to_a_file_in_the_walk_is_left_out(linked: Path) -> None:
    (linked / "0.txt").symlink_to("sub/a.txt")
    assert relatives(linked) == ["sub/a.txt"]


def test_a_link_to_a_file_that_is_left_out_is_followed(linked: Path) -> None:
    (linked / "h.txt").symlink_to(".hidden/h.txt")
    assert relatives(linked) == ["h.txt", "sub/a.txt"]
    (linked / ".gitignore").write_text("sub/\n")
    (linked / "a.txt").symlink_to("sub/a.txt")
    assert relatives(linked) == ["a.txt", "h.txt"]


def test_a_link_is_followed_out_of_the_folder_and_once(linked: Path) -> None:
    (linked / "1.txt").symlink_to("../out/o.txt")
    (linked / "2.txt").symlink_to("../out/o.txt")
    (linked / "3").symlink_to("../out")
    (linked / "4").symlink_to("../out")
    (linked / "5").symlink_to("../out/deep")
    assert relatives(linked) == ["1.txt", "3/deep/p.txt", "sub/a.txt"]


def test_a_link_within_a_linked_folder_is_left_out(linked: Path) -> None:
    (linked / "out").symlink_to("../out")
    (linked.parent / "out" / "0.txt").symlink_to("o.txt")
    assert relatives(linked) == ["out/deep/p.txt", "out/o.txt", "sub/a.txt"]


def test_links_in_loops_end(linked: Path) -> None:
    (linked / "self").symlink_to(".")
    (linked / "up").symlink_to("../..")
    (linked / "sub" / "root").symlink_to("/")
    (linked / "out").symlink_to("../out")
    (linked.parent / "out" / "back").symlink_to("../in")
    (linked.parent / "out" / "above").symlink_to("..")
    assert relatives(linked) == ["out/deep/p.txt", "out/o.txt", "sub/a.txt"]


def test_a_rule_for_a_folder_holds_for_a_link_to_one(linked: Path) -> None:
    (linked / "out").symlink_to("../out")
    (linked / ".gitignore").write_text("out/\n")
    assert relatives(linked) == ["sub/a.txt"]


def test_hard_links_are_files_of_their_own(linked: Path) -> None:
    os.link(linked / "sub" / "a.txt", linked / "b.txt")
    assert relatives(linked) == ["b.txt", "sub/a.txt"]


# --- what cannot be read


def test_links_to_nothing_are_reported(tmp_path: Path) -> None:
    write(tmp_path, "a.txt")
    (tmp_path / "gone").symlink_to("missing")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "under").symlink_to("a.txt/b")
    (tmp_path / ".hidden").symlink_to("missing")
    (tmp_path / "ignored.tmp").symlink_to("missing")
    (tmp_path / ".gitignore").write_text("*.tmp")
    found, problems = walked(tmp_path)
    assert found == ["a.txt"]
    assert problems == [Problem(name, "broken link", "leads to no file") for name in ("gone", "loop", "under")]


def test_pipes_sockets_and_devices_are_reported_and_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pi\npe")
    monkeypatch.chdir(tmp_path)  # since the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        (tmp_path / "null").symlink_to("/dev/null")
        (tmp_path / "manifest.json").symlink_to("pi\npe")
        found, problems = walked(tmp_path)
    assert found == []
    assert [(place, kind, problem.split(",")[0]) for place, kind, problem in problems] == [
        ("manifest.json", "special file", "a named pipe"),
        ("null", "special file", "a device"),
        ("pi%0Ape", "special file", "a named pipe"),
        ("socket", "special file", "a socket"),
    ]


@contextmanager
def without_privileges() -> Iterator[None]:
    """Let root be refused what others are refused."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def guarded() -> Iterator[Path]:
    """A folder in which a folder and two files cannot be read, within folders that everybody may enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, "closed/a.txt", "secret.txt", "open.txt", "sub/.gitignore", "sub/b.txt")
        refused = [folder / "closed", folder / "secret.txt", folder / "sub" / ".gitignore"]
        folder.chmod(0o755)
        for path in refused:
            path.chmod(0)
        yield folder
        for path in refused:
            path.chmod(0o700)


def test_what_may_not_be_read_is_reported(guarded: Path) -> None:
    with without_privileges():
        found, problems = walked(guarded)
    assert found == ["open.txt", "sub/b.txt"]
    assert problems == [
        Problem("closed", "unreadable folder", "Permission denied"),
        Problem("secret.txt", "unreadable file", "Permission denied"),
        Problem("sub/.gitignore", "unreadable file", "Permission denied"),
    ]


def test_a_folder_that_may_not_be_read_is_an_error(guarded: Path) -> None:
    with without_privileges(), pytest.raises(InputError, match="Permission denied"):
        walk(guarded / "closed", pytest.fail)  # type: ignore[arg-type]


def test_a_file_that_is_gone_meanwhile_is_no_problem(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "b.txt", "c.txt")
    problems: list[Problem] = []
    files = walk(tmp_path, problems.append)
    next(files)
    (tmp_path / "b.txt").unlink()
    assert [file.relative for file in files] == ["c.txt"]
    assert problems == []
