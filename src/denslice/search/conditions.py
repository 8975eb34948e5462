"""Conditions: what the documents that a query returns have to hold, and the plain definition of holding it.

A word is held by a document with one of its tokens, as the posting lists tell. Phrases, fields and words that no
posting list has are looked for in the document itself: their words follow each other in the title, in the text, or in a
field. Tokens are numbered where the query is encoded, so that the shards of a cluster need no vocabulary.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from denslice.analysis.analyzer import Analyzer
from denslice.analysis.languages import ENGLISH
from denslice.analysis.scripts import ngram_size
from denslice.queries import Clause, Query
from denslice.records import Doc
from denslice.search.phrase_patterns import phrase_patterns

Ids = tuple[int, ...]
OWN_FIELDS = ("", "title")  # those whose words are indexed
EXACT, STEMMED, PREFIX = "exact", "stemmed", "prefix"  # how words are compared; PREFIX is about the last one


@dataclass(frozen=True)
class HeldTokens:
    """A document holds one of these tokens."""

    ids: Ids


@dataclass(frozen=True)
class HeldWords:
    """These words follow each other in a field of a document, or in its title or text.

    A document that lacks all tokens of one of the `needed` cannot hold them. A field of metadata may also be `value`.
    The table of a filterable field tells which documents hold them there.
    """

    words: tuple[str, ...]
    form: str = EXACT
    field: str = ""
    needed: tuple[Ids, ...] = ()
    value: str = ""
    is_filterable: bool = False


Test = HeldTokens | HeldWords


@dataclass(frozen=True)
class Conditions:
    """A document has to pass a test of each tuple of `must`, and none of `must_not`."""

    must: tuple[tuple[Test, ...], ...] = ()
    must_not: tuple[Test, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.must or self.must_not)

    def tests(self) -> Iterator[Test]:
        """Yield every test."""
        yield from (test for some in self.must for test in some)
        yield from self.must_not


NO_CONDITIONS = Conditions()


@dataclass(frozen=True)
class KnownWords:
    """How the words of a query are compared with those of a collection.

    `ids` returns the tokens of a word, or None if no posting list tells which documents have it. `like_ids` returns the
    tokens of other words that a prefix or a fuzzy word stands for.
    """

    analyzer: Analyzer
    ids: Callable[[str], Ids | None]
    like_ids: Callable[[str, str], Ids]  # of the kind of a clause, and its word
    filterable: Sequence[str] = ()

    def tokens(self, clause: Clause) -> Ids | None:
        """Return the tokens of the words that a clause of one word stands for; None if no posting list has them."""
        words = in_a_row(self.analyzer.spans(clause.text))
        if len(words) != 1 or (own := self.ids(words[0])) is None:
            return None
        return tuple(dict.fromkeys((*own, *self.like_ids(clause.kind, words[0]))))


# --- from queries


def conditions_of(query: Query, known: KnownWords) -> Conditions:
    """Return the conditions of a query. A clause without words is left out."""
    must = (tuple(test for clause in some if (test := _test(clause, known))) for some in query.required)
    must_not = (_test(clause, known) for clause in query.excluded)
    return Conditions(tuple(some for some in must if some), tuple(test for test in must_not if test))


def _test(clause: Clause, known: KnownWords) -> Test | None:
    words = in_a_row(known.analyzer.spans(clause.text))
    if not words and clause.field in OWN_FIELDS:
        return None
    if not clause.field and clause.kind != "phrase" and (tokens := known.tokens(clause)) is not None:
        return HeldTokens(tokens)
    return _words_test(clause, words, known)


def _words_test(clause: Clause, words: tuple[str, ...], known: KnownWords) -> HeldWords:
    form = {"phrase": EXACT, "prefix": PREFIX}.get(clause.kind, STEMMED)
    whole = [word for word in (words[:-1] if form == PREFIX else words) if not is_part(word)]
    ids = map(known.ids, whole if clause.field in OWN_FIELDS else ())
    needed = tuple(dict.fromkeys(some for some in ids if some is not None))
    value = "" if clause.field in OWN_FIELDS else clause.text
    is_filterable = clause.field in known.filterable and clause.field not in OWN_FIELDS
    return HeldWords(words, form, clause.field, needed, value, is_filterable)


# --- the definition


def holds(test: HeldWords, doc: Doc, analyzer: Analyzer) -> bool:
    """Return whether a document holds the words of a test."""
    if test.field in OWN_FIELDS:
        language = analyzer.language_of(doc.contents) if test.form == STEMMED else ENGLISH
        texts = (doc.title,) if test.field else (doc.title, doc.text)
        return any(_follow(test, text, analyzer, language) for text in texts if text)
    return is_held_by(test, doc.id if test.field == "id" else doc.meta.get(test.field), analyzer)


def hold_each(test: HeldWords, texts: Sequence[tuple[str, str]], analyzer: Analyzer) -> list[bool]:
    """Return for each document, given its title and text, what `holds` says of a test of these."""
    if test.form == STEMMED:
        return [holds(test, Doc("", text, title), analyzer) for title, text in texts]
    verdict = phrase_patterns(test.words, test.form == PREFIX).verdict

    def is_held(text: str) -> bool:
        known = verdict(text)
        return _follow(test, text, analyzer, ENGLISH) if known is None else known

    return [bool(title and is_held(title)) or (not test.field and is_held(text)) for title, text in texts]


def is_held_by(test: HeldWords, value: Any, analyzer: Analyzer) -> bool:
    """Return whether a value of metadata, or an element of a list, is what a test wants, or has its words in order."""
    language = analyzer.language or ENGLISH  # a value is too short to recognise its own
    elements = value if isinstance(value, list) else [value]
    texts = [_as_typed(one) for one in elements if isinstance(one, str | int | float)]
    return any(_is_value(test, text) or (test.words and _follow(test, text, analyzer, language)) for text in texts)


def _is_value(test: HeldWords, text: str) -> bool:
    value, text = test.value.casefold(), text.casefold()
    return text.startswith(value) if test.form == PREFIX else text == value


def _as_typed(value: str | float) -> str:
    """Return a value of metadata as people type it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _follow(test: HeldWords, text: str, analyzer: Analyzer, language: str) -> bool:
    """Return whether the words of a test follow each other in a text."""
    if test.form == STEMMED:
        wanted = [analyzer.stem(word, language) or word for word in test.words]
        stems = [(analyzer.stem(word, language) or word, start, end) for word, start, end in analyzer.spans(text)]
        return follow_each_other(wanted, stems)
    verdict = phrase_patterns(test.words, test.form == PREFIX).verdict(text)
    return follow_each_other(test.words, analyzer.spans(text), test.form == PREFIX) if verdict is None else verdict


