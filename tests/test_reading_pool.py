"""Files are read in other processes: in order, within limits, and whatever happens to a process, one file is lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

import pytest

import hostile_format
from denslice.corpus.formats.source_file import Problem
from denslice.corpus.passages import cut
from denslice.corpus.reading_limits import ReadingLimits
from denslice.corpus.reading_pool import AHEAD, FileRead, FileTask, read_files
from denslice.errors import UnavailableError
from waiting import wait_until

IMPATIENT = ReadingLimits(seconds=1)
LONG = "The apple tree. " * 500
FILES = {
    "long.txt": LONG,
    **{f"{n}.txt": f"apple {n}" for n in range(60)},
    "long.act": "rows 1200 10",
    "wide.act": "rows 5 600000",
    "part.act": "say apple\nskip no comma\nsay pear",
    "strict.act": "say apple\nskip no comma\nsay pear",
    "scan.act": "fail no text",
    "bug.act": "fail",
    "end.act": "rows 600 1\nfail the rest is missing",
    "packed.txt.zst": "",
    "two\nlines.txt": "apple",
    "half.act": r"say a\ud800b\udc00\ud800c",
    "loud.act": "mutter\nsay apple",
    "server.act": "connect PORT",
    "program.act": "execute true",
}
Written = Callable[[str, str], FileTask]
Reads = dict[str, list[FileRead]]


def writer(folder: Path, patch: pytest.MonkeyPatch) -> Written:
    """Return a function that writes a file and returns the task of reading it; readers know the format .act."""
    hostile_format.register(folder / "modules", patch)

    def write(name: str, text: str) -> FileTask:
        (folder / name).write_text(text, encoding="utf-8")
        return FileTask(str(folder / name), name, strict=name == "strict.act")

    return write


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Written:
    return writer(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def reads(tmp_path_factory: pytest.TempPathFactory) -> Reads:
    """What is read of FILES, by name, in one go."""
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as server:
        write = writer(folder, patch)
        (folder / "modules" / "zstandard.py").write_text("raise ImportError")  # as if it were not installed
        tasks = [write(name, text.replace("PORT", str(server.getsockname()[1]))) for name, text in FILES.items()]
        (folder / "image.txt").write_bytes(bytes(range(256)) * 10)
        tasks += [FileTask(str(folder / name), name) for name in ("image.txt", "missing.txt")]
        found: Reads = {}
        for read in read_files(tasks, workers=2):
            found.setdefault(read.task.name, []).append(read)
    assert list(found) == [task.name for task in tasks]
    return found


def texts(reads: Iterable[FileRead]) -> list[str]:
    return [doc.text for read in reads for doc, _ in read.docs]


def problems(reads: Iterable[FileRead]) -> list[Problem]:
    return [problem for read in reads for problem in read.problems]


def is_gone(pid: int) -> bool:
    """Whether no process has this number, not even a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_files_come_in_order_with_their_passages(reads: Reads) -> None:
    assert list(reads) == [*FILES, "image.txt", "missing.txt"]
    assert [texts(reads[f"{n}.txt"]) for n in range(60)] == [[f"apple {n}"] for n in range(60)]
    (read,) = reads["long.txt"]
    ((doc, places),) = read.docs
    assert (doc.id, doc.text, doc.title, doc.meta["path"]) == ("long.txt", LONG, "long", "long.txt")
    assert places == cut(LONG)
    assert len(places) > 2
    assert (read.problems, read.remarks, read.done) == ([], [], True)


def test_a_table_comes_in_parts(reads: Reads) -> None:
    assert [(len(read.docs), read.done) for read in reads["long.act"]] == [(512, False), (512, False), (176, True)]
    assert [(len(read.docs), read.done) for read in reads["wide.act"]] == [(2, False), (2, False), (1, True)]
    assert [doc.meta["row"] for read in reads["long.act"] for doc, _ in read.docs] == list(range(1200))


