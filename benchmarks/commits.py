"""Times small commits: adds of one document to a large bm25 index, the merges they cause, and the searches after them.

    python benchmarks/commits.py --docs 200000 --commits 2000

The line is appended to results/commits.jsonl only if every document is found afterwards. Words are drawn from a Zipf
distribution, so that nothing has to be downloaded.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import journal
from denslice import Index

PACKAGES = ("numpy", "numba")
VOCABULARY = 200_000
WORDS = 60  # of a document
QUERY = 6  # words
WARM = 5  # searches that count as warm, after each that counts as cold


def texts(count: int, seed: int) -> Iterator[str]:
    """Yield texts whose words are as frequent as Zipf's law says."""
    rng = np.random.default_rng(seed)
    for start in range(0, count, 10_000):
        numbers = rng.zipf(1.15, size=(min(10_000, count - start), WORDS)) % VOCABULARY
        yield from (" ".join(f"w{number}" for number in row) for row in numbers.tolist())


def built(path: Path, docs: int) -> Index:
    """Return the large index."""
    index = Index.create(path, "bm25", options={"language": "none"})
    index.add({"id": f"d{at}", "text": text} for at, text in enumerate(texts(docs, 1)))
    return index


class Written:
    """Counts the bytes that commits write, by purpose."""

    def __init__(self) -> None:
        self.bytes = {"segments first": 0, "segments merged": 0, "vocabulary": 0, "manifests": 0}
        self.merges = 0

    def watch(self) -> None:
        """Count every commit from here on."""
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

        Writer.finish, manifests.write = finishing, writing  # type: ignore[method-assign, assignment]


def measured(index: Index, commits: int) -> dict[str, Any]:
    """Return milliseconds of each commit, of the first search after it, and of warm searches."""
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
    return {
        name: percentiles(values)
        for name, values in (("commit", commit), ("first search", cold), ("warm search", warm))
    }


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Return the percentiles, in milliseconds."""
    ms = np.array(seconds) * 1000
    found = {f"p{at}": float(np.percentile(ms, at)) for at in (50, 95, 99)} | {"max": float(ms.max())}
    return {name: round(value, 3) for name, value in found.items()}


def check(index: Index, docs: int, commits: int) -> None:
    """Stop the benchmark if a document is missing or not found."""
    lost = [at for at in range(0, commits, 37) if index.search(f"new{at}").ids != (f"n{at}",)]
    if lost or len(index) != docs + commits:
        raise SystemExit(f"{len(index):,} documents are left, and {len(lost)} are not found: nothing is reported")
    index.verify()


def main() -> None:
    """Build, commit, check, print and append the line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=200_000)
    parser.add_argument("--commits", type=int, default=2_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = built(Path(folder) / "index", given.docs)
        written = Written()
        written.watch()
        figures: dict[str, Any] = {"ms": measured(index, given.commits)}
        check(index, given.docs, given.commits)
    first, merged = written.bytes["segments first"], written.bytes["segments merged"]
    figures |= {"bytes": written.bytes, "merges": written.merges, "merged / first": round(merged / first, 2)}
    print(figures)
    print(journal.append("commits", PACKAGES, vars(given), figures))


if __name__ == "__main__":
    main()
