"""Files become documents in other processes, several at a time, while the caller encodes those that are read.

Each process has a thread here, which asks it for one file after another and keeps the answers, as bytes, until the
caller takes them in the order of the files.
"""

from __future__ import annotations

import atexit
import math
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from threading import Condition, Thread, current_thread

from denslice.cores import cores
from denslice.corpus.formats.source_file import Problem
from denslice.corpus.reading_frames import DONE, LAST, MORE, FoundPassages, answer_parts, answer_payload
from denslice.corpus.reading_limits import ReadingLimits
from denslice.corpus.reading_process import ReadingProcess
from denslice.errors import UnavailableError, UnreadableError

MOST_WORKERS = 4  # by default; encoding takes longer than reading
AHEAD = 256  # files that are taken before the caller has those before them
AT_ONCE = 32  # small files that a process is asked for together, since asking takes longer than reading one
SMALL = 1 << 16  # bytes
START = 0.25  # seconds that the caller waits for files before there is another process, which takes as long to start
DEFAULT_LIMITS = ReadingLimits()


@dataclass(frozen=True, slots=True)
class FileTask:
    """A file to read. `name` is how ids and problems name it; `text_field` is the column that holds the text.

    A file that the user named has a `place`, which errors name; the first one ends its reading.
    """

    path: str
    name: str
    text_field: str | None = None
    strict: bool = False
    place: str = ""


@dataclass(frozen=True, slots=True)
class FileRead:
    """Documents of a file with their passages, and the problems in it: all of them, or a part if not `done`."""

    task: FileTask
    docs: list[FoundPassages]
    problems: list[Problem]
    remarks: list[str]
    done: bool


def read_files(
    tasks: Iterable[FileTask], workers: int | None = None, cut: bool = True, limits: ReadingLimits = DEFAULT_LIMITS
) -> Generator[FileRead, None, None]:
    """Yield what is read of each file, in order: parts of about 1 MB, the last of which is `done`.

    A file that cannot be read has one problem and no documents. Documents are not cut into passages, and have none, if
    `cut` is false. Raise UnavailableError if no process can be started. Closing the generator ends all processes.
    """
    reads = _reads(ReadingPool(tasks, workers or min(cores(), MOST_WORKERS), cut, limits))
    next(reads)
    yield from reads


def start_reading(tasks: Sequence[FileTask], cut: bool) -> Generator[FileRead, None, None]:
    """Return what `read_files` yields, but begin to read at once."""
    reads = _reads(ReadingPool(tasks, min(cores(), MOST_WORKERS), cut, DEFAULT_LIMITS))
    next(reads)
    return reads


def _reads(pool: ReadingPool) -> Generator[FileRead, None, None]:
    """Yield nothing that was read when the first process is started, and then what is read."""
    atexit.register(pool.close)  # threads do not survive the end of the interpreter, which closes generators only then
    try:
        pool.begin()
        yield FileRead(FileTask("", ""), [], [], [], done=True)
        yield from pool.reads()
    finally:
        atexit.unregister(pool.close)
        pool.close()


@dataclass(eq=False)
class _OpenFile:
    """A file that the caller does not have yet, with what has been read of it."""

    number: int
    task: FileTask
    is_small: bool
    frames: deque[tuple[int, bytes]] = field(default_factory=deque)  # mark and payload of each


