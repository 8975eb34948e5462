"""Hides needles in long notes and looks for them: words that occur once, and sentences that are asked for.

    python benchmarks/needles.py COLLECTIONS [--hay acl-title-abstract] [--sentences squad-dev] [--words 20000 200000]
    python benchmarks/needles.py COLLECTIONS --words 4000 --notes 1500 --quick --prunings 0 0.3

A note is made of the texts of one collection. At ten places of each of the first five notes stand a word that occurs
nowhere else and, in the middle of another paragraph, a sentence of another collection. A word is found if the best
document or passage holds it. A sentence is asked for by itself and by a question: one of its collection, whose
paragraph has no sentence that shares more words with it, so that some questions are answered by another sentence than
this. Appends a line to results/needles.jsonl.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import journal
from denslice import Doc, Index
from denslice.analysis.analyzer import Analyzer
from denslice.corpus.documents import read_docs
from quality import PACKAGES, judged

NOTES, PLACES = 5, 10
LEAST_WORDS = 8  # of a sentence: shorter ones rarely answer a question by themselves
_sentences = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True)
class Needle:
    """A word that occurs once, and a sentence with the question that it answers."""

    note: str
    sentence: str
    word: str
    question: str


def main() -> None:
    """Measure each length of notes, print and append the line."""
    given = _arguments()
    figures = {str(words): measured(given, words) for words in given.words}
    print(figures)
    asked = {"notes": given.notes, "level": given.level, "prunings": given.prunings}
    configuration = {"hay": given.hay, "sentences": given.sentences, "encoder": "mini", "needles": NOTES * PLACES}
    print(journal.append("needles", PACKAGES, configuration | asked, figures))


def measured(given: argparse.Namespace, words: int) -> dict[str, Any]:
    """Return how many needles are found in notes of so many words, and what the index costs."""
    docs, needles = notes(given, words)
    with TemporaryDirectory(prefix="denslice-needles-") as folder:
        index = Index.create(Path(folder, "it.idx"), "mini")
        began = time.perf_counter()
        index.add(docs, level=given.level)
        seconds = round(time.perf_counter() - began, 1)
        cost = {"passages": index.info().passages, "seconds": seconds, "bytes": index.info().bytes}
        counts: dict[str, int] = {}
        for pruning in given.prunings:
            of_pruning = found(index, needles, pruning)
            counts |= {name + (f", pruning {pruning:g}" if pruning else ""): of_pruning[name] for name in of_pruning}
        return counts | cost


def found(index: Index, needles: Sequence[Needle], pruning: float | None) -> dict[str, int]:
    """Return how many needles are found in each way."""
    counts: dict[str, int] = {}
    for needle in needles:
        for mode in ("lexical", "hybrid"):
            document = index.search(needle.word, 1, mode=mode, pruning=pruning)
            passage = index.search(needle.word, 1, mode=mode, group=False, pruning=pruning)
            _count(counts, f"word, document, {mode}", bool(document) and document.ids[0] == needle.note)
            _count(counts, f"word, passage, {mode}", bool(passage) and needle.word in passage[0].text)
        for mode in ("lexical", "dense", "hybrid"):
            for asked, text in (("itself", needle.sentence), ("question", needle.question)):
                passages = [hit.text for hit in index.search(text, 3, mode=mode, group=False, pruning=pruning)]
                _count(counts, f"sentence by {asked}, {mode}, first", needle.sentence in passages[0])
                _count(counts, f"sentence by {asked}, {mode}, first three", any(needle.sentence in p for p in passages))
    return counts


def notes(given: argparse.Namespace, words: int) -> tuple[list[Doc], list[Needle]]:
    """Return the notes and the needles in them."""
    hay = (doc.text for doc in read_docs([given.folder / given.hay]))
    asked = questions(given.folder, given.sentences)
    docs, needles = [], []
    for number in range(given.notes):
        paragraphs: list[str] = []
        while sum(len(one.split()) for one in paragraphs) < words:
            paragraphs += [next(hay) for _ in range(20)]
        for place in range(PLACES if number < NOTES else 0):
            question, sentence = next(asked)
            at = min((2 * place + 1) * len(paragraphs) // (2 * PLACES), len(paragraphs) - 2)
            word = f"zyxo{number}q{place}v"
            paragraphs[at] = _inserted(paragraphs[at], sentence)
            paragraphs[at + 1] += f" {word}."
            needles.append(Needle(f"note{number}", sentence, word, question))
        docs.append(Doc(f"note{number}", "\n\n".join(paragraphs), f"Note {number}"))
    return docs, needles


def _inserted(paragraph: str, sentence: str) -> str:
    """Return a paragraph with a sentence in its middle."""
    sentences = _sentences.split(paragraph)
    middle = len(sentences) // 2
    return " ".join([*sentences[:middle], sentence, *sentences[middle:]])


def questions(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    """Yield questions in a fixed random order, each with the sentence that shares most words with it."""
    docs, queries, qrels = judged(folder, name)
    texts, stems = {doc.id: doc.text for doc in docs}, Analyzer().words
    seen: set[str] = set()
    for at in np.random.default_rng(0).permutation(len(queries)).tolist():
        query = queries[at]
        id = next(iter(qrels[query.id]))
        asked = set(stems(query.text))
        sentence = max(_sentences.split(texts[id]), key=lambda one: len(asked.intersection(stems(one))))
        if id not in seen and len(sentence.split()) >= LEAST_WORDS:
            seen.add(id)
            yield query.text, sentence


def _count(counts: dict[str, int], name: str, is_found: bool) -> None:
    counts[name] = counts.get(name, 0) + is_found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="COLLECTIONS")
    parser.add_argument("--hay", default="acl-title-abstract")
    parser.add_argument("--sentences", default="squad-dev")
    parser.add_argument("--words", type=int, nargs="+", default=[20_000, 200_000])
    parser.add_argument("--notes", type=int, default=NOTES, help="how many there are; the first five have needles")
    parser.add_argument("--quick", dest="level", action="store_const", const="quick", default="full")
    parser.add_argument("--prunings", type=float, nargs="+", default=[None], help="the default is that of a search")
    return parser.parse_args()


if __name__ == "__main__":
    main()
