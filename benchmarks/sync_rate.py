"""Times reading Markdown, indexing a folder of it, and a sync after a few of its files have changed.

`python benchmarks/sync_rate.py COLLECTION --files 10000`: each document of the collection becomes a Markdown file. The
synced index is compared with a new one, if asked, before the figures are printed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import journal
from denslice import Index
from denslice.corpus.documents import read_docs
from denslice.corpus.reading_pool import FileTask, read_files

JOINED = (1, 3, 9, 30)  # documents in a file whose reading is timed
QUESTIONS = ("neural machine translation of rare words", "parsing", "a corpus of spoken dialogue", "word embeddings")


def write_files(collection: Path, folder: Path, count: int, joined: int = 1) -> list[Path]:
    """Write so many Markdown files, a hundred in each subfolder, of one document or several as sections."""
    docs, files = read_docs([collection]), []
    for number in range(count):
        some = list(islice(docs, joined))
        if not some:
            break
        path = folder / f"{number // 100:03}" / f"{number:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        head = f"# Notes {number}\n\n" if joined > 1 else ""
        sign = "##" if joined > 1 else "#"
        path.write_text(head + "\n\n".join(f"{sign} {doc.title or doc.id}\n\n{doc.text}\n" for doc in some))
        files.append(path)
    return files


def edit(files: Sequence[Path], seed: int = 0) -> None:
    """Change 1 % of the files, delete 0.5 % and rename 0.5 %."""
    share = len(files) // 200
    chosen = random.Random(seed).sample(list(files), 4 * share)
    for path in chosen[: 2 * share]:
        path.write_text(path.read_text() + "\nA sentence that was added later.\n")
    for path in chosen[2 * share : 3 * share]:
        path.unlink()
    for path in chosen[3 * share :]:
        path.rename(path.with_name(f"renamed-{path.name}"))


def reading_rates(collection: Path, place: Path) -> list[dict[str, float]]:
    """Return the size of Markdown files and how many megabytes a second are read and cut, for several sizes."""
    rates = []
    for joined in JOINED:
        files = write_files(collection, place / f"joined-{joined}", 18_000 // joined, joined)
        kilobytes = sum(path.stat().st_size for path in files) / len(files) / 1e3
        rates.append({"files": len(files), "kilobytes": round(kilobytes, 1), "megabytes_a_second": _rate(files)})
    return rates


def _rate(files: Sequence[Path], rounds: int = 3) -> float:
    """Return how many megabytes a second are read and cut: the best of some rounds."""
    size, best = sum(path.stat().st_size for path in files) / 1e6, 0.0
    for _ in range(rounds):
        began = time.perf_counter()
        count = sum(len(read.docs) for read in read_files(FileTask(str(path), str(path)) for path in files))
        best = max(best, size / (time.perf_counter() - began))
        assert count == len(files)
    return round(best, 2)


def check(index: Index, folder: Path, encoder: str, place: Path) -> None:
    """Assert that the synced index ranks as a new one does."""
    with Index.create(place / "new.idx", encoder) as new:
        new.sync(folder)
        assert sorted(doc.id for doc in new.docs()) == sorted(doc.id for doc in index.docs())
        for text in QUESTIONS:
            ours, fresh = index.search(text, 100), new.search(text, 100)
            assert (ours.ids, ours.scores) == (fresh.ids, fresh.scores), text


def main() -> None:
    """Measure, check and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection", type=Path)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--encoder", default="mini")
    parser.add_argument("--check", action="store_true", help="compare with a new index, which takes as long again")
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp())
    try:
        folder = place / "notes"
        files = write_files(given.collection, folder, given.files)
        rates = reading_rates(given.collection, place)
        index = Index.create(place / "my.idx", given.encoder)
        began = time.perf_counter()
        first = index.sync(folder)
        indexed = time.perf_counter() - began
        edit(files)
        began = time.perf_counter()
        done = index.sync()
        synced = time.perf_counter() - began
        began = time.perf_counter()
        index.sync()
        idle = time.perf_counter() - began
        if given.check:
            check(index, folder, given.encoder, place)
    finally:
        shutil.rmtree(place)
    figures = {
        "reading": rates,
        "first_seconds": round(indexed, 2),
        "first_passages": first.encoded,
        "sync_seconds": round(synced, 2),
        "sync_share": round(synced / indexed, 4),
        "sync_encoded": done.encoded,
        "idle_seconds": round(idle, 3),
    }
    print("\n".join(f"{name:20} {value}" for name, value in figures.items()))
    print(journal.append("sync_rate", ["numpy", "onnxruntime"], vars(given), figures))


if __name__ == "__main__":
    main()
