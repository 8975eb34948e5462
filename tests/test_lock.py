"""One writer at a time, across processes; readers keep what they opened, and old files go when nobody needs them."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from denslice import Index, InputError, LockedError
from forked import Child

# Each takes the index's path, says a word when it is where it should be, and goes on when it is told a line.
SLOW_WRITER = """
import sys
from denslice import Index

def docs():
    yield {"id": "slow", "text": "slow"}
    print("writing", flush=True)
    sys.stdin.readline()

Index.open(sys.argv[1]).add(docs())
"""
WAITING_WRITER = """
import sys
from denslice import Index

index = Index.open(sys.argv[1])
print("trying", flush=True)
index.add([{"id": "waited", "text": "waited"}], wait=60)
"""
READER = """
import sys
from denslice import Index

index = Index.open(sys.argv[1])
print("reading", flush=True)
sys.stdin.readline()
index.verify()
print([hit.text for hit in index.search("kept")], len(index), flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An index of two documents."""
    return small(tmp_path / "index")


def small(path: Path) -> Path:
    """An index of two documents."""
    Index.create(path, "bm25").add([{"id": "a", "text": "kept a"}, {"id": "b", "text": "kept b"}])
    return path


@pytest.fixture
def start() -> Iterator[Callable[[str, Path], subprocess.Popen[str]]]:
    """Starts one of the programs above, and returns once it has said its word; ends it after the test."""
    started: list[subprocess.Popen[str]] = []

    def program(code: str, path: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, str(path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline(), "the program failed"
        return process

    yield program
    for process in started:
        with process:
            process.kill()


def finish(process: subprocess.Popen[str]) -> str:
    """Lets a program go on to its end; what else it said."""
    said, _ = process.communicate("\n", timeout=60)
    assert process.returncode == 0
    return said.strip()


def ids(path: Path) -> list[str]:
    """The ids of all documents."""
    return sorted(doc.id for doc in Index.open(path).docs())


def segments(path: Path) -> set[str]:
    """The names of the segments' folders."""
    return {folder.name for folder in (path / "segments").iterdir()}


@pytest.mark.parametrize(
    "write",
    [
        lambda index: index.add([{"id": "c", "text": "c"}]),
        lambda index: index.delete(["a"]),
        lambda index: index.merge(),
    ],
    ids=["add", "delete", "merge"],
)
def test_a_second_writer_is_refused_at_once_and_told_who_writes(
    path: Path, start: Callable[..., subprocess.Popen[str]], write: Callable[[Index], int]
) -> None:
    first = start(SLOW_WRITER, path)
    index = Index.open(path)
    before = time.monotonic()
    with pytest.raises(LockedError, match=f"process {first.pid} "):
        write(index)
    assert time.monotonic() - before < 0.5
    assert ids(path) == ["a", "b"]  # readers are let in
    finish(first)
    assert ids(path) == ["a", "b", "slow"]


def test_a_second_writer_that_waits_gets_its_turn(path: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    first = start(SLOW_WRITER, path)
    second = start(WAITING_WRITER, path)
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(0.5)
    finish(first)
    finish(second)
    assert ids(path) == ["a", "b", "slow", "waited"]


def test_a_wait_that_is_too_short_ends_in_the_same_error(
    path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    start(SLOW_WRITER, path)
    before = time.monotonic()
    with pytest.raises(LockedError, match="is writing to this index"):
        Index.open(path).delete(["a"], wait=0.3)
    assert 0.3 <= time.monotonic() - before < 2


def test_a_killed_writer_leaves_no_lock_and_no_document(
    path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    first = start(SLOW_WRITER, path)
    first.kill()
    first.wait()
    Index.open(path).add([{"id": "c", "text": "c"}])
    assert ids(path) == ["a", "b", "c"]


def test_a_stopped_writer_keeps_its_lock(path: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    first = start(SLOW_WRITER, path)
    first.send_signal(signal.SIGSTOP)
    with pytest.raises(LockedError, match=f"process {first.pid} "):
        Index.open(path).delete(["a"])
    first.send_signal(signal.SIGCONT)
    finish(first)


def test_old_files_stay_while_a_reader_elsewhere_needs_them_and_go_after_it(
    path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    old = segments(path)
    reader = start(READER, path)
    index = Index.open(path)
    index.add([{"id": "a", "text": "replaced"}])
    index.merge()
    index.delete(["b"])
    assert old < segments(path)
    assert finish(reader) == "['kept a', 'kept b'] 2"
    assert old < segments(path)  # it is the next write that removes them
    index.add([{"id": "c", "text": "c"}])
    assert not old & segments(path)
    assert list((path / "old").iterdir()) == []


def test_a_killed_reader_holds_nothing(path: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    old = segments(path)
    reader = start(READER, path)
    index = Index.open(path)
    index.add([{"id": "a", "text": "replaced"}])
    index.merge()
    assert old < segments(path)
    reader.kill()
    reader.wait()
    index.delete(["b"])
    assert not old & segments(path)


def test_hits_not_looked_at_yet_outlive_a_merge(path: Path) -> None:
    index = Index.open(path)
    ranking = index.search("kept")
    index.add([{"id": "a", "text": "replaced"}])
    index.merge()
    index.delete(["b"])
    assert [hit.text for hit in ranking] == ["kept a", "kept b"]


@pytest.fixture
def shared_path() -> Iterator[Path]:
    """An index in a folder that other users may read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield small(folder / "index")
    shutil.rmtree(folder)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_who_may_not_write_can_search_and_is_told_so_on_writing(shared_path: Path) -> None:
    Index.open(shared_path).search("kept")  # whatever this imports, another user may not be able to
    before = sorted(shared_path.rglob("*"))
    assert Child(lambda: _as_another_user(shared_path)).result() == "as expected"
    assert sorted(shared_path.rglob("*")) == before


def _as_another_user(path: Path) -> str:
    """Searches and writes as someone who owns nothing in the folder; must run in a process of its own."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    else:
        for folder in (path, *filter(Path.is_dir, path.rglob("*"))):
            folder.chmod(0o555)
        (path / "lock").chmod(0o444)
    index = Index.open(path)
    index.verify()
    assert [hit.text for hit in index.search("kept")] == ["kept a", "kept b"]
    assert index.refresh() is False
    with pytest.raises(InputError, match="cannot be written"):
        index.add([{"id": "c", "text": "c"}])
    with pytest.raises(InputError, match="cannot be written"):
        index.delete(["a"])
    with pytest.raises(InputError, match="cannot make an index here"):
        Index.create(path.parent / "other", "bm25")
    return "as expected"
