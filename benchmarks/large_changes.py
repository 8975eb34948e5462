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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import build_topics
import journal
from build_topics import PeakMemory
from denslice import Index, open_index
from denslice.index.upgrade import upgrade
from denslice.vectors import csr
from topic_collection import TopicCollection

STEPS = ("open", "search", "delete", "searched_after_delete", "add", "searched_after_add", "upgrade")


def main() -> None:
    """Run the steps, print and append the line."""
    given = _arguments()
    if given.step:
        print(json.dumps(_step(given.index, given.step, given.documents)))
        return
    with open_index(given.index) as index:
        info = index.info()
    figures = {step: _process(given.index, step, given.documents) for step in STEPS}
    for step, figure in figures.items():
        print(step, figure)
    settings = {"documents": info.documents, "changed": given.documents, "segments": info.segments}
    print(journal.append("large_changes", ("numpy", "numba"), settings, figures))


def _process(path: Path, step: str, documents: int) -> dict[str, Any]:
    command = [sys.executable, __file__, str(path), "--documents", str(documents), "--step", step]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _step(path: Path, step: str, documents: int) -> dict[str, Any]:
    """Return seconds and the largest anonymous memory of one step."""
    with PeakMemory() as peak:
        seconds = _work(path, step, documents)
    return {"seconds": round(seconds, 3), "peak_anonymous_bytes": peak.bytes}


def _work(path: Path, step: str, documents: int) -> float:
    if step == "upgrade":
        return _timed(lambda: upgrade(path))
    if step == "open":
        return _timed(lambda: open_index(path).close())
    with open_index(path) as index:
        if step == "delete":
            return _timed(lambda: _delete(index, documents))
        if step == "add":
            return _timed(lambda: _add(index, documents))
        return _timed(lambda: _search(index, is_there=step != "searched_after_delete"))


def _timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _delete(index: Index, documents: int) -> None:
    deleted = index.delete([str(number) for number in range(documents)])
    if deleted != documents:
        raise SystemExit(f"{deleted} documents were deleted, expected {documents}")


def _add(index: Index, documents: int) -> None:
    before = len(index)
    build_topics.add(index, 0, list(TopicCollection().batches(documents)))
    if len(index) != before + documents:
        raise SystemExit(f"{len(index) - before} documents were added, expected {documents}")


def _search(index: Index, is_there: bool) -> None:
    """Search for the first document with its own vectors, and check whether it is found."""
    drawn = TopicCollection().batch(0)
    words, dense = csr(drawn.weights[:3], drawn.weights.shape), drawn.dense.astype("float32")
    found = index.search_vectors(words[:1], dense=dense[0], k=10)
    if ("0" in found.ids) != is_there:
        raise SystemExit(f"document 0 is {'' if is_there else 'not '}expected among {found.ids}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("--documents", type=int, default=1_000, help="to delete and to add")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
