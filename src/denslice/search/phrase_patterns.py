"""Patterns that tell of most texts whether words follow each other in them, without taking the texts apart.

They know the rules by which `analysis/written_words.py` finds words, and say nothing where these are not simple: then
the text is split.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import regex

from denslice.analysis.normal_forms import normal_form
from denslice.analysis.written_words import written_words

# Letters whose normal form is that of casefolding, one by one: those of Latin-1, Latin Extended-A and Cyrillic, without
# the few that are made of two or that turn into a letter of ASCII.
_plain_letters = "À-ÖØ-öø-įıĴ-ľŁ-ňŊ-žЀ-ѿ"
_unusual = re.compile(rf"[^\x00-\x7f\xa0\xab\xbb\u2010-\u2027\u2030-\u205e{_plain_letters}]").search
_runs = re.compile(r"[^\W_]+").findall
# Between two words is what is no word: signs, and single letters, which an apostrophe or an identifier leaves out. As
# few as can be: behind a longer word, which no pattern passes over, there is no other way to go on. Where MOST are in
# a row, as in hardly any text, nothing is said, so that the time does not grow with the square of their number.
MOST = 16
_single = r"(?:[^\W_]|ss)[\W_]+"
_between = rf"[\W_]*(?:{_single}){{0,{MOST}}}?"
_has_more = re.compile(rf"(?<![^\W_])(?:{_single}){{{MOST}}}").search  # one more may be a part of the word before them
_may_have_humps = regex.compile(r"(?V1)[\p{Ll}\p{N}]\p{Lu}|\p{Lu}{2}\p{Ll}").search  # where capitals separate words
_unwritten = regex.compile(r"\p{Cf}").search  # what is removed may join what is around it
_inner_signs = re.compile(r"\S[.,]\S").search
_chunk_end = re.compile(r"\S*").match


@dataclass(frozen=True)
class PhrasePatterns:
    """What a text looks like that holds words in a row."""

    words: tuple[str, ...]
    runs: tuple[str, ...]  # of letters and digits, in all words
    row: Callable[..., re.Match[str] | None]  # finds the words in a casefolded text, also as parts of others
    signs: tuple[str, ...]  # without one of which no word is written as U.S. or 1,000
    is_prefix: bool  # the last word

    def verdict(self, text: str) -> bool | None:
        """Return whether a text holds the words, or None if it has to be split to know."""
        if not text.isascii() and _unusual(text):
            return self._unusual_verdict(text)
        folded = text.casefold()
        for sign in self.signs:
            if sign in folded:
                return None
        for run in self.runs:
            if run not in folded:
                return False
        found = self.row(folded) if self.runs else None  # no usual text holds an emoji
        while found is not None:
            if len(folded) != len(text) or self._is_apart(text, *found.span()):
                return self._is_written(text, folded, found)
            found = self.row(folded, found.start() + 1)
        return None if self.runs and _has_more(folded) else False

    def _unusual_verdict(self, text: str) -> bool | None:
        if not _unwritten(text):
            normal = normal_form(text)
            has_all = all(word in normal or word in text for word in self.words)  # an emoji is kept as it is
            if not has_all and not _inner_signs(normal):
                return False
        lower = text.lower()
        found = self.row(lower)
        return None if found is None else self._is_written(text, lower, found)

    def _is_apart(self, text: str, start: int, end: int) -> bool:
        """Return whether words may begin and end here, because of signs or capitals."""
        is_begun = start > 0 and text[start - 1].isalnum()
        is_cut = not self.is_prefix and text[end : end + 1].isalnum()
        return not (is_begun or is_cut) or _may_have_humps(text[max(0, start - 1) : end + 2]) is not None

    def _is_written(self, text: str, folded: str, found: re.Match[str]) -> bool | None:
        """Return True if each word was found between spaces, at most with signs, as nearly all are, or else None.

        What is between spaces has its words whatever is around it.
        """
        if len(folded) != len(text):  # they have different places
            return None
        start, end = found.span()
        while start and not text[start - 1].isspace():
            start -= 1
        chunks = text[start : _chunk_end(text, end).end()].split()  # type: ignore[union-attr]
        if len(chunks) != len(self.words):
            return None
        return all(map(self._is_alone, chunks, range(len(chunks)))) or None

    def _is_alone(self, chunk: str, at: int) -> bool:
        """Return whether the word at this place is all that a chunk between spaces holds."""
        forms, word = [one.form for one in written_words(chunk)], self.words[at]
        may_go_on = self.is_prefix and at == len(self.words) - 1
        return forms == [word] or (may_go_on and len(forms) == 1 and forms[0].startswith(word))


@lru_cache(1_024)
def phrase_patterns(words: tuple[str, ...], is_prefix: bool = False) -> PhrasePatterns:
    """Return the patterns of words in normal form, the last of which may be a prefix."""
    runs = [_runs(word) for word in words]
    return PhrasePatterns(
        words,
        tuple(run for some in runs for run in some),
        re.compile(_between.join(r"[\W_]*".join(some) for some in runs)).search,
        tuple(sign for word in words for sign in _signs_within(word)) + ((",",) if is_prefix else ()),
        is_prefix,
    )


def _signs_within(word: str) -> list[str]:
    """Return what a text has in which a word is written with full stops or commas that its normal form lacks."""
    if not word.isalnum() or len(word) == 1:
        return []
    if word.isdigit():
        return [f",{word[-3:]}"]
    return [f"{word[0]}.{word[1]}", *([f"ss.{word[2:3]}"] if word.startswith("ss") else [])]
