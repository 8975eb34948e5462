"""A format whose files say how to misbehave, line by line, for readers of files in other processes.

`register` makes it known to every reader that this process starts. A line is a word and an argument.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from denslice.corpus.formats import FORMATS, Format
from denslice.corpus.formats.source_file import SourceFile
from denslice.errors import UnreadableError
from denslice.records import Doc


class Panic(BaseException):
    """What a parser written in Rust raises; it is no Exception."""


def register(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Make `.act` files known: a process imports sitecustomize when it starts."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "from hostile_format import FORMATS, Format, read\nFORMATS['.act'] = Format(read, many=True)\n"
    )
    patch.syspath_prepend(str(folder))
    patch.syspath_prepend(str(Path(__file__).parent))


def read(file: SourceFile) -> Iterator[Doc]:
    """Yield what the lines of a file make."""
    for _, line in file.lines():
        word, _, rest = line.partition(" ")
        yield from ACTS[word](file, rest)


def say(file: SourceFile, rest: str) -> Iterator[Doc]:
    """A document of this text, in which escapes stand for characters that no file can hold."""
    yield Doc("", rest.encode().decode("unicode_escape"))


def rows(file: SourceFile, rest: str) -> Iterator[Doc]:
    """So many documents of so many characters."""
    number, size = map(int, rest.split())
    yield from (Doc("", "x" * size, meta={"row": row}) for row in range(number))


def pid(file: SourceFile, rest: str) -> Iterator[Doc]:
    """A document with the number of the process."""
    yield Doc("", str(os.getpid()))


def skip(file: SourceFile, rest: str) -> Iterator[Doc]:
    """No document, but a problem and a remark."""
    file.skip("bad line", rest, 7)
    file.remark(rest)
    yield from ()


def mutter(file: SourceFile, rest: str) -> Iterator[Doc]:
    """No document, but noise wherever a library can make some."""
    print("noise", flush=True)  # noqa: T201
    os.write(1, b"noise" * 100_000)
    os.write(2, b"noise" * 100_000)
    assert sys.stdin.read() == ""
    yield from ()


def crash(file: SourceFile, rest: str) -> Iterator[Doc]:
    """The end of the process, by a signal."""
    os.kill(os.getpid(), int(rest))
    yield Doc("", "never")


def panic(file: SourceFile, rest: str) -> Iterator[Doc]:
    """The end of the process, by an exception."""
    raise Panic(rest)
    yield


def fail(file: SourceFile, rest: str) -> Iterator[Doc]:
    """An exception that no reader should raise, or one that it should."""
    raise UnreadableError("scanned PDF", rest) if rest else KeyError("xref")
    yield


def hang(file: SourceFile, rest: str) -> Iterator[Doc]:
    """Nothing: Python matches in C, where it looks at nothing else."""
    re.match(r"(a+)+$", "a" * 60 + "b")
    yield Doc("", "never")


def babble(file: SourceFile, rest: str) -> Iterator[Doc]:
    """Nothing, with noise for ever."""
    while True:
        os.write(2, b"noise" * 1000)
        time.sleep(0.01)
    yield


def eat(file: SourceFile, rest: str) -> Iterator[Doc]:
    """A document that needs so many bytes."""
    yield Doc("", f"ate {len(bytearray(int(rest)))}")


def note(file: SourceFile, rest: str) -> Iterator[Doc]:
    """No document, but a file beside this one, to say that reading has come so far."""
    file.path.with_name(rest).touch()
    yield from ()


def meet(file: SourceFile, rest: str) -> Iterator[Doc]:
    """A document once another process reads a file beside this one that meets it."""
    own, other = (file.path.with_name(name) for name in rest.split())
    own.touch()
    while not other.exists():
        time.sleep(0.005)
    yield Doc("", "met")


def endless(file: SourceFile, rest: str) -> Iterator[Doc]:
    """Documents without end; a file beside this one has as many bytes as there were so far."""
    with file.path.with_name(rest).open("ab", buffering=0) as counter:
        for row in count():
            counter.write(b".")
            yield Doc("", f"{row:010}" * 1000)


def connect(file: SourceFile, rest: str) -> Iterator[Doc]:
    """A document if the network can be reached."""
    with socket.socket() as one:
        one.connect(("127.0.0.1", int(rest)))
    yield Doc("", "connected")


def execute(file: SourceFile, rest: str) -> Iterator[Doc]:
    """A document if a program can be run."""
    subprocess.run([rest], check=True)
    yield Doc("", "executed")


ACTS: dict[str, Callable[[SourceFile, str], Iterator[Doc]]] = {
    act.__name__: act
    for act in (
        say,
        rows,
        pid,
        skip,
        mutter,
        crash,
        panic,
        fail,
        hang,
        babble,
        eat,
        note,
        meet,
        endless,
        connect,
        execute,
    )
}
__all__ = ["FORMATS", "Format", "read", "register"]
