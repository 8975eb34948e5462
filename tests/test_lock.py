"""One commit at a time, across processes; whoever encodes stops nobody, and readers keep what they opened."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from denslice import Index, InputError, LockedError
from denslice.store import lock
from denslice.store import manifest as manifests
from denslice.store.folder import Folder
from denslice.store.snapshot import session, sweep
from forked import Child
from waiting import wait_until

# Each takes the index's path, says a word when it is where it should be, and goes on when it is told a line.
SLOW_WRITER = """
import sys
from denslice import Index

def docs():
    for n in range(3000):  # more than a batch: some are on disk before the last is read
        yield {"id": f"slow {n}", "text": "slow"}
    print("writing", flush=True)
    sys.stdin.readline()

Index.open(sys.argv[1]).add(docs())
"""
HOLDER = """
import sys
from pathlib import Path
from denslice import LockedError
from denslice.store import lock

with lock.writing(Path(sys.argv[1])):
    print("holding", flush=True)
    sys.stdin.readline()
try:
    with lock.writing(Path(sys.argv[1]), wait=0):
        print("had it again", flush=True)
except LockedError:
    print("let others go first", flush=True)
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
    """The ids of all documents, those of the slow writer as one."""
    return sorted({doc.id.split()[0] for doc in Index.open(path).docs()})


def segments(path: Path) -> set[str]:
    """The names of the segments' folders."""
    return {folder.name for folder in (path / "segments").iterdir()}


def uncommitted(path: Path) -> list[str]:
    """What lies in the folder of segments that are not committed."""
    return sorted(one.name for one in (path / "writing").iterdir())


def test_a_writer_that_still_reads_and_encodes_stops_nobody(
    path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    first = start(SLOW_WRITER, path)
    index = Index.open(path)
    index.add([{"id": "c", "text": "c"}], wait=0)
    index.delete(["a"], wait=0)
    index.merge(wait=0)
    assert ids(path) == ["b", "c"]
    finish(first)
    assert ids(path) == ["b", "c", "slow"]
    assert len(Index.open(path)) == 3002


WRITES: dict[str, Callable[[Index], int]] = {
    "add": lambda index: index.add([{"id": "c", "text": "c"}], wait=0),
    "update": lambda index: index.update("a", {"year": 1}, wait=0),
    "delete": lambda index: index.delete(["a"], wait=0),
    "merge": lambda index: index.merge(wait=0),
}


@pytest.mark.parametrize("write", WRITES)
def test_while_another_process_commits_who_does_not_wait_is_refused_and_told_who_it_is(
    path: Path, start: Callable[..., subprocess.Popen[str]], write: str
) -> None:
    first = start(HOLDER, path)
    with pytest.raises(LockedError, match=f"process {first.pid} "):
        WRITES[write](Index.open(path))
    assert ids(path) == ["a", "b"]  # readers are let in
    assert uncommitted(path) == []
    finish(first)


def test_who_waits_gets_its_turn(path: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    first = start(HOLDER, path)
    second = start(WAITING_WRITER, path)
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(0.5)
    finish(first)
    finish(second)
    assert ids(path) == ["a", "b", "waited"]


def test_who_has_just_written_lets_those_who_wait_go_first(
    path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    first = start(HOLDER, path)
    second = start(WAITING_WRITER, path)
    wait_until(lambda: is_held(path / "lock.next"))
    assert finish(first) == "let others go first"
    finish(second)


def is_held(path: Path) -> bool:
    """Whether another process holds the lock of this file."""
    with lock.alive(path) as is_free:
        return not is_free


def test_a_wait_that_is_too_short_ends_in_the_same_error(
    path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    start(HOLDER, path)
    with pytest.raises(LockedError, match="is writing to this index"):
        Index.open(path).delete(["a"], wait=0.3)


def test_two_threads_of_one_process_wait_for_one_another_and_are_told_so(path: Path) -> None:
    index = Index.open(path)
    with lock.writing(path), pytest.raises(LockedError, match="another thread of this process is writing"):
        index.delete(["a"], wait=0)
    assert index.delete(["a"], wait=0) == 1


@pytest.mark.parametrize("program", [SLOW_WRITER, HOLDER], ids=["encoding", "committing"])
def test_a_killed_writer_leaves_no_lock_and_no_document(
    path: Path, start: Callable[..., subprocess.Popen[str]], program: str
) -> None:
    first = start(program, path)
    first.kill()
    first.wait()
    assert len(uncommitted(path)) == (2 if program == SLOW_WRITER else 0)  # its folder, and its lock
    Index.open(path).add([{"id": "c", "text": "c"}], wait=0)
    assert ids(path) == ["a", "b", "c"]
    assert uncommitted(path) == []


def test_a_stopped_writer_keeps_its_lock(path: Path, start: Callable[..., subprocess.Popen[str]]) -> None:
    first = start(HOLDER, path)
    first.send_signal(signal.SIGSTOP)
    with pytest.raises(LockedError, match=f"process {first.pid} "):
        Index.open(path).delete(["a"], wait=0)
    first.send_signal(signal.SIGCONT)
    finish(first)


def test_what_a_stopped_writer_has_under_way_is_not_swept(
    path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    first = start(SLOW_WRITER, path)
    first.send_signal(signal.SIGSTOP)
    before = uncommitted(path)
    for n in range(3):
        Index.open(path).add([{"id": "c", "text": f"c{n}"}], wait=0)
    assert uncommitted(path) == before
    first.send_signal(signal.SIGCONT)
    finish(first)
    assert (ids(path), uncommitted(path)) == (["a", "b", "c", "slow"], [])


def test_a_sweep_never_takes_the_corner_of_a_living_writer(path: Path) -> None:
    stop = Event()

    def sweeping() -> None:
        while not stop.is_set():
            with suppress(OSError):
                sweep(path, manifests.read(Folder(path)))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # so that a sweep looks at a lock before its owner holds it, again and again
    sweeper = Thread(target=sweeping)
    sweeper.start()
    try:
        for _ in range(300):
            with session(path) as corner:
                (corner / "segment").touch()
                assert all((corner / "segment").exists() for _ in range(5))
    finally:
        stop.set()
        sweeper.join()
        sys.setswitchinterval(interval)


def test_a_reader_elsewhere_reads_on_in_files_that_have_gone_from_the_folder(
    path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    old = segments(path)
    reader = start(READER, path)
    index = Index.open(path)
    index.add([{"id": "a", "text": "replaced"}])
    index.merge()
    index.delete(["b"])
    assert not old & segments(path)
    assert finish(reader) == "['kept a', 'kept b'] 2"


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
        for name in ("lock", "lock.next"):
            (path / name).chmod(0o444)
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
