"""Kills an upgrade with SIGKILL at random moments, again and again until it comes through, and checks every time.

`python tests/kill_upgrade.py --kills 200`: after each kill the index is the old one or the new one, whole; the same
command then goes on where it was.
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
from pathlib import Path
from typing import Any

import golden
from denslice import open_index
from denslice.index.upgrade import upgrade
from denslice.store import manifest as manifests
from denslice.store.folder import Folder
from denslice.store.format2 import Format2
from forked import Child

NAMES = ("format-2-bm25", "format-2-vectors", "format-2-mini")


def state(path: Path) -> list[list[Any]]:
    """The documents of an index, of whichever format it is."""
    if manifests.format_of(Folder(path)) == 2:
        old = Format2(Folder(path))
        docs = [doc for _, batches in old.segments() for batch in batches for doc in batch.docs]
    else:
        with open_index(path) as index:
            index.verify()
            docs = list(index.docs())
    return sorted([[doc.id, doc.title, doc.text, dict(doc.meta)] for doc in docs], key=str)


def kill(folder: Path, kills: int, seed: int) -> Counter[str]:
    """Kills so many upgrades; what happened, counted."""
    rng, told = random.Random(seed), Counter[str]()
    expected = {name: sorted(golden.unpacked(name, folder / name)["docs"], key=str) for name in NAMES}
    began = time.perf_counter()
    for name in NAMES:
        upgrade(Path(shutil.copytree(folder / name, folder / f"{name}-first")))
    latest = (time.perf_counter() - began) / len(NAMES)
    path = folder / "copy"
    while told["kills"] < kills:
        name = rng.choice(NAMES)
        if not path.exists():
            shutil.copytree(folder / name, path)
            now = name
        child = Child(lambda: upgrade(path).reason or "nothing to do")
        time.sleep(rng.uniform(0, latest))
        os.kill(child.pid, signal.SIGKILL)
        ended = child.result()
        told["kills" if "SIGKILL" in ended else "came through before the kill"] += 1
        assert state(path) == expected[now], ended
        if manifests.format_of(Folder(path)) != 2:
            told["upgraded"] += 1
            upgrade(path)
            assert not (path / "upgrade").exists()
            shutil.rmtree(path)
    return told


def main() -> int:
    """Kills, checks, and prints what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        told = kill(Path(folder), given.kills, given.seed)
    sys.stdout.writelines(f"{number:6,} {what}\n" for what, number in told.items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
