"""Kills a writer with SIGKILL, again and again, and checks that the index always opens at its last commit.

`python tests/kill_writer.py --kills 200` kills at random moments, then before each call of a commit that touches the
disk, one after another; there it also lets the call fail, and interrupts. What a writer does is a pure function of
the seed and the operation's number, so the documents that must be there can be told by replay.
"""

import argparse
import errno
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any

from denslice import Index, InputError, UnavailableError
from denslice.store import manifest as manifests
from denslice.store import tiers
from denslice.store.folder import Folder
from denslice.store.snapshot import SUBFOLDERS, file_names
from forked import FAILED, Child, run_and_exit

PEOPLE = 40  # ids that documents come and go under
WITHIN = 3  # operations' time within which a random kill comes
Texts = dict[str, tuple[str, int]]  # what must be there: id → text and metadata


@dataclass(frozen=True)
class Operation:
    """One change of the writer: documents to add or replace, ids to delete, metadata to update, or a merge.

    It is one commit, after which others may merge segments; only the first changes what is there.
    """

    docs: Texts = field(default_factory=dict)
    deleted: tuple[str, ...] = ()
    updated: tuple[str, int] | None = None  # a document's id, and its new metadata

    def run(self, index: Index) -> None:
        """Does it."""
        if self.docs:
            index.add({"id": id, "text": text, "number": number} for id, (text, number) in self.docs.items())
        elif self.deleted:
            index.delete(self.deleted)
        elif self.updated:
            index.update(self.updated[0], {"number": self.updated[1]})
        else:
            index.merge()

    def applied(self, texts: Texts) -> Texts:
        """What must be there after it."""
        if self.updated and self.updated[0] in texts:
            id, number = self.updated
            return texts | {id: (texts[id][0], number)}
        return {id: told for id, told in (texts | self.docs).items() if id not in self.deleted}


def operation(seed: int, number: int) -> Operation:
    """The operation that a writer of this seed does at this turn. Each text holds a word that no other text has."""
    rng = random.Random(f"{seed} {number}")
    kind = rng.choices(("add", "delete", "update", "merge"), (6, 2, 1, 1))[0]
    ids = tuple(f"p{i}" for i in rng.sample(range(PEOPLE), rng.randint(1, 8)))
    if kind == "add":
        common = " ".join(f"w{i}" for i in rng.sample(range(50), rng.randrange(20)))
        return Operation({id: (f"{own(f'{seed}x{number}x{id}')} {common}", number) for id in ids})
    if kind == "update":
        return Operation(updated=(ids[0], number))
    return Operation(deleted=ids) if kind == "delete" else Operation()


def own(name: str) -> str:
    """A word that no other text has, twice: so it is the heaviest of its text, and no slice drops it."""
    return f"only{name} only{name}"


def replay(seed: int, count: int) -> Texts:
    """What must be there after so many operations."""
    texts: Texts = {}
    for number in range(count):
        texts = operation(seed, number).applied(texts)
    return texts


def make(path: Path) -> None:
    """An empty index to write to."""
    Index.create(path, "bm25", slices=32, slicing="learned", filterable=["number"], options={"language": "none"})


def state(index: Index) -> Texts:
    """What is there."""
    docs = [(doc.id, (doc.text, doc.meta["number"])) for doc in index.docs()]
    assert len(docs) == len(dict(docs)), "a document is there twice"
    return dict(docs)


def generation(path: Path) -> int:
    """How many commits the index has had."""
    return Index.open(path).info().generation


def check(path: Path, allowed: dict[int, Texts], gone: Texts) -> int:
    """Which of the allowed states the index is in; AssertionError if in none, or if search tells another story."""
    index = Index.open(path)
    index.verify()
    there = state(index)
    at = [number for number, texts in allowed.items() if texts == there]
    assert at, f"found {there}\nexpected one of {allowed}"
    assert len(index) == len(there)
    for id, (text, number) in there.items():
        hits = index.search(text.split()[0])
        assert [(hit.id, hit.text, hit.meta) for hit in hits] == [(id, text, {"number": number})]
        doc = index.get(id)
        assert doc is not None
        assert doc.text == text
    for text, _ in gone.values():
        assert text in {told for told, _ in there.values()} or not len(index.search(text.split()[0])), f"{text} is back"
    return at[-1]


