"""Checks of what engines find, before they are timed: denslice against plain scans, and engines against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, islice, pairwise
from statistics import fmean
from typing import Any

from denslice.analysis.analyzer import Analyzer
from word_collection import Question, Sentence
from word_engines import FIELDS, DensliceWords, Facets, WordEngine

CHECKED = 40  # questions of each kind
WHOLE = 2_000  # matching documents up to which all of them are compared, and not only the ten best
SHOWN = 3  # documents that differ, of each pair of engines


def checked(ours: DensliceWords, docs: Sequence[Sentence], asked: Mapping[str, Sequence[Question]]) -> dict[str, Any]:
    """Return how many answers were compared with a plain scan; end the program if one differs."""
    analyzer = Analyzer()
    spans = [analyzer.spans(doc.text) for doc in docs]
    lines = [f" {' '.join(word for word, _, _ in some)} " for some in spans]
    parted = {number for number, some in enumerate(spans) if _has_parts(some)}
    phrases = [one for some in asked.values() for one in some[:CHECKED] if one.kind == "phrase"]
    found = Counter(check_phrase(ours, one, lines, parted) for one in phrases)
    check_facets(ours, asked["facets"][:CHECKED], docs, analyzer)
    return {"phrases": dict(found), "facets": len(asked["facets"][:CHECKED])}


def check_phrase(ours: DensliceWords, question: Question, lines: Sequence[str], parted: set[int]) -> str:
    """Compare the documents of a phrase with those that hold its words in order; return how far.

    Those that are `parted` are left out: behind parts of words, such as those of parseDate, words have other places.
    """
    holding = {number for number, line in enumerate(lines) if f" {question.text} " in line}
    if len(holding) <= WHOLE:
        _assert(ours.matching(question) - parted == holding - parted, question)
        return "every document"
    best = ours.best(question)
    _assert(len(set(best)) == len(best) == 10 and (holding | parted).issuperset(best), question)
    return "the ten best"


def _has_parts(spans: Sequence[tuple[str, int, int]]) -> bool:
    return any(start < end for (_, _, end), (_, start, _) in pairwise(spans))


def check_facets(ours: DensliceWords, asked: Sequence[Question], docs: Sequence[Sentence], analyzer: Analyzer) -> None:
    """Compare facets with a plain count over the documents that have a token of the question."""
    tokens = [ours.tokens(question) for question in asked]
    wanted = set().union(*tokens)
    held = [wanted & tokens_of(doc.text, analyzer) for doc in docs]
    for question, own in zip(asked, tokens, strict=True):
        matching = [doc for doc, some in zip(docs, held, strict=True) if not own.isdisjoint(some)]
        _assert(ours.facets(question) == counted(matching), question)


def counted(docs: Sequence[Sentence]) -> Facets:
    """Return how many documents have each value of the fields."""
    return {name: dict(Counter(getattr(doc, name) for doc in docs)) for name in FIELDS}


def tokens_of(text: str, analyzer: Analyzer) -> set[str]:
    """Return all tokens of a text."""
    words = analyzer.analyzed(text, analyzer.language_of(text))
    return {term.token for word in words for term in word.terms.terms}


def _assert(is_so: bool, question: Question) -> None:
    if not is_so:
        raise SystemExit(f"what is found for {question} differs from a plain scan; nothing is timed")


def compared(engines: Mapping[str, WordEngine], asked: Mapping[str, Sequence[Question]]) -> dict[str, Any]:
    """Return by kind how many documents match in the mean, and how many questions have others than denslice finds.

    Questions that match very many documents are left out.
    """
    return {kind: _compared(engines, some[:CHECKED]) for kind, some in asked.items() if kind != "plain"}


def _compared(engines: Mapping[str, WordEngine], asked: Sequence[Question]) -> dict[str, Any]:
    able = {name: engine for name, engine in engines.items() if asked[0].kind in engine.kinds}
    sets = [{name: engine.matching(one) for name, engine in able.items()} for one in asked if _is_rare(engines, one)]
    return {"compared": len(sets)} | {name: _beside_ours(name, sets) for name in able}


def _is_rare(engines: Mapping[str, WordEngine], question: Question) -> bool:
    return question.kind != "phrase" or len(engines["tantivy"].matching(question)) <= WHOLE


def _beside_ours(name: str, sets: Sequence[Mapping[str, set[int]]]) -> dict[str, Any]:
    """Return the mean number of documents, those that denslice alone or the engine alone finds, and some of them."""
    fewer = [sorted(one["denslice"] - one[name]) for one in sets]
    more = [sorted(one[name] - one["denslice"]) for one in sets]
    return {
        "mean": round(fmean(len(one[name]) for one in sets), 1),
        "questions_that_differ": sum(bool(one or other) for one, other in zip(fewer, more, strict=True)),
        "fewer": [sum(map(len, fewer)), list(islice(chain.from_iterable(fewer), SHOWN))],
        "more": [sum(map(len, more)), list(islice(chain.from_iterable(more), SHOWN))],
    }
