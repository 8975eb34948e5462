"""The program of a process that reads files: it answers each file's name with documents, cut into passages.

`python -m denslice.corpus.reading_worker` takes frames on stdin, first the settings, and answers on stdout.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from denslice.corpus.documents import named_file_docs
from denslice.corpus.file_docs import file_docs
from denslice.corpus.formats.source_file import Problem, SourceFile
from denslice.corpus.passages import cut
from denslice.corpus.reading_frames import DONE, LAST, MORE, answer_payload, doc_row, framed, read_request
from denslice.corpus.reading_limits import confine
from denslice.errors import DensliceError, InputError, MissingExtraError, UnreadableError
from denslice.records import Doc, checked_docs

FRAME_SIZE = 1 << 20  # characters
FRAME_DOCS = 512
FRAME_SECONDS = 5.0  # after which documents are sent, so that a slow file is not taken for one that hangs
GRACE = 1.0  # seconds; the parent ends a process that hangs, and if there is no parent any more, an alarm does
LONGEST_PROBLEM = 300  # characters of an exception's message


def main() -> None:
    """Answer requests until stdin is closed."""
    requests, answers = _own_channels()
    settings = read_request(requests)
    if settings is None:
        return
    queue: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests, queue), daemon=True).start()
    confine(settings["memory"])
    _send(answers, framed(b""))
    while True:
        file = _source(queue.get())
        for frame in _within(settings["seconds"] + GRACE, _answers(file, settings["cut"])):
            _send(answers, frame)


def _own_channels() -> tuple[IO[bytes], IO[bytes]]:
    """Return what stdin and stdout were. From now on, what a library prints goes to stderr and it reads nothing."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return os.fdopen(requests, "rb"), os.fdopen(answers, "wb")


def _receive(requests: IO[bytes], queue: SimpleQueue[Any]) -> None:
    """Queue requests, and end the process, whatever it is doing, when the parent has closed its end or died."""
    while (request := read_request(requests)) is not None:
        queue.put(request)
    os._exit(0)


def _send(answers: IO[bytes], frame: bytes) -> None:
    try:
        answers.write(frame)
        answers.flush()
    except BrokenPipeError:
        os._exit(0)


def _within(seconds: float, frames: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the frames. The system kills the process if one takes longer to make, even if Python is stuck in C."""
    while True:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            frame = next(frames, None)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if frame is None:
            return
        yield frame


def _source(request: dict[str, Any]) -> SourceFile:
    return SourceFile(**{**request, "path": Path(request["path"])})


def _answers(file: SourceFile, with_passages: bool) -> Iterator[bytes]:
    """Yield the frames of a file, the last of which tells why reading ended early, if it did."""
    batch = _Batch(file)
    mark = DONE
    try:
        for doc in _named_docs(file) if file.place else _valid_docs(file):
            batch.add(doc_row(doc, cut(doc.text) if with_passages else ()))
            if batch.is_full:
                yield batch.frame(MORE)
    except MemoryError:
        mark = LAST  # memory may be in pieces: the next file gets a new process
        batch.rows.clear()
        file.problems.append(Problem(file.name, "large file", "needs more memory than a reader may use"))
    except Exception as error:  # noqa: BLE001 (a parser raises anything, and it is reported)
        file.problems.append(_problem(file, error))
    yield batch.frame(mark)


class _Batch:
    """The documents, problems and remarks of a file that were not sent yet."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.rows: list[str] = []
        self._size = 0
        self._since = time.monotonic()

    def add(self, row: str) -> None:
        """Add a document as JSON."""
        self.rows.append(row)
        self._size += len(row)

    @property
    def is_full(self) -> bool:
        """Whether the batch should be sent."""
        many = len(self.rows) + len(self.file.problems) >= FRAME_DOCS
        return many or self._size >= FRAME_SIZE or time.monotonic() - self._since > FRAME_SECONDS

    def frame(self, mark: int) -> bytes:
        """Return all as a frame, and begin anew."""
        frame = framed(answer_payload(self.rows, self.file.problems, self.file.remarks), mark)
        for sent in (self.rows, self.file.problems, self.file.remarks):
            sent.clear()
        self._size, self._since = 0, time.monotonic()
        return frame


def _valid_docs(file: SourceFile) -> Iterator[Doc]:
    """Yield the documents that an index can take; the others are reported."""
    for number, doc in enumerate(file_docs(file), 1):
        try:
            yield from checked_docs([doc], number)
        except InputError as error:
            file.skip("bad document", str(error))


def _named_docs(file: SourceFile) -> Iterator[Doc]:
    """Yield the documents of a file that the user named; raise InputError at what is wrong in it."""
    return checked_docs(doc for _, doc in named_file_docs(file))


def _problem(file: SourceFile, error: Exception) -> Problem:
    """Return what an exception says about the file, at the line that it names."""
    if file.place and isinstance(error, DensliceError):
        return Problem(file.place, "named file", str(error))
    if isinstance(error, UnreadableError):
        return _placed(file, error.kind, str(error))
    if isinstance(error, MissingExtraError):
        return _placed(file, "missing package", str(error))
    if isinstance(error, InputError):
        return _placed(file, "damaged file", str(error))
    told = " ".join(f"{type(error).__name__}: {error}".split())
    return Problem(file.name, "damaged file", told[:LONGEST_PROBLEM])


def _placed(file: SourceFile, kind: str, told: str) -> Problem:
    """Return a problem whose text does not begin with the name of the file and the line, which are its place."""
    names = "|".join(re.escape(name) for name in (str(file.path), file.name))
    begin = re.match(rf"(?:{names})(:\d+)?: ", told)
    if begin is None:
        return Problem(file.name, kind, told)
    return Problem(f"{file.name}{begin[1] or ''}", kind, told[begin.end() :])


if __name__ == "__main__":
    main()