def write_for_ever(path: Path, seed: int, number: int, done: int) -> None:
    """Does one operation after another, and tells each when it is finished, and at the start that it starts."""
    index = Index.open(path)
    while True:
        os.write(done, b".")
        operation(seed, number).run(index)
        number += 1


def pace(path: Path, seed: int) -> float:
    """The seconds an operation takes here; after it, everything is imported and compiled for the forks to come."""
    make(path)
    check(path, {0: {}}, {"": ("anything", 0)})
    started = time.perf_counter()
    for number in range(10):
        operation(seed, number).run(Index.open(path))
    return (time.perf_counter() - started) / 10


def kill_at_random(path: Path, kills: int, seed: int) -> Counter[str]:
    """Kills writers at random moments; what happened, counted."""
    latest = WITHIN * pace(path.with_name("pace"), seed)
    make(path)
    rng = random.Random(seed)
    told: Counter[str] = Counter()
    number = 0
    for _ in range(kills):
        first = number
        acknowledged = number + _killed_writer(path, seed, number, rng.uniform(0, latest))
        allowed = {n: replay(seed, n) for n in (acknowledged, acknowledged + 1)}
        number = check(path, allowed, _once_there(seed, acknowledged + 1))
        told["kills at random moments"] += 1
        told["operations"] += number - first
        told[_landed(allowed, number)] += 1
    return told


def _landed(allowed: dict[int, Texts], number: int) -> str:
    before, after = allowed.values()
    if before == after:
        return "in a merge, or a change of nothing"
    return "after a commit, before it was acknowledged" if allowed[number] == after else "before a commit"


def _killed_writer(path: Path, seed: int, number: int, after: float) -> int:
    """Starts a writer, kills it, and tells how many operations it acknowledged."""
    reading, writing = os.pipe()
    writer = os.fork()
    if writer == 0:
        os.close(reading)
        run_and_exit(lambda: write_for_ever(path, seed, number, writing), 2)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read(1) == b".", "the writer did not start"
        time.sleep(after)
        os.kill(writer, signal.SIGKILL)
        acknowledged = len(pipe.read())
    _, status = os.waitpid(writer, 0)
    assert os.WIFSIGNALED(status), "the writer ended by itself"
    return acknowledged


def _once_there(seed: int, count: int) -> Texts:
    """Texts of the last operations, whether they are still there or not."""
    told: Texts = {}
    for number in range(max(0, count - 10), count):
        told |= {f"{number} {id}": text for id, text in operation(seed, number).docs.items()}
    return told


def _always(*args: Any, **options: Any) -> bool:
    return True


def _makes_a_file(path: object, flags: int, *args: Any, **options: Any) -> bool:
    return bool(flags & os.O_CREAT)


def _writes_a_file(path: object, mode: str = "r", *args: Any, **options: Any) -> bool:
    return any(letter in mode for letter in "wxa")


# Calls that touch the disk, and when they do; pathlib, shutil and filelock go through these.
STEPS: list[tuple[Any, str, Callable[..., bool]]] = [(os, "open", _makes_a_file), (io, "open", _writes_a_file)] + [
    (os, name, _always) for name in ("fsync", "replace", "rename", "link", "unlink", "mkdir", "rmdir", "utime")
]


def before_each_step(act: Callable[[int], None]) -> None:
    """Has `act` called with 0, 1, 2, … before each call that touches the disk, in this process from here on."""
    numbers = count()

    def watched(call: Callable[..., Any], counts: Callable[..., bool]) -> Callable[..., Any]:
        def wrapper(*args: Any, **options: Any) -> Any:
            if counts(*args, **options):
                act(next(numbers))
            return call(*args, **options)

        return wrapper

    for module, name, counts in STEPS:
        setattr(module, name, watched(getattr(module, name), counts))


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _interrupt() -> None:
    raise KeyboardInterrupt


def _fail() -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


FAULTS: dict[str, Callable[[], None]] = {"kill": _kill, "interrupt": _interrupt, "fail": _fail}
ONE_CHANGE = {
    "add": Operation({"p0": (own("a") + " w1", 7), "p1": (own("b") + " unseen", 7), "r1": (own("c") + " w1 w2", 7)}),
    "delete": Operation(deleted=("p0", "p5", "q3")),
    "update": Operation(updated=("p5", 77)),
    "merge": Operation(),
}


