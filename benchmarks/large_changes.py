"""Opens, searches and changes a large index of topics that build_topics.py made, each step in a process of its own.

    python benchmarks/large_changes.py INDEX [--documents 1000]

Steps: open it, search it for the first time, delete documents, add as many, search again, and upgrade. Every step
checks what it did. The documents that were deleted are added again under their ids, so that the index has the same
documents in the end. Appends a line to results/large_changes.jsonl.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import journal
from build_topics import PeakMemory
from denslice import Index, open_index
from denslice.index.upgrade import upgrade
from denslice.vectors import Floats, csr, stacked
from topic_collection import TopicCollection

STEPS = ("open", "search", "delete", "searched_after_delete", "add", "searched_after_add", "upgrade")


class Few(NamedTuple):
    """The first documents of the collection."""

    words: sp.csr_array
    dense: Floats

    @classmethod
    def drawn(cls, documents: int) -> Few:
        """Draw them, as build_topics.py does."""
        batches = list(TopicCollection().batches(documents))
        words = stacked([csr(one.weights[:3], one.weights.shape) for one in batches])
        return cls(words, np.concatenate([one.dense for one in batches]).astype(np.float32))

    def save(self, folder: Path) -> None:
        """Write them for other processes, which need not draw them."""
        sp.save_npz(folder / "words.npz", self.words)
        np.save(folder / "dense.npy", self.dense)

    @classmethod
    def read(cls, folder: Path) -> Few:
        """Read them."""
        return cls(sp.load_npz(folder / "words.npz"), np.load(folder / "dense.npy"))


def main() -> None:
    """Run the steps, print and append the line."""
    given = _arguments()
    if given.step:
        print(json.dumps(_step(given.index, given.step, Few.read(given.few))))
        return
    with open_index(given.index) as index:
        info = index.info()
    with TemporaryDirectory() as folder:
        Few.drawn(given.documents).save(Path(folder))
        figures = {step: _process(given.index, step, folder) for step in STEPS}
    for step, figure in figures.items():
        print(step, figure)
    settings = {"documents": info.documents, "changed": given.documents, "segments": info.segments}
    print(journal.append("large_changes", ("numpy", "numba"), settings, figures))


def _process(path: Path, step: str, few: str) -> dict[str, Any]:
    command = [sys.executable, __file__, str(path), "--few", few, "--step", step]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _step(path: Path, step: str, few: Few) -> dict[str, Any]:
    """Return seconds and the largest anonymous memory of one step."""
    with PeakMemory() as peak:
        seconds = _work(path, step, few)
    return {"seconds": round(seconds, 3), "peak_anonymous_bytes": peak.bytes}


def _work(path: Path, step: str, few: Few) -> float:
    began = time.perf_counter()
    if step == "upgrade":
        upgrade(path)
        return time.perf_counter() - began
    with open_index(path) as index:
        opened = time.perf_counter()
        if step == "open":
            return opened - began
        if step == "delete":
            _delete(index, len(few.dense))
        elif step == "add":
            _add(index, few)
        else:
            _search(index, few, is_there=step != "searched_after_delete")
        return time.perf_counter() - opened


def _delete(index: Index, documents: int) -> None:
    deleted = index.delete([str(number) for number in range(documents)])
    if deleted != documents:
        raise SystemExit(f"{deleted} documents were deleted, expected {documents}")


def _add(index: Index, few: Few) -> None:
    before = len(index)
    index.add_vectors([str(number) for number in range(len(few.dense))], few.words, dense=few.dense)
    if len(index) != before + len(few.dense):
        raise SystemExit(f"{len(index) - before} documents were added, expected {len(few.dense)}")


def _search(index: Index, few: Few, is_there: bool) -> None:
    """Search for the first document with its own vectors, and check whether it is found."""
    found = index.search_vectors(few.words[:1], dense=few.dense[0], k=10)
    if ("0" in found.ids) != is_there:
        raise SystemExit(f"document 0 is {'' if is_there else 'not '}expected among {found.ids}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("--documents", type=int, default=1_000, help="to delete and to add")
    parser.add_argument("--few", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
