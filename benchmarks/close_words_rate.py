"""Times the search for close words: one random edit of real words, on one core, and completing prefixes.

    python benchmarks/close_words_rate.py FOLDER… [--made-up 1000000] [--queries 1000] [--append]

Each folder is a collection, whose vocabulary is what matches \\w+ in its casefolded texts. Made-up words have the
letter trigrams of the first collection. Some answers are compared with the distance of every word before anything is
timed. With --append, a line is added to results/close_words_rate.jsonl.
"""

from __future__ import annotations

import argparse
import random
import re
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import journal
from denslice.corpus.documents import read_docs
from denslice.search.close_words import CloseWords, allowed_distance
from denslice.search.edit_distance import edit_distance, rows_for
from denslice.search.letter_signatures import LetterSignatures
from denslice.store.vocabulary import Piece, word_arrays

PACKAGES = ("numpy", "numba", "llvmlite")
SEED = 21
CHECKED = 4  # queries of each distance whose answers are compared
REPEATS = 3  # of each query, of which the fastest counts: a busy machine hides the rest
LENGTHS = {1: range(4, 8), 2: range(8, 64)}  # of the words, by the distance that they are searched with
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_words = re.compile(r"\w+")


def main() -> None:
    """Measure each vocabulary, print, and append the line if that is asked for."""
    asked = _arguments()
    vocabularies = {folder.name: words_of(folder) for folder in asked.folders}
    if asked.made_up:
        vocabularies["made-up"] = made_up_like(next(iter(vocabularies.values())), asked.made_up)
    figures = {name: measured(words, asked.queries) for name, words in vocabularies.items()}
    for name, one in figures.items():
        print(name, one)
    if asked.append:
        print(journal.append("close_words_rate", PACKAGES, vars(asked), figures))


def words_of(folder: Path) -> list[str]:
    """Return the distinct words of a collection."""
    found: set[str] = set()
    for doc in read_docs([folder]):
        found.update(_words.findall(f"{doc.title or ''} {doc.text}".casefold()))
    return sorted(found)


def made_up_like(words: Sequence[str], count: int) -> list[str]:
    """Return as many distinct words, whose every three letters are those of a word that is given."""
    following: defaultdict[str, list[str]] = defaultdict(list)
    for word in words:
        for at, letter in enumerate(word + "\n"):
            following[word[max(0, at - 2) : at]].append(letter)
    chosen, made = random.Random(SEED), set[str]()
    while len(made) < count:
        word = ""
        while (letter := chosen.choice(following[word[-2:]])) != "\n":
            word += letter
        made.add(word)
    return sorted(made)


def measured(words: Sequence[str], queries: int) -> dict[str, Any]:
    """Check and time one vocabulary."""
    arrays = word_arrays(words)
    piece = Piece(0, arrays["words"], arrays["starts"], arrays["sorted"], Path("words"))
    found, chosen = CloseWords.of([piece]), random.Random(SEED)
    figures = {"words": len(words)} | _building(piece)
    for distance, lengths in LENGTHS.items():
        typed = [word for word in words if len(word) in lengths and allowed_distance(word) == distance]
        asked = [one_edit(word, chosen) for word in chosen.choices(typed, k=queries)]
        _check(found, words, asked[:CHECKED], distance)
        near = [len(found.within(word, distance)) for word in asked]
        figures[f"within_{distance}"] = _times(partial(found.within, distance=distance), asked) | {
            "found_mean": round(float(np.mean(near)), 1)
        }
    prefixes = [word[: chosen.randint(1, 4)] for word in chosen.choices(words, k=queries)]
    return figures | {"starting_with_10": _times(partial(found.starting_with, limit=10), prefixes)}


def one_edit(word: str, chosen: random.Random) -> str:
    """Return the word with a letter inserted, deleted or substituted, or with two neighbours swapped."""
    at, letter = chosen.randrange(len(word) - 1), chosen.choice(ALPHABET)
    before, after = word[:at], word[at + 1 :]
    edits = (
        before + letter + word[at:],
        before + after,
        before + letter + after,
        before + after[0] + word[at] + after[1:],
    )
    return chosen.choice(edits)


def _building(piece: Piece) -> dict[str, Any]:
    """Return how long the signatures take, and their bytes for each word, also at the most while they are made."""
    began = time.perf_counter()
    made = LetterSignatures.of(piece)
    seconds = time.perf_counter() - began
    tracemalloc.start()
    LetterSignatures.of(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    kept = made.signatures.nbytes + made.positions.nbytes
    rates = {"bytes_a_word": round(kept / len(piece), 1), "peak_bytes_a_word": round(peak / len(piece), 1)}
    return {"build_ms": round(1000 * seconds, 1)} | rates


def _check(found: CloseWords, words: Sequence[str], asked: Iterable[str], distance: int) -> None:
    """Compare some answers with the distance of every word."""
    for word in asked:
        letters, rows = [*map(ord, word)], rows_for(len(word))
        distances = ((edit_distance([*map(ord, one)], letters, distance, rows), one) for one in words)
        if found.within(word, distance) != [(one, far) for far, one in sorted(distances) if far <= distance]:
            raise SystemExit(f"the words close to {word!r} differ from the definition; nothing is timed")


def _times(call: Callable[[str], object], asked: Sequence[str]) -> dict[str, float]:
    """Return the microseconds of a call at the median and the 95th percentile of what is asked."""
    fastest = [min(_seconds(call, one) for _ in range(REPEATS)) for one in asked]
    p50, p95 = np.percentile(fastest, [50, 95]) * 1e6
    return {"p50_us": round(float(p50), 1), "p95_us": round(float(p95), 1)}


def _seconds(call: Callable[[str], object], asked: str) -> float:
    began = time.perf_counter()
    call(asked)
    return time.perf_counter() - began


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--made-up", type=int, default=0, help="time so many made-up words too")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--append", action="store_true", help="append a line to the results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