def make_worn(path: Path) -> Texts:
    """An index that the next add merges, with deletions and remains for its next writer to sweep; what is in it."""
    make(path)
    texts: Texts = {}
    people = {f"{letter}{i}": (own(f"{letter}{i}") + f" w{i}", i) for letter in "pq" for i in range(12)}
    small = [Operation({id: (own(id), 1)}) for id in ("p3", "s0", "s1", "s2", "s3", "s4", "s5")]
    for done in (Operation(people), Operation(deleted=("p2", "q2")), *small):
        done.run(Index.open(path))
        texts = done.applied(texts)
    for remains in ("segments/dead/words.arrays", "deletions/dead.arrays", "vocabulary/dead.arrays"):
        (path / remains).parent.mkdir(exist_ok=True)
        (path / remains).write_bytes(b"half")
    (path / "writing" / "dead" / "segment").mkdir(parents=True)
    (path / "writing" / "dead.lock").touch()
    assert Index.open(path).info()["segments"] == tiers.FANOUT
    return texts


def fault_at_each_step(folder: Path, does: str, fault: str, every: int = 1) -> Counter[str]:
    """Lets one change fail before each of its steps in turn, checks, and completes it; what happened, counted."""
    folder.mkdir()
    texts = make_worn(folder / "worn")
    allowed = {0: texts, 1: ONE_CHANGE[does].applied(texts)}
    told: Counter[str] = Counter()
    for step in count(0, every):
        path = folder / "copy"
        shutil.copytree(folder / "worn", path)
        error = with_fault(partial(_change, path, ONE_CHANGE[does]), step, FAULTS[fault])
        told[f"{does} {fault} steps"] += 1
        check(path, allowed, texts | allowed[1])
        moved = generation(path) > generation(folder / "worn")
        told[f"{does} {fault} after the commit"] += moved
        assert not moved or "cannot be written" not in error, f"the index moved on, yet it was told: {error}"
        _complete(path, ONE_CHANGE[does], allowed[1])
        shutil.rmtree(path)
        if not error:
            return told
    raise AssertionError


def _change(path: Path, does: Operation) -> None:
    does.run(Index.open(path))


def with_fault(does: Callable[[], object], step: int, fault: Callable[[], None]) -> str:
    """Does it in a process where the fault comes at this step; how it ended, empty if there was no such step."""

    numbers = []

    def act(number: int) -> None:
        numbers.append(number)
        if number == step:
            fault()

    def work() -> str:
        before_each_step(act)
        try:
            does()
        except (InputError, UnavailableError, KeyboardInterrupt) as error:
            return repr(error)
        return "came through" if step in numbers else ""

    told = Child(work).result()
    assert not told.startswith(FAILED) or told == f"{FAILED} SIGKILL", told
    return told


def _complete(path: Path, does: Operation, texts: Texts) -> None:
    """Does the operation (again), and checks that nothing is left over of the first attempt."""
    does.run(Index.open(path))
    check(path, {0: texts}, {})
    files = {"manifest.json", "lock", "lock.next", *file_names(manifests.read(Folder(path)))}
    named = files | {str(folder) for file in files for folder in Path(file).parents} | set(SUBFOLDERS)
    there = {".", *(str(one.relative_to(path)) for one in path.rglob("*"))}
    assert there == named, f"left over or missing: {there ^ named}"


def main() -> int:
    """Kills, checks, and prints what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="kills at random moments")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="2: a fault at every second step of a commit")
    every_pair = [f"{does}:{fault}" for does, fault in product(ONE_CHANGE, FAULTS)]
    parser.add_argument("--steps", nargs="*", default=every_pair, help="commits and faults, such as add:kill")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        told = kill_at_random(Path(folder) / "random", given.kills, given.seed)
        for pair in given.steps:
            does, fault = pair.split(":")
            told += fault_at_each_step(Path(folder) / pair, does, fault, given.every)
    sys.stdout.writelines(f"{number:6,} {what}\n" for what, number in told.items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
