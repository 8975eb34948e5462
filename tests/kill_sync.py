"""Edits a folder at random, syncs, kills the sync with SIGKILL, and compares the index with a new one each time.

`python tests/kill_sync.py --edits 200`: after a sync that came through, the index holds the same documents, passages,
weights and vectors as a new index of the folder, and ranks them with the same scores, to the last bit. After a kill it
is whole, at its last commit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from denslice import Index

WORDS = [
    "fox",
    "owl",
    "hare",
    "badger",
    "vole",
    "heron",
    "otter",
    "sleeps",
    "hunts",
    "digs",
    "by",
    "night",
    "in",
    "the",
    "old",
    "wood",
    "below",
    "snow",
    "and",
    "ice",
]
FILES = ("a.md", "b.md", "deep/c.md", "deep/d.txt", "e.rst", "t.jsonl", "u.csv", "v.jsonl")
SYNC = "import sys; from denslice import Index; Index.open(sys.argv[1]).sync(sys.argv[2])"
QUESTIONS = ("fox sleeps", "heron below the ice", "old wood", "badger otter vole")


def contents(index: Index) -> dict[str, Any]:
    """What the index holds of each document: fields, places, weights by word and dense vectors, and its rankings."""
    reader, held = index.reader, dict[str, Any]()
    for segment in reader.every_segment():
        for batch in segment.live_batches(100):
            numbers = np.arange(len(batch.docs)) if batch.passages is None else None
            starts = np.arange(len(batch.docs) + 1) if batch.passages is None else batch.passages.starts
            assert numbers is None or len(numbers) == len(batch.docs)
            for row, doc in enumerate(batch.docs):
                weights = batch.kept[[row]]
                words = {
                    reader.encoder.token(int(key)): float(w)
                    for key, w in zip(weights.indices, weights.data, strict=True)
                }
                dense = None if batch.dense is None else batch.dense[starts[row] : starts[row + 1]].tobytes()
                held[doc.id] = [doc.to_dict(), index.places(doc.id), dict(sorted(words.items())), dense]
    rankings = {text: [(hit.id, hit.score) for hit in index.search(text, 50)] for text in QUESTIONS}
    return {"docs": held, "rankings": rankings}


def assert_as_new(index: Index, folder: Path, **options: Any) -> None:
    """Assert that the index is as a new one of the folder."""
    with tempfile.TemporaryDirectory() as place, Index.create(Path(place, "new.idx"), **options) as new:
        new.sync(folder)
        found, expected = contents(index), contents(new)
        assert found["docs"].keys() == expected["docs"].keys()
        for id, told in expected["docs"].items():
            assert found["docs"][id] == told, id
        assert found["rankings"] == expected["rankings"]


def text(rng: random.Random, most: int = 600) -> str:
    """A text of some sentences; now and then one that is cut into several passages."""
    count = rng.choice((3, 8, 30, most))
    return ". ".join(" ".join(rng.choices(WORDS, k=rng.randint(2, 12))) for _ in range(max(1, count // 8)))


def rows(rng: random.Random) -> list[dict[str, str]]:
    """The records of a table, whose ids other tables may have too."""
    return [{"id": f"row{number}", "text": text(rng, 30)} for number in rng.sample(range(8), rng.randint(1, 5))]


def write(path: Path, rng: random.Random) -> None:
    """Write a file of the format that its name tells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows(rng)))
    elif path.suffix == ".csv":
        path.write_text("id,text\n" + "".join(f"{row['id']},{row['text']}\n" for row in rows(rng)))
    else:
        path.write_text(rng.choice(("", "# A heading\n\n", "---\ntitle: Foxes\n---\n")) + text(rng))


def edit(folder: Path, rng: random.Random) -> str:
    """Change the folder in one way and return what was done."""
    path = folder / rng.choice(FILES)
    kind = rng.choice(("write", "write", "append", "delete", "rename", "touch", "copy")) if path.exists() else "write"
    if kind == "write":
        write(path, rng)
    elif kind == "append" and path.suffix in (".md", ".txt", ".rst"):
        path.write_text(f"{path.read_text()}\n\n{text(rng, 30)}")
    elif kind == "delete":
        path.unlink()
    elif kind in ("rename", "copy"):
        to = path.with_name(f"{rng.choice('xyz')}{path.suffix}")
        (shutil.move if kind == "rename" else shutil.copy2)(path, to)
    else:
        os.utime(path, (1_600_000_000, 1_600_000_000 + rng.randrange(100)))
    return kind


def live_through(folder: Path, edits: int, seed: int, options: dict[str, Any], kills: bool = True) -> Counter[str]:
    """Edit and sync so many times, killing some of the syncs; what happened, counted."""
    rng, told = random.Random(seed), Counter[str]()
    notes, path = folder / "notes", folder / "my.idx"
    notes.mkdir(parents=True)
    Index.create(path, **options).close()
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", SYNC, str(path), str(notes)], check=True)
    started, took = time.perf_counter() - began, 0.2
    for _ in range(edits):
        for _ in range(rng.randint(1, 4)):
            told[edit(notes, rng)] += 1
        if kills and rng.random() < 0.5:
            child = subprocess.Popen([sys.executable, "-c", SYNC, str(path), str(notes)])
            with suppress(subprocess.TimeoutExpired):
                child.wait(rng.uniform(0, started + 1.5 * took))
            child.kill()
            told["kills" if child.wait() else "came through before the kill"] += 1
            with Index.open(path) as index:
                index.verify()
        with Index.open(path) as index:
            began = time.perf_counter()
            index.sync(notes)
            took = time.perf_counter() - began
            assert_as_new(index, notes, **options)
            assert index.sync(notes).documents == 0
    return told


def main() -> int:
    """Edit, kill, check, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--encoder", default="mini")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        told = live_through(Path(folder), given.edits, given.seed, {"encoder": given.encoder})
    sys.stdout.writelines(f"{number:6,} {what}\n" for what, number in told.items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
