"""The vocabulary, which maps words to token ids: immutable pieces on disk, and an overlay while documents are added.

A piece is memory-mapped, so it opens in constant time. Ids continue from piece to piece and never change.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from denslice.errors import IndexFormatError, InputError
from denslice.store.container import Container
from denslice.store.files import damaged
from denslice.vectors import Array

ABSENT = -1
BLOCKS = 2_048  # of a piece, at most, whose first words are kept in memory
CACHED_LOOKUPS = 100_000  # that a Vocabulary caches before it clears the cache


class WordIds(Protocol):
    """All that an encoder asks of a vocabulary."""

    def find(self, word: str) -> int:
        """Return the word's token id, or ABSENT."""

    def place(self, word: str) -> int:
        """Return the word's token id: a growing vocabulary gives a new word the next one, a fixed one ABSENT."""

    def word(self, id: int) -> str:
        """Return the word that has this token id."""

    def __len__(self) -> int: ...


def word_arrays(words: Sequence[str]) -> dict[str, Array]:
    """Return the three arrays of a piece with these distinct words, which are in id order."""
    names = [encoded(word) for word in words]
    starts = np.cumsum([0, *map(len, names)], dtype=np.int64)
    order = sorted(range(len(names)), key=names.__getitem__)
    text = np.frombuffer(b"".join(names), dtype=np.uint8)
    return {"words": text, "starts": starts, "sorted": np.array(order, dtype=np.uint32)}


