"""Measures search with misspelt queries: nDCG@10 and time, with and without the correction of unknown words.

    python benchmarks/typos.py COLLECTIONS squad-dev:test scifact:test --seed 7 [--encoders bm25 mini] [--append]

A share of the queries' content words (letters alone, no stop words) gets one random edit, which the seed determines:
a letter inserted, deleted or substituted, or two neighbours swapped. The clean queries tell which words are corrected
although nothing was misspelt; those that other collections have are real words. COLLECTIONS holds folders in BEIR's
layout. With --append, a line is added to results/typos.jsonl.
"""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from string import ascii_lowercase
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from bm25s.tokenization import STOPWORDS_EN_PLUS

import journal
from denslice import Index, Query, open_index
from denslice.corpus.documents import read_docs
from denslice.provenance import milliseconds
from quality import Floats, Qrels, judged, ndcg

PACKAGES = ("numpy", "numba", "PyStemmer", "regex", "py3langid", "ir-measures", "bm25s")
SHARE = 0.2  # of the content words that are misspelt
TIMED = 1000  # queries, at most
WARMING = 50
ROUNDS = 3
K = 10
WAYS = {"fuzzy": True, "no fuzzy": False}
Typed = dict[str, list[Query]]  # the queries as they are, and with typos
_words = re.compile(r"[^\W\d_]+")
_stops = frozenset(STOPWORDS_EN_PLUS)


def main() -> None:
    """Measure each collection with each encoder, print, and append the line if that is asked for."""
    asked = _arguments()
    figures: dict[str, dict[str, Any]] = {}
    for name in asked.collections:
        elsewhere = words_elsewhere(asked.folder, name)
        for encoder in asked.encoders:
            most = None if encoder == "bm25" else asked.sample
            found = measured(asked, name, encoder, most, elsewhere)
            figures.setdefault(name, {})[encoder] = found
            print(name, encoder, found, flush=True)
    if asked.append:
        print(journal.append("typos", PACKAGES, vars(asked) | {"share": SHARE}, figures))


def measured(
    asked: argparse.Namespace, name: str, encoder: str, most: int | None, elsewhere: Counter[str]
) -> dict[str, Any]:
    """Return quality, times and false corrections of one collection with one encoder, over at most so many queries."""
    docs, queries, qrels = judged(asked.folder, name)
    chosen = random.Random(asked.seed)
    queries = queries if most is None or most >= len(queries) else chosen.sample(queries, most)
    typed = {"clean": queries, "typos": misspelt(queries, chosen)}
    with TemporaryDirectory(prefix="denslice-typos-") as temporary:
        with Index.create(Path(temporary, "it.idx"), encoder) as index:
            index.add(docs)
            figures = {"queries": len(queries), "misspelt": _count_changed(typed)}
            figures |= {"ndcg@10": _quality(index, typed, {query.id: qrels[query.id] for query in queries})}
            figures |= {"clean": corrected_clean(index, queries, elsewhere)}
        return figures | {"ms": _times(Path(temporary, "it.idx"), typed)}


# --- typos


def misspelt(queries: Sequence[Query], chosen: random.Random, share: float = SHARE) -> list[Query]:
    """Return the queries with one edit in this share of their content words, which are counted over all queries."""
    places = [(at, match.span()) for at, query in enumerate(queries) for match in content_words(query.text)]
    edited = sorted(chosen.sample(places, round(share * len(places))), reverse=True)
    texts = [query.text for query in queries]
    for at, (start, end) in edited:  # the last word first, so that the places before it stay
        texts[at] = texts[at][:start] + one_edit(texts[at][start:end], chosen) + texts[at][end:]
    return [replace(query, text=text) for query, text in zip(queries, texts, strict=True)]


def content_words(text: str) -> list[re.Match[str]]:
    """Return the words of letters alone that are no stop words. A single letter is none: an edit leaves nothing."""
    found = _words.finditer(text)
    return [match for match in found if len(match.group()) > 1 and match.group().casefold() not in _stops]


def one_edit(word: str, chosen: random.Random) -> str:
    """Return another word, one letter inserted, deleted or substituted, or two neighbours swapped."""
    while (edited := _edited(word, chosen)) == word:
        pass
    return edited


def _edited(word: str, chosen: random.Random) -> str:
    letter, kind = chosen.choice(ascii_lowercase), chosen.choice(("insert", "delete", "substitute", "swap"))
    at = chosen.randrange(len(word) + {"insert": 1, "swap": -1}.get(kind, 0))
    before, after = word[:at], word[at:]
    match kind:
        case "insert":
            return before + letter + after
        case "delete":
            return before + after[1:]
        case "substitute":
            return before + letter + after[1:]
        case _:
            return before + after[1] + after[0] + after[2:]