def test_problems_and_remarks_come_with_the_documents(reads: Reads) -> None:
    (read,) = reads["part.act"]
    assert read.problems == [Problem("part.act:7", "bad line", "no comma")]
    assert read.remarks == ["part.act: no comma"]
    assert texts([read]) == ["apple", "pear"]


def test_a_strict_reader_stops_at_the_first_problem(reads: Reads) -> None:
    assert problems(reads["strict.act"]) == [Problem("strict.act:7", "damaged file", "no comma")]
    assert texts(reads["strict.act"]) == ["apple"]


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [
        ("image.txt", "binary", "not a text in any encoding that is known"),
        ("missing.txt", "damaged file", "no such file or folder"),
        ("scan.act", "scanned PDF", "no text"),
        ("bug.act", "damaged file", "KeyError: 'xref'"),
        ("packed.txt.zst", "missing package", "reading .zst needs optional packages: pip install 'denslice[files]'"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported(reads: Reads, name: str, kind: str, problem: str) -> None:
    (read,) = reads[name]
    assert (read.docs, read.problems, read.done) == ([], [Problem(name, kind, problem)], True)


def test_what_was_read_before_an_error_stays(reads: Reads) -> None:
    assert [len(read.docs) for read in reads["end.act"]] == [512, 88]
    assert problems(reads["end.act"]) == [Problem("end.act", "scanned PDF", "the rest is missing")]


def test_a_document_that_no_index_can_take_is_reported(reads: Reads) -> None:
    (read,) = reads["two\nlines.txt"]
    assert (read.docs, [problem.kind for problem in read.problems]) == ([], ["bad document"])


def test_half_a_surrogate_pair_becomes_a_question_mark(reads: Reads) -> None:
    assert texts(reads["half.act"]) == ["a?b??c"]


def test_what_libraries_print_is_no_answer(reads: Reads) -> None:
    assert texts(reads["loud.act"]) == ["apple"]


@pytest.mark.parametrize("name", ["server.act", "program.act"])
def test_readers_use_no_network_and_run_no_program(reads: Reads, name: str) -> None:
    assert texts(reads[name]) == []
    assert [problem.problem.partition(":")[0] for problem in problems(reads[name])] == ["PermissionError"]


def test_no_files_are_no_reads() -> None:
    assert list(read_files([])) == []


def test_a_name_that_is_not_unicode_is_found_and_a_text_need_not_be_cut(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.txt")
    try:
        path.write_text("apple")
    except OSError:
        pytest.skip("this file system has Unicode names only")
    (read,) = read_files([FileTask(str(path), "café.txt")], cut=False)
    assert [(doc.text, places) for doc, places in read.docs] == [("apple", [])]


def test_files_that_hang_are_left_out(written: Written, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "d.txt")  # a pipe that nobody writes to
    tasks = [
        written("a.txt", "apple"),
        written("b.act", "hang"),
        written("c.act", "babble"),
        FileTask(str(tmp_path / "d.txt"), "d.txt"),
        *(written(f"{n}.txt", f"{n}") for n in range(9)),
    ]
    reads = list(read_files(tasks, workers=3, limits=IMPATIENT))
    assert problems(reads) == [
        Problem(name, "slow file", "not read within 1 s") for name in ("b.act", "c.act", "d.txt")
    ]
    assert texts(reads) == ["apple", *"012345678"]


def test_a_file_that_crashes_its_reader_is_left_out(written: Written) -> None:
    tasks = [
        written("a.act", "rows 600 1\npid"),
        written("b.act", f"rows 600 1\ncrash {signal.SIGSEGV}"),
        written("c.act", "panic no such cell"),
        written("d.act", "pid"),
    ]
    a, _, b, b_end, c, d = read_files(tasks, workers=1)
    assert len(b.docs) == 512
    assert problems([b, b_end, c]) == [
        Problem("b.act", "damaged file", f"the reader crashed ({signal.strsignal(signal.SIGSEGV)})"),
        Problem("c.act", "damaged file", "the reader crashed (hostile_format.Panic: no such cell)"),
    ]
    assert a.problems == d.problems == []
    assert len(d.docs) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="macOS does not limit address space")
def test_a_file_that_needs_too_much_memory_is_left_out(written: Written) -> None:
    acts = ["pid", f"eat {1 << 30}", "pid", f"crash {signal.SIGKILL}", "eat 1000"]
    tasks = [written(f"{number}.act", act) for number, act in enumerate(acts)]
    reads = list(read_files(tasks, workers=1, limits=ReadingLimits(memory=1 << 30)))
    assert problems(reads) == [
        Problem("1.act", "large file", "needs more memory than a reader may use"),
        Problem("3.act", "large file", "the reader ran out of memory"),
    ]
    before, after, ate = texts(reads)
    assert before != after  # it is read by a new process, whose memory is whole
    assert ate == "ate 1000"


def test_two_files_are_read_at_the_same_time(written: Written) -> None:
    tasks = [written("a.act", "meet 1 2"), written("b.act", "meet 2 1")]
    assert texts(list(read_files(tasks, workers=2))) == ["met", "met"]


def test_tasks_are_taken_as_they_are_needed(written: Written) -> None:
    task = written("a.txt", "apple")
    tasks = iter([task] * 1000)
    reads = read_files(tasks, workers=1)
    assert texts(list(islice(reads, 3))) == ["apple"] * 3
    assert len(list(tasks)) >= 1000 - 3 - AHEAD
    assert len(list(reads)) >= AHEAD - 3


def test_no_more_is_read_ahead_than_the_buffer_takes(written: Written, tmp_path: Path) -> None:
    tasks = [written(f"{n}.act", "endless counter") for n in range(2)]
    reads = read_files(tasks, workers=1, limits=ReadingLimits(buffer=3 << 20))
    assert next(reads).docs[0][0].text.startswith("0000000000")
    wait_until(lambda: is_still(tmp_path / "counter"))
    assert (tmp_path / "counter").stat().st_size < 1000  # of 10 kB: the buffer, and some that are on the way
    reads.close()


def is_still(file: Path) -> bool:
    before = file.stat().st_size
    time.sleep(0.3)
    return file.stat().st_size == before


def test_a_full_buffer_does_not_block_the_file_that_is_waited_for(written: Written) -> None:
    tasks = [written("a.act", "meet 1 2\nrows 9 600000"), written("b.act", "rows 4 600000\nmeet 2 1")]
    reads = list(read_files(tasks, workers=2, limits=ReadingLimits(buffer=1)))
    assert [len(read.docs) for read in reads] == [3, 2, 2, 2, 1, 2, 2, 1]


def test_closing_early_ends_every_process(written: Written) -> None:
    reads = read_files([written("a.act", "pid\nendless counter"), written("b.act", "endless counter")], workers=2)
    pid = int(next(reads).docs[0][0].text)
    assert not is_gone(pid)
    reads.close()
    assert is_gone(pid)
    assert not [thread for thread in threading.enumerate() if thread.name == "denslice-read"]


def test_an_error_of_the_tasks_ends_every_process(written: Written) -> None:
    def tasks() -> Iterator[FileTask]:
        yield written("a.act", "pid")
        raise KeyError("walk")

    with pytest.raises(KeyError, match="walk"):
        list(read_files(tasks()))
    assert not [thread for thread in threading.enumerate() if thread.name == "denslice-read"]


def test_a_process_that_does_not_start_is_an_error(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    task = written("a.txt", "apple")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(UnavailableError, match="cannot be started: No such file"):
        list(read_files([task]))
    monkeypatch.setattr(sys, "executable", "/bin/echo")
    with pytest.raises(UnavailableError, match="does not start"):
        list(read_files([task]))


def test_modules_of_the_folder_that_is_read_are_not_run(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "charset_normalizer.py").write_text("raise SystemExit")
    (tmp_path / "a.txt").write_bytes("Äpfel und Öl, für alle Bäume".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # as `python -m` does
    (read,) = read_files([FileTask("a.txt", "a.txt")])
    assert texts([read]) == ["Äpfel und Öl, für alle Bäume"]


SCRIPT = """
import json, os, resource, sys, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from denslice.corpus.reading_limits import ReadingLimits
from denslice.corpus.reading_pool import FileTask, read_files
reads = read_files((FileTask(path, path) for path in sys.argv[1:]), limits=ReadingLimits(seconds=2))

def show(read):
    print(json.dumps([doc.text for doc, _ in read.docs]), flush=True)
"""


def started(then: str, *tasks: FileTask) -> subprocess.Popen[str]:
    """A program that reads files, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-X", "dev", "-c", SCRIPT + then, *(task.path for task in tasks)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_a_thread_of_a_script_without_a_main_guard_reads_and_leaves_nothing_behind(written: Written) -> None:
    then = """
thread = threading.Thread(target=lambda: list(map(show, reads)))
thread.start()
thread.join()
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("no child is left")
"""
    tasks = [*(written(f"{n}.txt", f"{n}") for n in range(300)), written("loud.act", "mutter")]
    with started(then, *tasks) as script:
        told, errors = script.communicate()
    assert errors == ""
    assert told.splitlines() == [*(json.dumps([f"{n}"]) for n in range(300)), "[]", "no child is left"]


def shown_pid(script: subprocess.Popen[str]) -> int:
    """The process that reads for a script, as it says first."""
    assert script.stdout is not None
    (told,) = json.loads(script.stdout.readline())
    return int(told)


def test_a_script_that_ends_in_the_middle_ends_its_readers(written: Written) -> None:
    with started("show(next(reads))", written("a.act", "pid"), written("b.act", "hang")) as script:
        pid = shown_pid(script)
        _, errors = script.communicate()
    assert (script.returncode, errors) == (0, "")
    assert is_gone(pid)


def test_ctrl_c_interrupts_the_caller_and_ends_its_readers(written: Written, tmp_path: Path) -> None:
    with started("list(map(show, reads))", written("a.act", "pid"), written("b.act", "note begun\nhang")) as script:
        pid = shown_pid(script)
        wait_until((tmp_path / "begun").exists)
        os.killpg(script.pid, signal.SIGINT)
        _, errors = script.communicate()
    assert errors.strip().endswith("KeyboardInterrupt")
    assert errors.count("Traceback") == 1
    assert is_gone(pid)


def test_a_caller_that_handles_ctrl_c_reads_on(written: Written, tmp_path: Path) -> None:
    then = "import signal\nsignal.signal(signal.SIGINT, lambda *given: print('[]', flush=True))\nlist(map(show, reads))"
    with started(then, written("a.act", "note begun\nmeet 1 2")) as script:
        wait_until((tmp_path / "begun").exists)
        os.killpg(script.pid, signal.SIGINT)
        assert script.stdout is not None
        assert script.stdout.readline() == "[]\n"
        (tmp_path / "2").touch()
        assert script.communicate() == ('["met"]\n', "")


@pytest.mark.parametrize("act", ["say apple", "hang"])
def test_readers_end_when_the_caller_is_killed(written: Written, tmp_path: Path, act: str) -> None:
    then = "show(next(reads))\nthreading.Event().wait()"
    with started(then, written("a.act", "pid"), written("b.act", f"note begun\n{act}")) as script:
        pid = shown_pid(script)
        wait_until((tmp_path / "begun").exists)
        script.kill()
        script.communicate()
    wait_until(lambda: has_ended(pid))


def has_ended(pid: int) -> bool:
    """Whether a process does nothing more; one whose parent is dead may stay a zombie for a while."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return state.strip()[:1] in ("", "Z")
