"""Compares lexical search with that of tantivy, bm25s and SQLite FTS5: quality, and time at a large collection.

    python benchmarks/word_peers.py COLLECTIONS [--documents 500000] [--questions 200] [--append]

COLLECTIONS holds folders in BEIR's layout. Quality is nDCG@10 of each engine with each of its analyses. Then every
engine indexes the same short documents and answers the same questions on one thread, question by question in turn,
after what is found has been checked: phrases and facets of denslice against a plain scan, and the documents that match
against each other. With --append, a line is added to results/word_quality.jsonl and to results/word_peers.jsonl.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from tempfile import mkdtemp
from typing import Any

import ir_measures
import numpy as np

import journal
from denslice.bench.builds import apart
from denslice.provenance import milliseconds
from quality import MEASURE, judged
from word_checks import checked, compared
from word_collection import Question, questions, sentences
from word_engines import ENGINES, DensliceWords, WordEngine
from word_quality import ways

PACKAGES = ("numpy", "numba", "PyStemmer", "regex", "py3langid", "ir-measures", "tantivy", "bm25s")
LANGUAGES = ("ar", "de", "hi", "ru", "th", "zh")
ENGLISH = ("scifact", "cranfield", "npl", "fiqa-judged", "squad-dev")
WARMING = 20  # questions of each kind, which are asked again later


def main() -> None:
    """Measure, print, and append the lines if that is asked for."""
    asked = _arguments()
    if asked.part in ("quality", "both"):
        _tell("word_quality", asked, quality(asked.folder))
    if asked.part in ("time", "both"):
        _tell("word_peers", asked, timed_apart(asked))


def _tell(name: str, asked: argparse.Namespace, figures: dict[str, Any]) -> None:
    print(figures)
    if asked.append:
        print(journal.append(name, PACKAGES, vars(asked), figures))


# --- quality


def quality(folder: Path) -> dict[str, Any]:
    """Return nDCG@10 by collection and way, and how long each way took for indexing and all queries."""
    figures: dict[str, Any] = {"ndcg@10": {}, "seconds": {}, "queries": {}}
    collections = {f"xquad-{code}": code for code in LANGUAGES} | dict.fromkeys(ENGLISH, "en")
    for name, language in collections.items():
        docs, queries, qrels = judged(folder, f"{name}:test")
        figures["queries"][name] = len(queries)
        for table in ("ndcg@10", "seconds"):
            figures[table][name] = {}
        for way, search in ways(language).items():
            began = time.perf_counter()
            run = search(docs, queries)
            figures["seconds"][name][way] = round(time.perf_counter() - began, 2)
            value = ir_measures.calc_aggregate([MEASURE], qrels, run)[MEASURE]
            figures["ndcg@10"][name][way] = round(float(value), 4)
        print(name, figures["ndcg@10"][name], flush=True)
    return figures


# --- time


def timed_apart(asked: argparse.Namespace) -> dict[str, Any]:
    """Return what was measured at many documents: builds with all cores, and searches in a process of one thread."""
    folder = Path(mkdtemp(prefix="denslice-peers-"))
    try:
        builds = {name: apart(_build, asked.folder, asked.documents, name, folder) for name in ENGINES}
        print(builds, flush=True)
        return {"builds": builds} | apart(timed, asked.folder, asked.documents, asked.questions, folder, threads=1)
    finally:
        shutil.rmtree(folder)


def _build(data: Path, count: int, name: str, folder: Path) -> dict[str, float]:
    """Return seconds and bytes of an engine's index."""
    docs = sentences(data, count)
    engine = ENGINES[name](folder)
    seconds = milliseconds(engine.build, docs) / 1000
    places = [path for path in folder.rglob("*") if name.casefold() in str(path.relative_to(folder)).casefold()]
    size = sum(path.stat().st_size for path in places if path.is_file())
    return {"seconds": round(seconds, 1), "bytes": size}


def timed(data: Path, count: int, asked: int, folder: Path) -> dict[str, Any]:
    """Return what the checks found, and milliseconds of every engine by kind of question."""
    docs = sentences(data, count)
    every = questions(data, docs, asked)
    engines = {name: make(folder) for name, make in ENGINES.items()}
    ours = DensliceWords(folder)
    for engine in (ours, *engines.values()):
        engine.open()
    figures: dict[str, Any] = {"characters_a_document": round(fmean(len(doc.text) for doc in docs), 1)}
    figures |= {"checks": checked(ours, docs, every), "matching": compared(engines, every)}
    print(figures, flush=True)
    figures |= {"load_before": os.getloadavg()[0]}
    figures["ms"] = {kind: times(engines, some) for kind, some in every.items()}
    return figures | {"load_after": os.getloadavg()[0]}


def times(engines: dict[str, WordEngine], asked: Sequence[Question]) -> dict[str, dict[str, float]]:
    """Return milliseconds of the engines that can answer; they take turns, so that a busy machine hinders all alike."""
    able = [(name, engine) for name, engine in engines.items() if asked[0].kind in engine.kinds]
    took: dict[str, list[float]] = {name: [] for name, _ in able}
    for question in asked[-WARMING:]:
        for _, engine in able:
            answer(engine, question)
    for at, question in enumerate(asked):
        for name, engine in able[at % len(able) :] + able[: at % len(able)]:
            took[name].append(milliseconds(answer, engine, question))
    return {name: _percentiles(some) for name, some in took.items()}


def answer(engine: WordEngine, question: Question) -> object:
    """Answer a question, with the counts of facets if they are asked for."""
    return engine.facets(question) if question.kind == "facets" else engine.best(question)


def _percentiles(took: Sequence[float]) -> dict[str, float]:
    return {f"p{at}": round(float(np.percentile(took, at)), 3) for at in (50, 95)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="COLLECTIONS")
    parser.add_argument("--documents", type=int, default=500_000)
    parser.add_argument("--questions", type=int, default=200, help="of each kind")
    parser.add_argument("--part", choices=["quality", "time", "both"], default="both")
    parser.add_argument("--append", action="store_true", help="append lines to the results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
