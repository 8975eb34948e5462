"""The analyzer: it turns a text into words, and words into the terms under which they are stored and searched."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import regex

from denslice.analysis.languages import ENGLISH, language_named
from denslice.analysis.normal_forms import normal_form
from denslice.analysis.recogniser import recognised
from denslice.analysis.stop_words import ENGLISH_STOP_WORDS
from denslice.analysis.terms import STOP_WORD, WordTerms, word_terms
from denslice.analysis.written_words import WrittenWord, written_words
from denslice.errors import InputError

ANALYSIS = 2  # the version of the analysis, which every index keeps
CACHED_WORDS = 1_000_000  # distinct words that a cache holds before it is cleared
LONGEST_CACHED = 40  # characters; text without spaces makes longer ones, which hardly occur twice
_has_word = regex.compile(r"[\p{L}\p{N}\p{So}\p{Emoji_Presentation}]").search
_english_stops = frozenset(ENGLISH_STOP_WORDS)
_chunks = re.compile(r"\S+")  # those of str.split

Cached = TypeVar("Cached")


class WordCache(dict[str, Cached]):
    """A cache of a function of a word: a dict that computes missing values, and is cleared when it is full."""

    def __init__(self, compute: Callable[[str], Cached]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, word: str) -> Cached:
        value = self._compute(word)
        if len(word) <= LONGEST_CACHED:
            if len(self) >= CACHED_WORDS:
                self.clear()
            self[word] = value
        return value


class AnalyzedWord(NamedTuple):
    """A word of a text: its normal form, where it is, and its terms."""

    form: str
    start: int
    end: int
    terms: WordTerms


@dataclass(frozen=True)
class Analyzer:
    """The analysis of one index: its language, or None to recognise that of each text, and its stop words.

    The stop words are by default 34 English ones, in English texts.
    """

    language: str | None = None
    stop_words: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.language is not None:
            object.__setattr__(self, "language", language_named(self.language))
        words = () if self.stop_words is None else self.stop_words
        if not isinstance(words, tuple) or not all(isinstance(word, str) for word in words):
            raise InputError(f"stop_words is {self.stop_words!r}, expected a tuple of words")

    def language_of(self, text: str) -> str:
        """Return the language in which a text is analysed."""
        return self.language or recognised(text)

    def split(self, text: str) -> list[str]:
        """Return the text's words in order, in normal form, unstemmed, stop words included."""
        return [word.form for chunk in text.split() for word in self._written[chunk]]

    def spans(self, text: str) -> list[tuple[str, int, int]]:
        """Return the words that `split` returns, each with its start and end."""
        found = ((chunk.start(), self._written[chunk.group()]) for chunk in _chunks.finditer(text))
        return [(word.form, at + word.start, at + word.end) for at, words in found for word in words]

    def analyzed(self, text: str, language: str) -> Iterator[AnalyzedWord]:
        """Yield the words of a text in a language with their places and terms."""
        return (AnalyzedWord(*span, self.terms(span[0], language)) for span in self.spans(text))

    def new_terms(self, form: str, language: str) -> WordTerms:
        """Return the terms of a word in normal form, without a cache."""
        return STOP_WORD if form in self._stops(language) else word_terms(form, language)

    def terms(self, form: str, language: str) -> WordTerms:
        """Return the terms of a word in normal form: none for a stop word."""
        return self.terms_in(language)[form]

    def stem(self, form: str, language: str | None = None) -> str | None:
        """Return the stem of a word in normal form, or None for a stop word."""
        return self.terms(form, language or self.language or ENGLISH).stem

    def words(self, text: str, language: str | None = None) -> list[str]:
        """Return the text's stems in order, without stop words."""
        terms = self.terms_in(language or self.language_of(text))
        stems = (terms[form].stem for form in self.split(text))
        return [stem for stem in stems if stem is not None]

    def terms_in(self, language: str) -> WordCache[WordTerms]:
        """Return the terms of words in normal form, by word."""
        if language not in self._caches:
            stops = self._stops(language)
            self._caches[language] = WordCache(lambda form: STOP_WORD if form in stops else word_terms(form, language))
        return self._caches[language]

    def _stops(self, language: str) -> frozenset[str]:
        if self.stop_words is not None:
            return self._own_stops
        return _english_stops if language == ENGLISH else frozenset()

    @cached_property
    def _own_stops(self) -> frozenset[str]:
        return frozenset(map(normal_form, self.stop_words or ()))

    @cached_property
    def _written(self) -> WordCache[list[WrittenWord]]:
        return WordCache(written_words)

    @cached_property
    def _caches(self) -> dict[str, WordCache[WordTerms]]:
        return {}


def has_words(text: str) -> bool:
    """Return whether a text has a letter, a digit or a symbol such as an emoji, and not only punctuation and space."""
    return _has_word(text) is not None