def follow_each_other(wanted: Sequence[str], spans: Sequence[tuple[str, int, int]], is_prefix: bool = False) -> bool:
    """Return whether words follow each other in a text, given its words in order with their places.

    What follows a word begins where no other word is between: a word that has parts, such as an identifier, may be
    followed by any of its neighbours, as a whole or by its first part. An n-gram is followed by the next one.
    """
    fits = [_fitting(list(wanted), at, is_prefix) for at in range(len(wanted))]
    starts = sorted({start for _, start, _ in spans})
    at_start: dict[int, list[tuple[str, int]]] = {}
    for word, start, end in spans:
        at_start.setdefault(start, []).append((word, end))
    ends = {_next(starts, word, start, end) for word, start, end in spans if fits[0](word)}
    for fit in fits[1:]:
        ends = {_next(starts, word, start, end) for start in ends for word, end in at_start.get(start, ()) if fit(word)}
    return bool(ends)


def in_a_row(spans: Sequence[tuple[str, int, int]]) -> tuple[str, ...]:
    """Return words that follow each other, without the parts of a word that has any, given all with their places."""
    starts = sorted({start for _, start, _ in spans})
    first: dict[int, tuple[str, int]] = {}
    for word, start, end in spans:
        first.setdefault(start, (word, end))
    row: list[str] = []
    at = starts[0] if starts else -1
    while at >= 0:
        word, end = first[at]
        row.append(word)
        at = _next(starts, word, at, end)
    return tuple(row)


def _next(starts: Sequence[int], word: str, start: int, end: int) -> int:
    """Return where the words begin that follow a word; -1 behind the last one."""
    place = bisect_right(starts, start) if ngram_size(word) else bisect_left(starts, end)
    return starts[place] if place < len(starts) else -1


def _fitting(wanted: list[str], at: int, is_prefix: bool) -> Callable[[str], bool]:
    """Return the test of a word for its place: the last may be a prefix, the outer ones may be parts of n-grams."""
    word, is_first, is_last = wanted[at], at == 0, at == len(wanted) - 1
    if is_last and is_prefix:
        return lambda found: found.startswith(word)
    if is_part(word) and is_first and is_last:
        return lambda found: word in found
    if is_part(word) and (is_first or is_last):
        return lambda found: found.endswith(word) if is_first else found.startswith(word)
    return word.__eq__


def is_part(word: str) -> bool:
    """Return whether a word is shorter than the n-grams into which texts without spaces are cut."""
    return len(word) < ngram_size(word)


def analyzer_of(encoder_options: Mapping[str, Any]) -> Analyzer:
    """Return the analyzer of an index, and the default one if its encoder has none."""
    stop_words = encoder_options.get("stop_words")
    return Analyzer(encoder_options.get("language"), None if stop_words is None else tuple(stop_words))
