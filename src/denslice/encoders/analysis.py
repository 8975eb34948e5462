"""The analyzer, which turns a text into words: it lowers case, splits, removes stop words and stems.

The words are those of bm25s by default, and character bigrams for scripts without spaces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import Stemmer

from denslice.errors import InputError

STEMMERS: dict[str, Callable[[str], str]] = {"none": str}  # by language, beside those of Snowball
CACHED_WORDS = 1_000_000  # distinct words that a cache holds before it is cleared

# fmt: off
LUCENE_ENGLISH = (
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
)
# fmt: on

# Han, kana and Hangul, with their extensions and half-width forms.
_CJK = (
    "\u3005-\u3007\u3041-\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_has_cjk = re.compile(f"[{_CJK}]").search
_words = re.compile(r"\b\w\w+\b")
_has_letter = re.compile(r"[^\W_]").search
_ascii_or_space = "".join(char if char.isalnum() or char == "_" else " " for char in map(chr, range(128)))
_words_or_cjk = re.compile(rf"[{_CJK}]+|[^\W{_CJK}]{{2,}}")

Cached = TypeVar("Cached")


class WordCache(dict[str, Cached]):
    """A cache of a function of a word: a dict that computes missing values, and is cleared when it is full."""

    def __init__(self, compute: Callable[[str], Cached]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, word: str) -> Cached:
        if len(self) >= CACHED_WORDS:
            self.clear()
        value = self[word] = self._compute(word)
        return value


@dataclass(frozen=True)
class Analyzer:
    """The stemmer of a language and stop words: by default Lucene's 33 for English and none for other languages."""

    language: str = "english"
    stop_words: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        known = [*Stemmer.algorithms(), *STEMMERS]
        if self.language not in known:
            raise InputError(f"language {self.language!r} is not known; choose one of {', '.join(known)}")
        words = () if self.stop_words is None else self.stop_words
        if not isinstance(words, tuple) or not all(isinstance(word, str) for word in words):
            raise InputError(f"stop_words is {self.stop_words!r}, expected a tuple of words")

    def words(self, text: str) -> list[str]:
        """Return the text's words in order, stemmed, without stop words."""
        return [stem for stem in self.stems(self.split(text)) if stem is not None]

    def stems(self, words: Iterable[str]) -> Iterator[str | None]:
        """Return the stem of each word that `split` returned, or None for a stop word."""
        return map(self._stems.__getitem__, words)

    def split(self, text: str) -> list[str]:
        """Return the text's words in order, in lower case, unstemmed, stop words included."""
        text = text.lower()
        if text.isascii():  # the same as _words, in half the time
            return [word for word in text.translate(_ascii_or_space).split() if len(word) > 1]
        if _has_cjk(text):
            return [part for run in _words_or_cjk.findall(text) for part in _pairs(run)]
        return list(_words.findall(text))

    def spans(self, text: str) -> list[tuple[str, int, int]]:
        """Return the words that `split` returns for a text in lower case, each with its start and end."""
        if _has_cjk(text):
            runs = ((run.group(), run.start()) for run in _words_or_cjk.finditer(text))
            return [(part, at + i, at + i + len(part)) for run, at in runs for i, part in enumerate(_pairs(run))]
        return [(word.group(), word.start(), word.end()) for word in _words.finditer(text)]

    def stem(self, word: str) -> str | None:
        """Return the stem of a word that `split` returned, or None for a stop word."""
        return None if word in self._stops else self._stemmer(word)

    @cached_property
    def _stops(self) -> frozenset[str]:
        if self.stop_words is not None:
            return frozenset(word.lower() for word in self.stop_words)
        return frozenset(LUCENE_ENGLISH if self.language == "english" else ())

    @cached_property
    def _stemmer(self) -> Callable[[str], str]:
        if self.language in STEMMERS:
            return STEMMERS[self.language]
        snowball: Callable[[str], str] = Stemmer.Stemmer(self.language, 0).stemWord  # 0: without its own cache
        return snowball

    @cached_property
    def _stems(self) -> WordCache[str | None]:
        return WordCache(self.stem)


def has_words(text: str) -> bool:
    """Return whether a text has a letter, a digit or a symbol such as an emoji, and not only punctuation and space."""
    if _has_letter(text):
        return True
    return not text.isascii() and any(unicodedata.category(char) == "So" for char in text)


def well_formed(text: str) -> str:
    """Return the text with a question mark for each half of a surrogate pair, which tokenizers refuse."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _pairs(run: str) -> list[str]:
    if len(run) == 1 or not _has_cjk(run):
        return [run]
    return [run[at : at + 2] for at in range(len(run) - 1)]
