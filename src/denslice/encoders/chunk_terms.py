"""The terms of many texts as flat arrays, from a table of the chunks between white space, each analysed once."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from denslice.analysis.analyzer import CACHED_WORDS, Analyzer
from denslice.analysis.written_words import written_words
from denslice.vectors import Floats, Ints, spread

SIGNS = '.,;:!?()[]{}"'  # which change no word that they are beside
_spaces = "".join(" " if char in '()[]{}"!?;' else char for char in map(chr, range(128)))  # for translate
_are_plain = re.compile(r"(?:[A-Z]?[a-z0-9]+|[A-Z0-9]+)(?:[-/](?:[A-Z]?[a-z0-9]+|[A-Z0-9]+))*").fullmatch
FORM = "="  # before a word in normal form, as the vocabulary lists it for prefixes and misspelt words
Numbers = npt.NDArray[np.int32]


class BatchTerms(NamedTuple):
    """The terms of a batch of texts, and the text of each."""

    ids: Numbers
    weights: Floats
    texts: Numbers


class ChunkTerms:
    """What chunks count for, by number: token ids with weights, the hashes of their stems, and their length in words.

    The vocabulary takes in new tokens, and the forms of words, when a chunk is first seen.
    """

    def __init__(self, analyzer: Analyzer, place: Callable[[str], int]) -> None:
        self._analyzer = analyzer
        self._place = place
        self._clear()

    def numbered(self, text: str, language: str) -> list[int]:
        """Return the numbers of the chunks of a text in a language."""
        if not text:
            return []
        numbers, chunks = self._numbers.setdefault(language, {}), without_signs(text).split()
        found: list[Any] = list(map(numbers.get, chunks))
        at = 0
        for _ in range(found.count(None)):
            at = found.index(None, at)
            chunk = chunks[at]
            if chunk not in numbers:  # it may be new twice
                numbers[chunk] = self._number(chunk, language, numbers)
            found[at] = numbers[chunk]
        return found

    def forget(self) -> None:
        """Forget all chunks if there are very many; numbers that were returned before are no longer valid."""
        if len(self._lengths) > CACHED_WORDS or len(self._ids) > 4 * CACHED_WORDS:
            self._clear()

    def terms(self, chunks: Numbers, texts: Numbers) -> BatchTerms:
        """Return the terms of numbered chunks, given the text of each chunk."""
        starts = np.array(self._starts, np.int64)
        begins, ends = starts[chunks], starts[chunks + 1]
        at = spread(begins, ends)
        ids, weights = np.array(self._ids, np.int32), np.array(self._weights, np.float32)
        return BatchTerms(ids[at], weights[at], np.repeat(texts, ends - begins))

    def lengths(self, chunks: Numbers, texts: Numbers, count: int) -> Ints:
        """Return the lengths of so many texts, in parts of WHOLE_WORD, given the text of each chunk."""
        return np.bincount(texts, np.array(self._lengths)[chunks], minlength=count).astype(np.int64)

    def hashes(self, chunks: Sequence[int]) -> npt.NDArray[np.uint64]:
        """Return the hashes of the stems of chunks in their order, without stop words."""
        starts, hashes = self._word_starts, self._hashes
        found = (hashes[starts[chunk] : starts[chunk + 1]] for chunk in chunks)
        return np.fromiter(chain.from_iterable(found), np.uint64)

    def _number(self, chunk: str, language: str, numbers: dict[str, int]) -> int:
        """Return the number of a new chunk, which is that of its words in lower case if they are plain."""
        words = plain_words(chunk)
        if words is None:
            return self._joined([word.form for word in written_words(chunk)], language)
        if words not in numbers:
            numbers[words] = self._joined(words.replace("/", "-").split("-"), language)
        return numbers[words]

    def _joined(self, forms: Sequence[str], language: str) -> int:
        """Return the number of a chunk with these words: that of its word if there is one, or a new one."""
        known = self._words.setdefault(language, {})
        for form in forms:
            if form not in known:
                known[form] = self._add(form, language)
        if len(forms) == 1:
            return known[forms[0]]
        for number in map(known.__getitem__, forms):
            terms = slice(self._starts[number], self._starts[number + 1])
            words = slice(self._word_starts[number], self._word_starts[number + 1])
            self._ids.extend(self._ids[terms])
            self._weights.extend(self._weights[terms])
            self._hashes.extend(self._hashes[words])
        return self._close(sum(self._lengths[known[form]] for form in forms))

    def _add(self, form: str, language: str) -> int:
        """Add a word and return its number as a chunk. No objects are kept, which the garbage collector would visit."""
        terms = self._analyzer.new_terms(form, language)
        if terms.terms:
            self._place(FORM + form)
            self._hashes.append(stem_hash(terms.terms[0].token))
        for token, weight, _ in terms.terms:
            self._ids.append(self._place(token))
            self._weights.append(weight)
        return self._close(terms.length)

    def _close(self, length: int) -> int:
        """End a chunk and return its number."""
        self._starts.append(len(self._ids))
        self._word_starts.append(len(self._hashes))
        self._lengths.append(length)
        return len(self._lengths) - 1

    def _clear(self) -> None:
        self._numbers: dict[str, dict[str, int]] = {}  # of chunks, by language
        self._words: dict[str, dict[str, int]] = {}  # of words in normal form
        self._starts, self._word_starts = array("q", [0]), array("q", [0])
        self._ids, self._weights, self._hashes, self._lengths = array("i"), array("f"), array("Q"), array("i")


def without_signs(text: str) -> str:
    """Return a text without most signs between words, so that it has fewer different chunks, and the same words."""
    if text.isascii() and "://" not in text and "www." not in text:
        text = text.translate(_spaces)
    return text.replace(", ", " ").replace(". ", " ")


def plain_words(chunk: str) -> str | None:
    """Return the words of a chunk in lower case, with what is between them, or None if they are not plain.

    Most chunks are plain: they are analysed without patterns, and once for all ways to write them.
    """
    words = chunk.strip(SIGNS)
    if words.endswith(("'s", "’s")) and words[-3:-2].isalpha():
        words = words[:-2]
    return words.lower() if _are_plain(words) else None


def stem_hash(stem: str) -> int:
    """Return the hash of a stem, from which those of phrases are made."""
    return crc32(stem.encode("utf-8", errors="surrogatepass"))


def flat(rows: Sequence[Sequence[int]]) -> tuple[Numbers, Numbers]:
    """Return all numbers in one array, and the row of each."""
    sizes = [len(row) for row in rows]
    numbers = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=sum(sizes))
    return numbers, np.repeat(np.arange(len(rows), dtype=np.int32), sizes)
