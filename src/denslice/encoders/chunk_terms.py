"""The terms of many texts as flat arrays, from a table of the chunks between white space, each analysed once."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from denslice.analysis.analyzer import CACHED_WORDS, Analyzer
from denslice.analysis.written_words import written_words
from denslice.vectors import Floats, Ints, spread

if TYPE_CHECKING:
    from denslice.encoders.chunk_scan import ChunkTable

SIGNS = '.,;:!?()[]{}"'  # which change no word that they are beside
AROUND = f"{SIGNS}-/*'‘’“”–—"  # which change no plain word
_spaces = "".join(" " if char in '()[]{}"!?;' else char for char in map(chr, range(128)))  # for translate
_are_plain = re.compile(r"(?:[A-Z]?[a-z0-9]+|[A-Z0-9]+)(?:[-/](?:[A-Z]?[a-z0-9]+|[A-Z0-9]+))*").fullmatch
FORM = "="  # before a word in normal form, as the vocabulary lists it for prefixes and misspelt words
Numbers = npt.NDArray[np.int32]


class BatchChunks(NamedTuple):
    """The numbers of the chunks of many fields, and the row of each, which is the number of its field."""

    numbers: Numbers
    rows: Numbers


class BatchTerms(NamedTuple):
    """The terms of many fields, and the row of each."""

    ids: Numbers
    weights: Floats
    rows: Numbers


class ChunkTerms:
    """What chunks count for, by number: token ids with weights, the hashes of their stems, and their length in words.

    The vocabulary takes in new tokens, and the forms of words, when a chunk is first seen.
    """

    def __init__(self, analyzer: Analyzer, place: Callable[[str], int], has_phrases: bool) -> None:
        self._analyzer = analyzer
        self._place = place
        self._has_phrases = has_phrases  # if not, the hashes of stems are not kept
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

    def scanned(self, fields: Sequence[str], language: str) -> BatchChunks:
        """Return the numbers of the chunks of fields in a language as `numbered` does, by compiled loops."""
        from denslice.encoders.chunk_scan import ChunkTable

        known, numbers = self._numbers.setdefault(language, {}), self._scanned.setdefault(language, array("i"))
        if language not in self._tables:
            self._tables[language] = ChunkTable()
        found = self._tables[language].scan(fields)
        for chunk in found.new:
            if chunk not in known:
                known[chunk] = self._number(chunk, language, known)
            numbers.append(known[chunk])
        return BatchChunks(np.asarray(numbers)[found.numbers], found.rows)

    def forget(self) -> None:
        """Forget all chunks if there are very many; numbers that were returned before are no longer valid."""
        if len(self._lengths) > CACHED_WORDS or len(self._ids) > 4 * CACHED_WORDS:
            self._clear()

    def terms(self, chunks: BatchChunks) -> BatchTerms:
        """Return the terms of numbered chunks."""
        starts = np.array(self._starts, np.int64)
        begins, ends = starts[chunks.numbers], starts[chunks.numbers + 1]
        at = spread(begins, ends)
        ids, weights = np.array(self._ids, np.int32), np.array(self._weights, np.float32)
        return BatchTerms(ids[at], weights[at], np.repeat(chunks.rows, ends - begins))

    def lengths(self, chunks: BatchChunks, rows: int) -> Ints:
        """Return the lengths of so many fields, in parts of WHOLE_WORD."""
        return np.bincount(chunks.rows, np.array(self._lengths)[chunks.numbers], minlength=rows).astype(np.int64)

    def hashes(self, chunks: Sequence[int]) -> npt.NDArray[np.uint64]:
        """Return the hashes of the stems of chunks in their order, without stop words."""
        starts, hashes = self._word_starts, self._hashes
        found = (hashes[starts[chunk] : starts[chunk + 1]] for chunk in chunks)
        return np.fromiter(chain.from_iterable(found), np.uint64)

    def all_hashes(self, chunks: Numbers) -> tuple[npt.NDArray[np.uint64], Ints]:
        """Return the hashes of the stems of many chunks in their order, without stop words, and how many each has."""
        starts = np.array(self._word_starts, np.int64)
        begins, ends = starts[chunks], starts[chunks + 1]
        return np.array(self._hashes, np.uint64)[spread(begins, ends)], ends - begins

    def _number(self, chunk: str, language: str, numbers: dict[str, int]) -> int:
        """Return the number of a new chunk, which is that of its words in lower case if they are plain."""
        words = plain_words(chunk)
        if words is None:
            return self._joined([word.form for word in written_words(chunk)], language)
        if words.isalnum():
            return self._joined((words,), language)
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
        words = [known[form] for form in forms]
        for word in words:
            self._repeat(word)
        return self._close(sum(self._lengths[word] for word in words))

    def _repeat(self, word: int) -> None:
        """Give the chunk that is being added the terms of a word too."""
        for at in range(self._starts[word], self._starts[word + 1]):
            self._ids.append(self._ids[at])
            self._weights.append(self._weights[at])
        for at in range(self._word_starts[word], self._word_starts[word + 1]):
            self._hashes.append(self._hashes[at])

    def _add(self, form: str, language: str) -> int:
        """Add a word and return its number as a chunk. No objects are kept, which the garbage collector would visit."""
        terms = self._analyzer.new_terms(form, language)
        if terms.terms:
            self._place(FORM + form)
            if self._has_phrases:
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
        self._tables: dict[str, ChunkTable] = {}  # of chunks that were scanned, by language
        self._scanned: dict[str, array[int]] = {}  # the number of each of these
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
    words = chunk.strip(AROUND)
    if words.endswith(("'s", "’s")) and words[-3:-2].isalpha() and words[-4:-3].isalnum():  # no single letter
        words = words[:-2]
    return words.lower() if _are_plain(words) else None


def stem_hash(stem: str) -> int:
    """Return the hash of a stem, from which those of phrases are made."""
    return crc32(stem.encode("utf-8", errors="surrogatepass"))


def flat(rows: Sequence[Sequence[int]]) -> BatchChunks:
    """Return the numbers of all rows in one array, and the row of each."""
    sizes = [len(row) for row in rows]
    numbers = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=sum(sizes))
    return BatchChunks(numbers, np.repeat(np.arange(len(rows), dtype=np.int32), sizes))