def _count_changed(typed: Typed) -> dict[str, int]:
    pairs = list(zip(typed["clean"], typed["typos"], strict=True))
    words = sum(len(content_words(query.text)) for query in typed["clean"])
    return {"content_words": words, "queries": sum(one.text != other.text for one, other in pairs)}


# --- what is measured


def _quality(index: Index, typed: Typed, qrels: Qrels) -> dict[str, float]:
    """Return the mean nDCG@10 of clean and misspelt queries in each way, and the shares of the clean one kept."""
    found = {
        f"{kind}, {way}": float(ndcg(index, queries, qrels, fuzzy=fuzzy).mean())
        for kind, queries in typed.items()
        for way, fuzzy in WAYS.items()
    }
    kept = {f"kept, {way}": found[f"typos, {way}"] / found["clean, no fuzzy"] for way in WAYS}
    return {name: round(value, 4) for name, value in (found | kept).items()}


def corrected_clean(index: Index, queries: Sequence[Query], elsewhere: Counter[str]) -> dict[str, Any]:
    """Return which words of clean queries are corrected, which of them are real words, and how many rankings change.

    A word is taken for real if two documents of other collections have it.
    """
    with_it, without = (
        [index.search(Query(text=one.text), K, fuzzy=fuzzy) for one in queries] for fuzzy in WAYS.values()
    )
    changed = sum(one.ids != other.ids for one, other in zip(with_it, without, strict=True))
    corrections = Counter(chain.from_iterable(one.corrections for one in with_it))
    real = {str(one): count for one, count in corrections.items() if elsewhere[one.typed] > 1}
    counts = {"queries_with_corrections": sum(bool(one.corrections) for one in with_it), "rankings_changed": changed}
    words = {"words_corrected": len(corrections), "real_words_corrected": len(real)}
    others = {str(one): count for one, count in corrections.items() if elsewhere[one.typed] < 2}
    return counts | words | {"real": real, "others": others}


def words_elsewhere(folder: Path, name: str) -> Counter[str]:
    """Return how many documents of the other collections beside this one have each word, casefolded."""
    own, counts = name.partition(":")[0], Counter[str]()
    for path in sorted(folder.glob("*/corpus.jsonl")):
        if path.parent.name != own:
            counts.update(chain.from_iterable(map(_words_of, read_docs([path.parent]))))
    return counts


def _words_of(doc: Any) -> Iterable[str]:
    return set(_words.findall(doc.contents.casefold()))


def _times(path: Path, typed: Typed) -> dict[str, dict[str, float]]:
    """Return milliseconds of single searches, the fastest of some rounds, which a busy machine affects least."""
    rounds = [_round(path, typed) for _ in range(ROUNDS)]
    fastest = {case: np.min([one[case] for one in rounds], axis=0) for case in rounds[0]}
    return {case: _percentiles(some) for case, some in fastest.items()}


def _round(path: Path, typed: Typed) -> dict[str, list[float]]:
    """Return milliseconds of each search by case. The index is opened anew: no word of a query is remembered."""
    cases = [(kind, way) for kind in typed for way in WAYS]
    took: dict[str, list[float]] = {", ".join(case): [] for case in cases}
    with open_index(path) as index:
        for query in typed["typos"][-WARMING:]:
            index.search(Query(text=query.text), K)
        for at in range(min(TIMED, len(typed["clean"]) - WARMING)):
            for kind, way in cases[at % len(cases) :] + cases[: at % len(cases)]:
                asked = Query(text=typed[kind][at].text)
                took[f"{kind}, {way}"].append(milliseconds(_search, index, asked, WAYS[way]))
    return took


def _search(index: Index, query: Query, fuzzy: bool) -> None:
    index.search(query, K, fuzzy=fuzzy)


def _percentiles(took: Floats) -> dict[str, float]:
    return {f"p{at}": round(float(np.percentile(took, at)), 4) for at in (50, 95)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="COLLECTIONS")
    parser.add_argument("collections", nargs="+", metavar="NAME:SPLIT")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--encoders", nargs="+", default=["bm25"])
    parser.add_argument("--sample", type=int, default=500, help="queries of an encoder other than bm25")
    parser.add_argument("--append", action="store_true", help="append a line to the results")
    return parser.parse_args()


if __name__ == "__main__":
    main()