class Piece:
    """Some words of a vocabulary, in memory-mapped arrays. The word at position p has the token id base + p."""

    def __init__(self, base: int, words: Array, starts: Array, order: Array, path: Path) -> None:
        self.base = base
        self.path = path
        # Memoryviews: reading one number takes a third of the time that it takes with a numpy array.
        self._words = words.data  # UTF-8 of all words, in id order
        self._starts = starts.data  # (n + 1,) int64, the offset of each word
        self._order = order.data  # (n,) uint32, positions in byte order
        self._len = len(order)
        if len(starts) != len(order) + 1 or starts[-1] != len(words):
            raise damaged(path, f"{len(order):,} words in {len(words):,} bytes do not fit their starts")

    @classmethod
    def of(cls, container: Container, base: int) -> Piece:
        """Return the piece whose arrays a container holds."""
        words, starts = container.array("words", "uint8"), container.array("starts", "int64")
        return cls(base, words, starts, container.array("sorted", "uint32"), container.path)

    def __len__(self) -> int:
        return self._len

    @cached_property
    def letters(self) -> Array:
        """The UTF-8 of all words, in id order, as uint8. This and the other arrays are read-only."""
        return _read_only(self._words)

    @cached_property
    def starts(self) -> Array:
        """The offset of each word in the letters, and their end: (n + 1,) int64."""
        return _read_only(self._starts)

    @cached_property
    def order(self) -> Array:
        """The positions of the words in the order of their code points: (n,) uint32."""
        return _read_only(self._order)

    def find(self, word: bytes) -> int:
        """Return the word's position in this piece, or ABSENT."""
        step, firsts = self._blocks
        start = (bisect_right(firsts, word) - 1) * step
        end = min(start + step, self._len)
        if start < 0:
            return ABSENT
        rank = bisect_left(self._order, word, start, end, key=self._bytes)
        if rank == end or self._bytes(self._order[rank]) != word:
            return ABSENT
        return self._order[rank]

    @cached_property
    def _blocks(self) -> tuple[int, list[bytes]]:
        """How many words of the order make a block, and the first of each: they are compared without Python code."""
        step = -(-len(self) // BLOCKS) or 1
        return step, [self._bytes(position) for position in self._order[::step]]

    def word(self, position: int) -> str:
        """Return the word at a position."""
        try:
            return self._bytes(position).decode("utf-8", errors="surrogatepass")
        except UnicodeDecodeError as error:
            raise damaged(self.path, str(error)) from error

    def starting_with(self, prefix: bytes) -> Array:
        """Return the positions of the words that start with these bytes, in the order of the words."""
        size = len(prefix)

        def beginning(position: int) -> bytes:
            return self._bytes(position)[:size]

        first = bisect_left(self._order, prefix, key=beginning)
        return self.order[first : bisect_right(self._order, prefix, lo=first, key=beginning)]

    def words(self) -> list[str]:
        """Return all words in id order."""
        return [self.word(position) for position in range(len(self))]

    def _bytes(self, position: int) -> bytes:
        if position >= self._len:
            raise damaged(self.path, f"has no word {position:,}, which it lists")
        return bytes(self._words[self._starts[position] : self._starts[position + 1]])


class Vocabulary:
    """An immutable vocabulary of consecutive pieces.

    An id never changes, so a vocabulary that has grown from another may share its cache of lookups, `found`.
    """

    def __init__(self, pieces: Sequence[Piece] = (), found: dict[str, int] | None = None) -> None:
        self.pieces = tuple(pieces)
        self._bases = [piece.base for piece in self.pieces]
        self._len = 0
        for piece in self.pieces:
            if piece.base != self._len:
                raise IndexFormatError(f"a piece of the vocabulary begins at id {piece.base:,}, not {self._len:,}")
            self._len += len(piece)
        self.found = {} if found is None else found  # has the ids of later vocabularies too, and no absent words
        self._absent: dict[str, int] = {}

    def __len__(self) -> int:
        return self._len

    def find(self, word: str) -> int:
        """Return the word's token id, or ABSENT."""
        if not self.pieces:
            return ABSENT
        found = self.found.get(word, ABSENT)
        if found != ABSENT:
            return found if found < self._len else ABSENT
        if word in self._absent:
            return ABSENT
        id = self._search(word)
        cache = self._absent if id == ABSENT else self.found
        if len(cache) >= CACHED_LOOKUPS:
            cache.clear()
        cache[word] = id
        return id

    place = find  # this vocabulary does not grow

    def word(self, id: int) -> str:
        """Return the word that has this token id."""
        if not 0 <= id < self._len:
            raise InputError(f"no token {id}: the vocabulary has {self._len:,} words")
        piece = self.pieces[bisect_right(self._bases, id) - 1]
        return piece.word(id - piece.base)

    def remember(self, ids: Iterable[int]) -> None:
        """Read the words that have these token ids, so that they are found faster; an id that no word has is left out.

        To read a word takes a fraction of the time that it takes to find one.
        """
        if len(self.found) >= CACHED_LOOKUPS:
            self.found.clear()
        self.found.update((self.word(id), id) for id in ids if id < self._len)

    def count_starting_with(self, prefix: str) -> int:
        """Return how many words start with a prefix."""
        return sum(len(piece.starting_with(encoded(prefix))) for piece in self.pieces)

    def _search(self, word: str) -> int:
        name = encoded(word)
        found = ((piece, piece.find(name)) for piece in self.pieces)
        return next((piece.base + position for piece, position in found if position != ABSENT), ABSENT)


class Growth:
    """A vocabulary with the new words of documents that are being added.

    It holds only the words that were placed, so its memory grows with the new documents and not with the base.
    """

    def __init__(self, base: Vocabulary) -> None:
        self.base = base
        self.new_words: list[str] = []
        self._placed: dict[str, int] = {}
        self._has_placed_all = not len(base)  # then a word that was not placed is in no commit either

    def __len__(self) -> int:
        return len(self.base) + len(self.new_words)

    def find(self, word: str) -> int:
        """Return the word's token id, or ABSENT."""
        placed = self._placed.get(word)
        return self.base.find(word) if placed is None else placed

    def place(self, word: str) -> int:
        """Return the word's token id; a new word gets the next free one."""
        placed = self._placed.get(word)
        if placed is None:
            placed = ABSENT if self._has_placed_all else self.base.find(word)
            if placed == ABSENT:
                placed = len(self)
                self.new_words.append(word)
            self._placed[word] = placed
        return placed

    def go_on(self, base: Vocabulary) -> bool:
        """Grow from a later commit of the same index, and return whether its words have the ids that they have here.

        If not, nothing is changed.
        """
        known, new = len(self.base), self.new_words
        if len(base) != len(self) or any(base.word(known + at) != word for at, word in enumerate(new)):
            return False
        self.base, self.new_words = base, []
        return True

    def word(self, id: int) -> str:
        """Return the word that has this token id."""
        if id < len(self.base):
            return self.base.word(id)
        if id >= len(self):
            raise InputError(f"no token {id}: the vocabulary has {len(self):,} words")
        return self.new_words[id - len(self.base)]


def _read_only(numbers: memoryview) -> Array:
    array = np.asarray(numbers)
    array.setflags(write=False)
    return array


def encoded(word: str) -> bytes:
    """Return a word in UTF-8. JSON may hold half of a surrogate pair, which is kept as it is."""
    return word.encode("utf-8", errors="surrogatepass")
