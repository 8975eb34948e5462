"""The terms of many texts as flat arrays, from a table of the chunks between white space, each analysed once."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from denslice.analysis.analyzer import CACHED_WORDS, Analyzer
from denslice.vectors import Floats, Ints, spread

SIGNS = '.,;:!?()[]{}"'  # which change no word that they are beside
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
        numbers, chunks = self._numbers.setdefault(language, {}), text.split()
        try:
            return list(map(numbers.__getitem__, chunks))
        except KeyError:
            for chunk in dict.fromkeys(chunks):
                if chunk not in numbers:
                    numbers[chunk] = self._number(chunk, language, numbers)
            return list(map(numbers.__getitem__, chunks))

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
        """Return the number of a new chunk: that of its word, if signs before and after it are all that it has more."""
        word = chunk.strip(SIGNS)
        if word == chunk or not (word.isascii() and word.isalnum()):
            return self._add(chunk, language)
        if word not in numbers:
            numbers[word] = self._add(word, language)
        return numbers[word]

    def _add(self, chunk: str, language: str) -> int:
        """Analyse a chunk and return its number."""
        length = 0
        for form in self._analyzer.split(chunk):
            terms = self._analyzer.terms(form, language)
            if terms.stem is None:
                continue
            self._place(f"{FORM}{form}")
            for term in terms.terms:
                self._ids.append(self._place(term.token))
                self._weights.append(term.in_docs)
            self._hashes.append(stem_hash(terms.stem))
            length += terms.length
        self._starts.append(len(self._ids))
        self._word_starts.append(len(self._hashes))
        self._lengths.append(length)
        return len(self._lengths) - 1

    def _clear(self) -> None:
        self._numbers: dict[str, dict[str, int]] = {}  # by language
        self._starts, self._word_starts = array("q", [0]), array("q", [0])
        self._ids, self._weights, self._hashes, self._lengths = array("i"), array("f"), array("Q"), array("i")


def stem_hash(stem: str) -> int:
    """Return the hash of a stem, from which those of phrases are made."""
    return crc32(stem.encode("utf-8", errors="surrogatepass"))


def flat(rows: Sequence[Sequence[int]]) -> tuple[Numbers, Numbers]:
    """Return all numbers in one array, and the row of each."""
    sizes = [len(row) for row in rows]
    numbers = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=sum(sizes))
    return numbers, np.repeat(np.arange(len(rows), dtype=np.int32), sizes)
