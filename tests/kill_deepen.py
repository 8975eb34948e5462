"""Kills processes that deepen an index and add to it, again and again, and checks that nothing is lost.

`python tests/kill_deepen.py --kills 200`: two processes work on one index, one of them deepens and the other adds
documents at either level; each round kills both with SIGKILL. What was acknowledged is there, and what was deepened in
a commit stays deep. At the end, the deepened index is what it would be if all had been added fully at once.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from denslice import Index
from denslice.store.manifest import FULL, QUICK
from denslice.store.snapshot import Snapshot
from forked import run_and_exit
from small_tables import MINI, write_table

AT_ONCE = 4  # documents that are deepened in a commit
LATEST = 0.6  # seconds of work before a kill


def document(number: int) -> dict[str, str]:
    """The document that is added at this turn: some replace earlier ones."""
    rng = random.Random(number)
    text = f"Foxes sleep in oven {number}, {rng.randrange(99)} at night."
    return {"id": f"d{rng.randrange(number + 1)}", "text": text}


def level_of(number: int) -> str:
    """The level at which it is added."""
    return random.Random(-number).choices((QUICK, FULL), (4, 1))[0]


def warm(path: Path) -> Index:
    """The index, after everything was loaded and compiled that an add needs."""
    with tempfile.TemporaryDirectory() as folder:
        Index.create(Path(folder) / "other", str(path.with_name("mini"))).add([document(0)])
    return Index.open(path)


def add_for_ever(path: Path, number: int, done: int) -> None:
    """Adds one document after another, and tells each when it is there, and at the start that it starts."""
    index = warm(path)
    while True:
        os.write(done, b".")
        index.add([document(number)], level=level_of(number))
        number += 1


def deepen_for_ever(path: Path, number: int, done: int) -> None:
    """Deepens a few documents in each commit, for ever."""
    index = warm(path)
    os.write(done, b".")
    while True:
        if index.deepen(AT_ONCE):
            os.write(done, b".")
        else:
            time.sleep(0.01)


def started(work: Callable[[Path, int, int], None], path: Path, number: int) -> tuple[int, int]:
    """A process that does the work, and the end of a pipe that it writes to."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        run_and_exit(lambda: work(path, number, writing), 2)
    os.close(writing)
    return child, reading


def killed(child: int, reading: int) -> int:
    """Kills a process; how often it told that something is done."""
    os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        told = len(pipe.read())
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it ended by itself"
    return told


def levels(path: Path) -> dict[str, tuple[str, str]]:
    """The text and level of each document; AssertionError if one is there twice."""
    found: dict[str, tuple[str, str]] = {}
    for segment in Snapshot(path).segments:
        for doc in segment.live_docs(1000):
            assert doc.id not in found, f"{doc.id} is there twice"
            found[doc.id] = (doc.text, segment.entry.level)
    return found


def replayed(count: int) -> dict[str, str]:
    """The texts that must be there after so many documents."""
    return {doc["id"]: doc["text"] for doc in map(document, range(count))}


def kill_again_and_again(path: Path, kills: int, seed: int) -> Counter[str]:
    """Kills both processes in each round; what happened, counted."""
    rng, told = random.Random(seed), Counter[str]()
    number, before = 0, dict[str, tuple[str, str]]()
    while told["kills"] < kills:
        children = [started(work, path, number) for work in (add_for_ever, deepen_for_ever)]
        for _, reading in children:
            assert os.read(reading, 1) == b".", "it did not start"
        time.sleep(rng.uniform(0, LATEST))
        (child, reading), deepener = children
        acknowledged = number + killed(child, reading)
        told["deepening commits"] += killed(*deepener)
        there = levels(path)
        texts = {id: text for id, (text, _) in there.items()}
        number = next((n for n in (acknowledged, acknowledged + 1) if replayed(n) == texts), -1)
        assert number >= 0, f"found {texts}\nexpected {replayed(acknowledged)}, or with the next document"
        deep = {id for id, one in before.items() if one[1] == FULL and there.get(id, ("", ""))[0] == one[0]}
        shallow = sorted(id for id in deep if there[id][1] == QUICK)
        assert not shallow, f"{shallow} were deep before"
        told["kills"] += 2
        told["documents added"] = number
        told["documents deep at the end"] = sum(level == FULL for _, level in there.values())
        before = there
    return told


def check_whole(path: Path, model: Path) -> None:
    """Deepens all, and compares with an index that took the same documents fully at once."""
    texts = {id: text for id, (text, _) in levels(path).items()}
    with Index.open(path) as index, Index.create(path.with_name("full"), str(model)) as full:
        index.deepen()
        assert index.info().quick == 0
        full.add({"id": id, "text": text} for id, text in texts.items())
        for query in ("foxes in oven 7", "who sleeps at night", "99"):
            for mode in ("lexical", "dense", "hybrid"):
                hits = [one.search(query, k=50, mode=mode, pruning=0.0) for one in (index, full)]
                assert list(zip(hits[0].ids, hits[0].scores, strict=True)) == list(
                    zip(hits[1].ids, hits[1].scores, strict=True)
                )
        index.verify()


def main() -> int:
    """Kills, checks, and prints what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "mini"
        shutil.copytree(MINI, model)
        write_table(model)
        path = Path(folder) / "my.idx"
        Index.create(path, str(model)).close()
        told = kill_again_and_again(path, given.kills, given.seed)
        check_whole(path, model)
    sys.stdout.writelines(f"{number:6,} {what}\n" for what, number in told.items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