class ReadingPool:
    """Processes that read files, started one by one as the caller has to wait, and the answers it has not taken."""

    def __init__(self, tasks: Iterable[FileTask], workers: int, cut: bool, limits: ReadingLimits) -> None:
        self._tasks, self._workers, self._cut, self._limits = iter(tasks), workers, cut, limits
        self._changed = Condition()
        self._open: deque[_OpenFile] = deque()  # in the order of the tasks
        self._unread: deque[_OpenFile] = deque()  # those of them that no process has been asked for
        self._taken = 0  # tasks
        self._threads: list[tuple[Thread, ReadingProcess]] = []
        self._refused = 0  # processes that could not be started
        self._buffered = 0  # bytes
        self._waited = 0.0  # seconds, since the last process was started
        self._error: Exception | None = None
        self._closed = False

    def begin(self) -> None:
        """Start the first process."""
        self._take_tasks()

    def reads(self) -> Iterator[FileRead]:
        """Yield what is read of each file, in order."""
        while self._take_tasks():
            file, mark = self._open[0], MORE
            while mark == MORE:
                mark, payload = self._next_frame(file)
                yield _file_read(file.task, payload, mark != MORE)

    def close(self) -> None:
        """End all processes and threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for _, process in self._threads:
            process.end()
        for thread, _ in self._threads:
            if thread is not current_thread():  # in which the garbage collector may find the generator
                thread.join()

    def _take_tasks(self) -> bool:
        """Take tasks ahead, here, since their generator belongs to the caller's thread; return if any file is open."""
        for task in islice(self._tasks, AHEAD - len(self._open)):
            self._taken += 1
            file = _OpenFile(self._taken, task, _is_small(Path(task.path)))
            with self._changed:
                self._open.append(file)
                self._unread.append(file)
                self._changed.notify_all()
            if not self._threads:
                self._start_thread()
        return bool(self._open)

    def _start_thread(self) -> None:
        process = ReadingProcess(self._limits, self._cut)
        thread = Thread(target=self._read_until_closed, args=(process,), name="denslice-read", daemon=True)
        self._threads.append((thread, process))
        thread.start()

    def _next_frame(self, file: _OpenFile) -> tuple[int, bytes]:
        """Return the next frame of the first open file, which is no longer open after its last one."""
        with self._changed:
            while not file.frames:
                self._wait()
            mark, payload = file.frames.popleft()
            self._buffered -= len(payload)
            if mark != MORE:
                self._open.popleft()
            self._changed.notify_all()
        return mark, payload

    def _wait(self) -> None:
        """Wait for a frame, a while; start another process if the caller has waited long and there are files left."""
        if self._error is not None:
            raise self._error
        began = time.monotonic()
        self._changed.wait(START)
        if not all(process.is_ready for _, process in self._threads):
            return
        self._waited += time.monotonic() - began
        if self._waited >= START and self._unread and len(self._threads) < self._workers:
            self._waited = 0.0
            self._start_thread()

    def _read_until_closed(self, process: ReadingProcess) -> None:
        """Read files with one process, which is replaced when it dies, until there are no more."""
        asked: deque[_OpenFile] = deque()
        try:
            while self._wait_for_work(asked):
                if not (asked or process.is_alive):
                    process.start()
                if len(asked) <= AT_ONCE // 2:
                    files = self._next_unread(asked)
                    process.ask(_request(file.task) for file in files)
                    asked += files
                if asked:
                    self._keep_next(process, asked)
        except Exception as error:  # noqa: BLE001 (it is raised in the caller's thread)
            self._fail(process, error)
        finally:
            process.stop()

    def _wait_for_work(self, asked: deque[_OpenFile]) -> bool:
        """Wait for files to read, and return False if the pool is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or asked or self._unread)
            return not self._closed

    def _next_unread(self, asked: deque[_OpenFile]) -> list[_OpenFile]:
        """Take the files that a process is asked for now, besides those it was asked for: small ones, or any one.

        They are not more than its share of the files that are left.
        """
        files: list[_OpenFile] = []
        with self._changed:
            most = min(AT_ONCE, math.ceil((len(asked) + len(self._unread)) / self._workers))
            while self._unread and len(asked) + len(files) < most:
                if (asked or files) and not (self._unread[0].is_small and (*asked, *files)[0].is_small):
                    break
                files.append(self._unread.popleft())
        return files

    def _keep_next(self, process: ReadingProcess, asked: deque[_OpenFile]) -> None:
        """Keep the next answer of a process about the first file that it was asked for, or what went wrong."""
        file = asked[0]
        try:
            mark, payload = process.frame(self._limits.seconds)
        except UnreadableError as error:
            mark, payload = LAST, answer_payload([], [Problem(file.task.name, error.kind, str(error))], [])
        if mark != MORE:
            asked.popleft()
        if mark == LAST:
            process.stop()
            self._give_back(asked)
        self._keep(file, mark, payload)

    def _give_back(self, asked: deque[_OpenFile]) -> None:
        """Let other processes read what one that has ended was asked for."""
        with self._changed:
            self._unread = deque(sorted((*asked, *self._unread), key=lambda file: file.number))
            self._changed.notify_all()
        asked.clear()

    def _keep(self, file: _OpenFile, mark: int, payload: bytes) -> None:
        """Add a frame to a file when there is room for it.

        There is always room for the frame that the caller waits for, so that files behind it cannot block it.
        """

        def is_free() -> bool:
            wanted = file is self._open[0] and not file.frames
            return self._closed or wanted or self._buffered < self._limits.buffer

        with self._changed:
            self._changed.wait_for(is_free)
            file.frames.append((min(mark, DONE), payload))
            self._buffered += len(payload)
            self._changed.notify_all()

    def _fail(self, process: ReadingProcess, error: Exception) -> None:
        """Raise an error in the caller's thread, unless there are other processes and only a further one is refused."""
        with self._changed:
            self._refused += 1
            further = isinstance(error, UnavailableError) and not process.is_ready
            if not further or self._refused == len(self._threads):
                self._error = error
            self._changed.notify_all()


def _request(task: FileTask) -> dict[str, object]:
    """Return the fields of a task; the process may have another working directory."""
    return {**asdict(task), "path": str(Path(task.path).absolute())}


def _is_small(path: Path) -> bool:
    """Return whether it is a file of few bytes, and no pipe, which may have any number."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return False
    return S_ISREG(found.st_mode) and found.st_size <= SMALL


def _file_read(task: FileTask, payload: bytes, done: bool) -> FileRead:
    try:
        return FileRead(task, *answer_parts(payload), done)
    except (ValueError, TypeError, LookupError, RecursionError):
        problem = Problem(task.name, "damaged file", "the reader sent what is no answer")
        return FileRead(task, [], [problem], [], done)
