"""The program of a product in its own process: lines of JSON to and fro, time and memory measured from outside.

The programs are in benchmarks/products of a checkout, and each has an environment of its own.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any

from denslice.errors import InputError
from denslice.provenance import ROOT

PROGRAMS = ROOT / "benchmarks" / "products"
MORE = "# --- more"  # what comes after this line is not needed for the first answer
LOOK = 0.05  # seconds between looks at the memory
ALONE = {"HF_HUB_OFFLINE": "1", "ANONYMIZED_TELEMETRY": "False", "TOKENIZERS_PARALLELISM": "false"}
VECTORS = "MINILM_VECTORS"  # the environment variable that names the folder of vectors


@dataclass(frozen=True)
class ProductProgram:
    """A product in one way of using it."""

    name: str  # in tables
    folder: str  # under benchmarks/products
    way: str = ""

    @property
    def path(self) -> Path:
        """The program."""
        return PROGRAMS / self.folder / f"{self.folder}_program.py"

    def lines(self) -> int:
        """Return the lines of code that the first answer needs: without blank lines, comments and docstrings."""
        return code_lines(self.path.read_text(encoding="utf-8").partition(MORE)[0])


class ProductError(InputError):
    """The program of a product ended, or what it answered is wrong."""


class ProductProcess:
    """A running program; the end of the block ends it, and waits for what it left running."""

    def __init__(
        self, program: ProductProgram, python: Path, store: Path, log: Path, folders: Mapping[str, Path]
    ) -> None:
        self.name, self._log = program.name, log
        path = os.pathsep.join(
            [str(PROGRAMS / "protocol"), *([str(ROOT / "src")] if program.folder == "denslice" else [])]
        )
        environment = os.environ | ALONE | {"PYTHONPATH": path} | {name: str(at) for name, at in folders.items()}
        self._began = time.perf_counter()
        with log.open("a", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                [str(python), str(program.path), str(store), program.way],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment,
                start_new_session=True,
            )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions, self._answers = self._process.stdin, self._process.stdout
        self.memory = PeakMemory(self._process.pid)

    def __enter__(self) -> ProductProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.memory.stop()
        if error is None:
            with suppress(subprocess.TimeoutExpired, BrokenPipeError):
                self._questions.close()
                self._process.wait(60)
            until = time.perf_counter() + 60
            while any(map(_resident, self.memory.family)) and time.perf_counter() < until:
                time.sleep(LOOK)
        self.kill()

    def age(self) -> float:
        """Return the seconds since the program was started."""
        return time.perf_counter() - self._began

    def ask(self, do: str, **fields: Any) -> Any:
        """Return the answer to a question."""
        self.send(do, **fields)
        return self.answer()

    def timed(self, do: str, **fields: Any) -> tuple[float, Any]:
        """Return the seconds until the answer, and the answer."""
        began = time.perf_counter()
        found = self.ask(do, **fields)
        return time.perf_counter() - began, found

    def send(self, do: str, **fields: Any) -> None:
        """Ask without waiting for the answer."""
        with suppress(BrokenPipeError):
            self._questions.write(json.dumps({"do": do, **fields}) + "\n")
            self._questions.flush()

    def answer(self) -> Any:
        """Return the next answer; raise ProductError if the program has ended."""
        line = self._answers.readline()
        if not line.endswith("\n"):
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(10)  # until it has written why it ends
            last = "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-12:])
            raise ProductError(f"{self.name}: the program ended; the end of {self._log}:\n{last}")
        return json.loads(line)["done"]

    def answers_by(self, until: float) -> bool:
        """Return whether an answer has come by a moment of time.perf_counter."""
        left = max(0.0, until - time.perf_counter())
        return bool(select.select([self._answers], [], [], left)[0])

    def kill(self) -> None:
        """Send SIGKILL to the program and every process that it started, also those in sessions of their own."""
        family = list(_family(self._process.pid)) if self._process.poll() is None else []
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self.memory.stop()
        for pipe in (self._questions, self._answers):
            with suppress(BrokenPipeError):
                pipe.close()


def core_share(seconds: float = 0.25) -> float:
    """Return which share of a core this process gets: less than 1 if others use the same cores."""
    began, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        pass
    return (time.process_time() - used) / (time.perf_counter() - began)


@contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end this process as an exception does, so that programs do not go on without it."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class PeakMemory:
    """The most resident bytes that a process and its children had together, by looking again and again."""

    def __init__(self, pid: int) -> None:
        self.bytes, self._pid, self._end = 0, pid, Event()
        self.family: set[int] = set()  # every process that was seen
        self._thread = Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look once more, and then no longer."""
        self._end.set()
        self._thread.join()

    def _look(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._end.wait(LOOK)
            family = list(_family(self._pid))
            self.family.update(family)
            self.bytes = max(self.bytes, sum(map(_resident, family)))


def code_lines(text: str) -> int:
    """Return the number of lines that are neither blank nor comments nor docstrings."""
    import ast

    docs = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and at not in docs for at, line in lines)


def python_of(program: ProductProgram, environments: Path) -> Path:
    """Return the Python of a product's environment, which is made if it is not there; denslice has this one."""
    if program.folder == "denslice":
        return Path(sys.executable)
    folder = environments / program.folder
    if not folder.exists():
        _install(program, folder)
    return folder / "bin" / "python"


def _install(program: ProductProgram, folder: Path) -> None:
    """Make an environment under another name, which it keeps until everything is installed."""
    unfinished = folder.with_name(f"{folder.name}-unfinished")
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(unfinished)], check=True)
    wanted = PROGRAMS / program.folder / "requirements.txt"
    done = subprocess.run([str(unfinished / "bin" / "python"), "-m", "pip", "install", "-q", "-r", str(wanted)])
    if done.returncode:
        raise ProductError(f"{program.name}: pip could not install {wanted}; its messages are above")
    unfinished.rename(folder)


def _family(pid: int) -> Iterator[int]:
    """Yield a process and all that descend from it."""
    yield pid
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in tasks.read_text().split():
                yield from _family(int(child))


def _resident(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
