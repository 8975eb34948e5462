"""Patterns that tell of most texts whether words follow each other in them, without taking the texts apart.

They know the rules by which `analysis/written_words.py` finds words, and say nothing where these are not simple: then
the text is split.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import regex

from denslice.analysis.normal_forms import normal_form
from denslice.analysis.written_words import written_words

# Letters whose normal form is that of casefolding, one by one: those of Latin-1, Latin Extended-A and Russian, without
# the few that are made of two or that turn into a letter of ASCII.
_plain_letters = "À-ÖØ-öø-įıĴ-ľŁ-ňŊ-žЀ-ѿ"
_folded = f"a-z0-9{_plain_letters}"
_unusual = re.compile(rf"[^\x00-\x7f\xa0\xab\xbb\u2010-\u2027\u2030-\u205e{_plain_letters}]").search
_runs = re.compile(f"[{_folded}]+").findall
# Between two words is what is no word: signs, and single letters, which an apostrophe or an identifier leaves out.
_between = f"[^{_folded}]*(?:(?:[{_folded}]|ss)[^{_folded}]+)*"
_apart = f"[^{_folded}]+(?:(?:[{_folded}]|ss)[^{_folded}]+)*"
_may_have_humps = regex.compile(r"(?V1)[\p{Ll}\p{N}]\p{Lu}|\p{Lu}{2}\p{Ll}").search  # where capitals separate words
_unwritten = regex.compile(r"\p{Cf}").search  # what is removed may join what is around it
_inner_signs = re.compile(r"\S[.,]\S").search
Search = Callable[[str], object]
END_SIGNS = ".,;:!?"


@dataclass(frozen=True)
class PhrasePatterns:
    """What a text looks like that holds words in a row."""

    words: tuple[str, ...]
    holds: Search  # true only of texts that hold them
    may_hold: Search  # in a casefolded text of usual letters: false only if it does not hold them
    is_apart: Search  # likewise, if no capitals separate words
    signs: tuple[str, ...]  # without one of which no word is written as U.S. or 1,000

    def verdict(self, text: str) -> bool | None:
        """Return whether a text holds the words, or None if it has to be split to know."""
        if not text.isascii() and _unusual(text):
            return self._unusual_verdict(text)
        folded = text.casefold()
        if self.may_hold(folded):
            if self.holds(text):
                return True
            if self.is_apart(folded) or _may_have_humps(text):
                return None
        return None if any(sign in folded for sign in self.signs) else False

    def _unusual_verdict(self, text: str) -> bool | None:
        if not _unwritten(text):
            normal = normal_form(text)
            has_all = all(word in normal or word in text for word in self.words)  # an emoji is kept as it is
            if not has_all and not _inner_signs(normal):
                return False
        return True if self.holds(text) else None


@lru_cache(1_024)
def phrase_patterns(words: tuple[str, ...], is_prefix: bool = False) -> PhrasePatterns:
    """Return the patterns of words in normal form, the last of which may be a prefix."""
    runs = [[re.escape(run) for run in _runs(word)] for word in words]
    within = f"[^{_folded}]*"
    may_hold = _between.join(within.join(some) for some in runs)
    return PhrasePatterns(
        words,
        _certain_pattern(words, is_prefix),
        re.compile(may_hold).search,
        re.compile(_apart_pattern(runs, is_prefix)).search,
        tuple(sign for word in words for sign in _signs_within(word)) + ((",",) if is_prefix else ()),
    )


def _apart_pattern(runs: Sequence[Sequence[str]], is_prefix: bool) -> str:
    """Return the pattern of words, given their runs of letters, between which there are signs."""
    words = [f"[^{_folded}]*".join(some) for some in runs if some]
    if not words or not all(runs):
        return ""
    first = runs[0][0]  # a pattern that begins with letters is found faster than one that looks behind itself
    begin = f"{first}(?<![{_folded}]{first}){words[0][len(first) :]}"
    end = "" if is_prefix else f"(?![{_folded}])"
    return _apart.join([begin, *words[1:]]) + end


def _certain_pattern(words: Sequence[str], is_prefix: bool) -> Search:
    """Return a search that finds the words with nothing but spaces between them, as nearly all phrases are written."""
    written = [[form for form in _ways_to_write(word) if _is_one_word(form, word)] for word in words]
    if is_prefix or not all(written):
        return lambda text: None
    ways = r"\s+".join(f"(?:{'|'.join(some)})" for some in written)
    return re.compile(rf"(?<!\S){ways}[{END_SIGNS}]?(?!\S)").search


def _ways_to_write(word: str) -> list[str]:
    return list(dict.fromkeys([word, word.capitalize(), word.upper()])) if word.isascii() and word.isalnum() else []


def _is_one_word(written: str, word: str) -> bool:
    """Return whether a chunk between spaces is this word and no other, also before a sign."""
    chunks = (written, *(f"{written}{sign}" for sign in END_SIGNS))
    return all(written_words(chunk) == [(word, 0, len(written))] for chunk in chunks)


def _signs_within(word: str) -> list[str]:
    """Return what a text has in which a word is written with full stops or commas that its normal form lacks."""
    if not word.isalnum() or len(word) == 1:
        return []
    if word.isdigit():
        return [f",{word[-3:]}"]
    return [f"{word[0]}.{word[1]}", *([f"ss.{word[2:3]}"] if word.startswith("ss") else [])]
