"""What small commits cost: one-document adds to a large bm25 index, the merging they cause, and searches right after.

    python benchmarks/commits.py --docs 200000 --commits 2000 --out benchmarks/results/commits.jsonl

First it checks that every document can be found, then the figures are worth something. Texts are drawn with
frequencies such as words have, so that nothing need be downloaded.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from denslice import Index
from denslice.provenance import provenance

VOCABULARY = 200_000
WORDS = 60  # of a document
QUERY = 6  # words
WARM = 5  # searches that count as warm, after each that counts as cold


def texts(count: int, seed: int) -> Iterator[str]:
    """Texts whose words are as frequent as Zipf's law has them."""
    rng = np.random.default_rng(seed)
    for start in range(0, count, 10_000):
        numbers = rng.zipf(1.15, size=(min(10_000, count - start), WORDS)) % VOCABULARY
        yield from (" ".join(f"w{number}" for number in row) for row in numbers.tolist())


def built(path: Path, docs: int) -> Index:
    """The large index."""
    index = Index.create(path, "bm25", options={"language": "none"})
    index.add({"id": f"d{at}", "text": text} for at, text in enumerate(texts(docs, 1)))
    return index


class Written:
    """Counts the bytes of files that commits write, by what they are for."""

    def __init__(self) -> None:
        self.bytes = {"segments first": 0, "segments merged": 0, "vocabulary": 0, "manifests": 0}
        self.merges = 0

    def watch(self) -> None:
        """Has every commit from here on counted."""
        from denslice.index.writer import Writer
        from denslice.store import manifest as manifests

        finish, write = Writer.finish, manifests.write

        def finishing(build: Writer, latest: Any) -> Any:
            manifest = finish(build, latest)
            for segment in build.written:
                size = sum(file.bytes for file in segment.entry.files.values())
                self.bytes["segments merged" if build.sources else "segments first"] += size
            self.merges += bool(build.sources)
            known = set(latest.manifest.vocabulary)
            self.bytes["vocabulary"] += sum(e.file.bytes for e in manifest.vocabulary if e not in known)
            return manifest

        def writing(folder: Path, manifest: Any) -> None:
            write(folder, manifest)
            self.bytes["manifests"] += (folder / manifests.MANIFEST_FILE).stat().st_size

        Writer.finish, manifests.write = finishing, writing  # type: ignore[method-assign]


def measured(index: Index, commits: int) -> dict[str, Any]:
    """Milliseconds of each commit, and of the searches after it."""
    new = list(texts(commits, 2))
    queries = [" ".join(text.split()[:QUERY]) for text in texts(commits, 3)]
    _ = [index.search(query) for query in queries[:100]]
    commit, cold, warm = [], [], []
    for at, (text, query) in enumerate(zip(new, queries, strict=True)):
        began = time.perf_counter()
        index.add([{"id": f"n{at}", "text": f"{text} " + f"new{at} " * 4}])
        done = time.perf_counter()
        index.search(query)
        commit.append(done - began)
        cold.append(time.perf_counter() - done)
        for other in range(WARM):
            began = time.perf_counter()
            index.search(queries[(at + 1 + other) % commits])
            warm.append(time.perf_counter() - began)
    return {name: told(values) for name, values in (("commit", commit), ("first search", cold), ("warm search", warm))}


def told(seconds: list[float]) -> dict[str, float]:
    """The percentiles, in milliseconds."""
    ms = np.array(seconds) * 1000
    found = {f"p{at}": float(np.percentile(ms, at)) for at in (50, 95, 99)} | {"max": float(ms.max())}
    return {name: round(value, 3) for name, value in found.items()}


def check(index: Index, docs: int, commits: int) -> None:
    """Everything is there, and found."""
    assert len(index) == docs + commits
    for at in range(0, commits, 37):
        assert index.search(f"new{at}").ids == (f"n{at}",), at
    index.verify()


def main() -> int:
    """Builds, commits, checks, and prints a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=int, default=200_000)
    parser.add_argument("--commits", type=int, default=2_000)
    parser.add_argument("--out", type=Path, help="a file to append the line to")
    parser.add_argument("--times-alone", action="store_true", help="count no bytes: for versions before format 3")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = built(Path(folder) / "index", given.docs)
        written = Written()
        if not given.times_alone:
            written.watch()
        figures = measured(index, given.commits)
        check(index, given.docs, given.commits)
        line = {"docs": given.docs, "commits": given.commits, "ms": figures, "segments": index.info()["segments"]}
    if not given.times_alone:
        first, merged = written.bytes["segments first"], written.bytes["segments merged"]
        line |= {"bytes": written.bytes, "merges": written.merges, "merged / first": round(merged / first, 2)}
    text = json.dumps(line | provenance(["numpy", "numba"]))
    sys.stdout.write(text + "\n")
    if given.out:
        with given.out.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
