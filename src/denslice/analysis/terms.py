"""The terms of a word: the tokens under which it is stored and searched, with their weights.

A word counts by its stem without accents. One with accents is also stored as written, so that the exact word ranks
first: the weights are such that a word finds itself with weight 1 and its other spellings with less. In languages other
than English, which inflect more, a longer word counts a little by its first letters too. A pair of Han characters,
kana or Hangul counts by each of the two as well.
"""

from __future__ import annotations

from typing import NamedTuple

import regex

from denslice.analysis.languages import ENGLISH, STEMMERS, language_of_word, stemmer
from denslice.analysis.normal_forms import without_accents
from denslice.analysis.scripts import PAIR, ngram_size

OTHER_SPELLING = 0.6  # what a word counts under its spelling without accents, in a document and in a query
BEGINNING = 4  # letters
BEGINNING_WEIGHT = 0.3  # of the first letters in a query, where the stem has weight 1
SINGLE_WEIGHT = 0.25  # of each character of a pair: one within a run is in two pairs
WHOLE_WORD = 20  # the length of a word; lengths are whole numbers, so that their sums are exact
PAIR_LENGTH, TRIPLE_LENGTH = WHOLE_WORD // 2, WHOLE_WORD // 4
OTHER_LENGTH = 3 * WHOLE_WORD // 5  # of a word where stop words count too, as in languages other than English
_english_stem = stemmer(ENGLISH)
_is_compound = regex.compile(r"[\p{P}\p{S}]").search


class TokenWeights(NamedTuple):
    """A token of a word, how much it counts in a document, and its weight in a query."""

    token: str
    in_docs: float = 1.0
    in_queries: float = 1.0


class WordTerms(NamedTuple):
    """The terms of a word, the first of them its stem, and what the word counts for in the length of a text."""

    terms: tuple[TokenWeights, ...]
    length: int  # in parts of WHOLE_WORD

    @property
    def stem(self) -> str | None:
        """The stem, or None for a stop word."""
        return self.terms[0].token if self.terms else None


STOP_WORD = WordTerms((), 0)


def word_terms(form: str, language: str) -> WordTerms:
    """Return the terms of a word in normal form, in a text of a language."""
    if language == ENGLISH and form.isascii() and form.isalnum():  # quick, and true of most words
        return WordTerms((TokenWeights(_english_stem(form)),), WHOLE_WORD if len(form) > 1 else 0)
    if size := ngram_size(form):
        return _ngram_terms(form, size)
    if _is_compound(form):
        return WordTerms((TokenWeights(form),), 0)  # its parts count for the length
    own = language_of_word(form, language)
    stem = stemmer(own)(form) if own else form
    spellings = _spellings(form, stem)
    if own == ENGLISH or own in STEMMERS:
        return WordTerms(spellings, WHOLE_WORD if len(form) > 1 else 0)
    return WordTerms((*spellings, *_beginning(form)), OTHER_LENGTH)


def _ngram_terms(form: str, size: int) -> WordTerms:
    if size != PAIR:
        return WordTerms((TokenWeights(form),), TRIPLE_LENGTH)
    singles = [TokenWeights(char, SINGLE_WEIGHT, SINGLE_WEIGHT) for char in form] if len(form) == PAIR else []
    return WordTerms((TokenWeights(form), *singles), PAIR_LENGTH)


def _spellings(form: str, stem: str) -> tuple[TokenWeights, ...]:
    """Return the stem without accents and, if the word has accents, with them."""
    bare = without_accents(stem)
    if form.isascii():
        return (TokenWeights(bare),)
    exact = form[: len(bare)] if without_accents(form[: len(bare)]) == bare else stem  # a stemmer may remove accents
    if exact == bare:
        return (TokenWeights(bare),)
    return TokenWeights(bare, OTHER_SPELLING, OTHER_SPELLING), TokenWeights(exact, 1.0, 1 - OTHER_SPELLING**2)


def _beginning(form: str) -> tuple[TokenWeights, ...]:
    bare = without_accents(form)
    return (TokenWeights(f"{bare[:BEGINNING]}*", 1.0, BEGINNING_WEIGHT),) if len(bare) > BEGINNING else ()
