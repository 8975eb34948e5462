"""Measures how well a collection can be searched at each moment since its indexing began: nDCG@10 by seconds.

    python benchmarks/quality_by_seconds.py COLLECTIONS fiqa-judged:dev --minilm FOLDER

COLLECTIONS holds folders in BEIR's layout, and FOLDER all-MiniLM-L6-v2. Each contender runs alone, as a process on two
cores, and its time begins with the process. The index of `denslice index` is copied by hard links while it grows, and
the copies are searched when everything else is done. Other contenders (flat_contenders.py) can be searched when they
have all documents, and write none to disk. All of them have run before, so that files are cached and loops compiled.
No line is written unless the finished index finds what one made with --full finds. Appends a line to
results/quality_by_seconds.jsonl and draws docs/quality_by_seconds.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import journal
from denslice import Doc, Index, Query, encoders, open_index
from denslice.store.vocabulary import Growth, Vocabulary
from flat_contenders import static_encoder
from quality import PACKAGES as OURS
from quality import Floats, Qrels, judged, ndcg, ndcg_of
from recall_plot import quality_against_seconds

PACKAGES = (*OURS, "bm25s", "PyStemmer", "faiss-cpu", "torch", "sentence-transformers")
CORES = 2
LOOK = 0.05  # seconds between looks at an index that grows
GROWTH = 1.05  # the next copy is made after so many times the seconds of the last one
FEW = 32  # documents of the run before
CHECKED = 256  # texts whose static embeddings are compared
DENSLICE = {  # the command's options by the name of the contender
    "denslice": [],
    "denslice --full": ["--full"],
    "denslice --encoder bm25": ["--encoder", "bm25"],
}
FLAT = {  # of flat_contenders.py by the name of the contender
    "BM25, bm25s": "bm25s",
    "static embeddings, numpy": "static",
    "MiniLM, sentence-transformers + faiss": "minilm",
}
PICTURE = journal.ROOT / "docs" / "quality_by_seconds.svg"
Points = list[dict[str, float]]  # seconds, nDCG@10 and documents


@dataclass(frozen=True)
class Collection:
    """Documents, and the queries that have judgements; both are also in files."""

    docs: list[Doc]
    queries: list[Query]
    qrels: Qrels
    corpus: Path
    asked: Path  # the queries


@dataclass(frozen=True)
class Copy:
    """A copy of an index, and the seconds from the start of the command until it was there."""

    seconds: float
    folder: Path


def main() -> None:
    """Check, time, measure, print, append the line and draw it."""
    given = _arguments()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])  # the contenders inherit it
    with TemporaryDirectory(prefix="denslice-seconds-") as temporary:
        collection = read(given.folder, given.collection, Path(temporary))
        check_static([doc.contents for doc in islice(collection.docs, CHECKED)])
        run_before(collection, Path(temporary), given.minilm)
        found, looked = timed(collection, Path(temporary), given.minilm)
    named = [{"name": name, "points": points} for name, points in found.items()]
    figures = {"documents": len(collection.docs), "queries": len(collection.queries), "contenders": named}
    configuration = {"collection": given.collection, "minilm": given.minilm, "look": LOOK, "growth": GROWTH}
    print(journal.append("quality_by_seconds", PACKAGES, configuration, figures | {"looking_cpu_s": looked}))
    given.picture.write_bytes(quality_against_seconds(journal.lines("quality_by_seconds")[-1]))


def read(folder: Path, name: str, work: Path) -> Collection:
    """Return a collection NAME:SPLIT, whose documents and queries are written to files in the work folder.

    Documents are in random order. The last ones are deepened first, and until all are deep, a deep document and a quick
    one are not scored alike: the curve would depend on where in the file the relevant documents are.
    """
    docs, queries, qrels = judged(folder, name)
    corpus, asked = work / "corpus.jsonl", work / "queries.jsonl"
    Random(1).shuffle(docs)
    _write(corpus, ({"_id": one.id, "title": one.title, "text": one.text} for one in docs))
    _write(asked, ({"_id": one.id, "text": one.text} for one in queries))
    return Collection(docs, queries, qrels, corpus, asked)


def timed(collection: Collection, work: Path, minilm: Path) -> tuple[dict[str, Points], float]:
    """Return the points of each contender, and the CPU seconds that looking at indexes and copying them took."""
    began = time.process_time()
    grown = {name: copies(collection.corpus, work / name, options) for name, options in DENSLICE.items()}
    looked = round(time.process_time() - began, 2)
    runs = {name: flat_run(flat, collection.corpus, collection.asked, work, minilm) for name, flat in FLAT.items()}
    found, last = dict[str, Points](), dict[str, Floats]()
    for name, some in grown.items():
        found[name], last[name] = measured(some, collection)
        print(name, found[name], flush=True)
    check_finished(found["denslice"][-1], last)
    for name, (seconds, run) in runs.items():
        values = ndcg_of(run, collection.queries, collection.qrels)
        found[name] = [_point(seconds, values) | {"documents": len(collection.docs)}]
        print(name, found[name], flush=True)
    return found, looked


def measured(some: Sequence[Copy], collection: Collection) -> tuple[Points, Floats]:
    """Return the points of the copies of an index, and nDCG@10 of each query in the last."""
    points: Points = []
    for copy in some:
        with open_index(copy.folder) as index:
            values, info = ndcg(index, collection.queries, collection.qrels), index.info()
        points.append(_point(copy.seconds, values) | {"documents": info.documents, "quick": info.quick})
    return points, values


# --- checks


def check_static(texts: Sequence[str]) -> None:
    """Stop the benchmark if static embeddings are not the dense vectors of the quick level."""
    weigh, vectors = static_encoder()
    options = encoders.checked_options("mini", {"language": "english"})
    expected = encoders.load("mini", options, Growth(Vocabulary())).quick().encode_docs(texts).dense
    if expected is None or not np.allclose(vectors(weigh.encode_docs(texts)), expected, atol=1e-6):
        raise SystemExit("static embeddings differ from the vectors of the quick level: nothing is timed")


def check_finished(finished: Mapping[str, float], last: Mapping[str, Floats]) -> None:
    """Stop the benchmark if the index is not finished, or ranks otherwise than one made with --full."""
    if finished["quick"] or not np.array_equal(last["denslice"], last["denslice --full"]):
        means = [f"{last[name].mean():.5f}" for name in ("denslice", "denslice --full")]
        told = f"{finished['quick']} documents are quick, nDCG@10 is {means[0]} and with --full {means[1]}"
        raise SystemExit(f"the finished index is not the one that --full makes ({told}): no line is written")


# --- contenders


def run_before(collection: Collection, work: Path, minilm: Path) -> None:
    """Run every contender on a few documents, and the quick pass on all, whose number decides what is compiled."""
    few = work / "few.jsonl"
    with collection.corpus.open(encoding="utf-8") as file:
        few.write_text("".join(islice(file, FEW)), encoding="utf-8")
    for name, options in DENSLICE.items():
        copies(few, work / f"{name}, few", options)
    copies(collection.corpus, work / "quick", ["--quick"])
    for flat in FLAT.values():
        flat_run(flat, few, collection.asked, work, minilm)


def copies(corpus: Path, work: Path, options: Sequence[str]) -> list[Copy]:
    """Run `denslice index` and return copies of the index: of the first commit, some later ones, and the last."""
    work.mkdir()
    to, made = work / "it.idx", list[Copy]()
    index: Index | None = None
    command = ["-m", "denslice", "index", str(corpus), "--to", str(to), *options]
    began = time.perf_counter()
    with started(command, work / "log") as process:
        has_ended = False
        while not has_ended:
            time.sleep(LOOK)
            has_ended = process.poll() is not None  # asked before looking, so that the last look sees the last commit
            if made and not has_ended and time.perf_counter() - began < GROWTH * made[-1].seconds:
                continue
            if index is None and to.exists():
                index = open_index(to)
            elif index is None or not index.refresh():
                continue
            index.backup(work / f"{len(made)}")
            made.append(Copy(time.perf_counter() - began, work / f"{len(made)}"))
    return made


def flat_run(name: str, corpus: Path, asked: Path, work: Path, minilm: Path) -> tuple[float, dict[str, Any]]:
    """Return the seconds until a flat contender can be searched, and its run."""
    to = work / "run.json"
    script = str(Path(__file__).with_name("flat_contenders.py"))
    began = time.perf_counter()
    with started([script, name, str(corpus), str(asked), str(to), "--minilm", str(minilm)], work / "log") as process:
        assert process.stdout is not None
        if "ready\n" not in process.stdout:  # reads lines until it comes
            raise SystemExit(f"{name} ended without being ready\n{(work / 'log').read_text(encoding='utf-8')}")
        seconds = time.perf_counter() - began
    return seconds, json.loads(to.read_text(encoding="utf-8"))


@contextmanager
def started(arguments: Sequence[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """Start Python with these arguments and wait for its end after the block; stop the benchmark if it fails."""
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        yield process
        process.communicate()
    finally:
        process.kill()
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)}: status {process.returncode}\n{log.read_text(encoding='utf-8')}")


def _write(path: Path, lines: Iterable[Mapping[str, str]]) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")


def _point(seconds: float, values: Floats) -> dict[str, float]:
    return {"seconds": round(seconds, 2), "ndcg@10": round(float(values.mean()), 5)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="COLLECTIONS")
    parser.add_argument("collection", metavar="NAME:SPLIT")
    parser.add_argument("--minilm", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--picture", type=Path, default=PICTURE, metavar="SVG")
    return parser.parse_args()


if __name__ == "__main__":
    main()
