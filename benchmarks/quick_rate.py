"""Times `denslice index --quick` beside `--encoder bm25`: documents a second, the first search, and memory.

    python benchmarks/quick_rate.py CORPUS [--copies 1] [--repeats 3]

CORPUS is a file of lines that `denslice index` reads; with copies, each document comes again under other ids. Both
commands run in turn, as processes, and the medians count. Another process watches for the first commit and searches it
by words and by vectors. Nothing counts unless the index has every document, each with a vector. Appends a line to
results/quick_rate.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import journal
from denslice import DensliceError, open_index

PACKAGES = ("numpy", "numba", "PyStemmer", "regex", "py3langid")
WAYS = {"quick": ["--quick"], "bm25": ["--encoder", "bm25"]}
QUESTION = "neural machine translation of rare words"
FEW = 3_000  # documents of the run before
LOOK = 0.05  # seconds between looks at an index that grows


def main() -> None:
    """Time in turn, print and append the line."""
    given = _arguments()
    with TemporaryDirectory(prefix="denslice-rate-") as temporary:
        few, corpus, index = (Path(temporary, name) for name in ("few.jsonl", "corpus.jsonl", "my.idx"))
        count = write(given.corpus, corpus, given.copies)
        few.write_text("".join(islice(corpus.open(encoding="utf-8"), FEW)), encoding="utf-8")
        for way in WAYS:  # so that loops are compiled, files cached, and the model loaded that reads the question
            timed(few, index, way, FEW)
        runs = [(way, timed(corpus, index, way, count)) for _, way in product(range(given.repeats), WAYS)]
    figures = {way: _medians([one for name, one in runs if name == way]) for way in WAYS}
    figures["quick"]["of bm25"] = round(
        figures["quick"]["documents_a_second"] / figures["bm25"]["documents_a_second"], 3
    )
    print(figures)
    print(journal.append("quick_rate", PACKAGES, vars(given) | {"documents": count}, figures))


def write(corpus: Path, out: Path, copies: int) -> int:
    """Write the documents so many times, and return how many they are."""
    rows = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()]
    with out.open("w", encoding="utf-8") as stream:
        for copy, row in product(range(copies), rows):
            stream.write(json.dumps({**row, "_id": f"{copy}-{row['_id']}"}) + "\n")
    return copies * len(rows)


def timed(corpus: Path, index: Path, way: str, count: int) -> dict[str, float]:
    """Return the seconds of a command, of the first search, and the largest memory of its processes."""
    command = [sys.executable, "-m", "denslice", "index", str(corpus), "--to", str(index), *WAYS[way]]
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    first = next(_searchable(index, way, child))
    searchable = time.perf_counter() - began
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode or not first:
        raise SystemExit(f"{' '.join(command)} failed")
    check(index, way, count)
    size = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
    shutil.rmtree(index)
    return {
        "documents_a_second": count / seconds,
        "seconds": seconds,
        "first_search_s": searchable,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "memory_gb": usage.ru_maxrss / 1e6,
        "index_gb": size / 1e9,
    }


def _searchable(index: Path, way: str, child: subprocess.Popen[bytes]) -> Iterator[bool]:
    """Yield True when an index finds documents by words and, at the quick level, by vectors; False if it never does."""
    modes = ("lexical", "dense") if way == "quick" else ("lexical",)
    while True:
        with suppress(DensliceError), open_index(index) as opened:
            if all(opened.search(QUESTION, mode=mode).ids for mode in modes):
                yield True
        if child.poll() is not None:
            yield False
        time.sleep(LOOK)


def check(index: Path, way: str, count: int) -> None:
    """Raise SystemExit unless the index has every document, each with a vector at the quick level."""
    with open_index(index) as opened:
        info = opened.info()
        if info.documents != count:
            raise SystemExit(f"{info.documents:,} documents of {count:,} are there")
        if way == "quick":
            segments = opened.reader.snapshot.segments
            without = sum(int((~np.asarray(s.dense[:]).any(axis=1)).sum()) for s in segments if s.dense is not None)
            if info.quick != count or without > 0.001 * count:  # texts in other languages have none
                raise SystemExit(f"{info.quick:,} documents are quick, {without:,} passages have no vector")


def _medians(runs: list[dict[str, float]]) -> dict[str, Any]:
    return {name: round(float(np.median([run[name] for run in runs])), 2) for name in runs[0]}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
