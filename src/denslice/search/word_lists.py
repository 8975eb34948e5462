"""The words of a collection, by prefix and by spelling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from denslice.store.vocabulary import Piece

TWO_EDITS = 8  # letters of a word from which on two edits are allowed


class WordList(Protocol):
    """The words of a collection."""

    def starting_with(self, prefix: str, limit: int | None = None) -> Sequence[str]:
        """Return the words that begin with the prefix, at most so many."""

    def within(self, word: str, distance: int) -> Sequence[tuple[str, int]]:
        """Return the words within this edit distance, each with its own."""


def like(kind: str, word: str, words: WordList) -> list[str]:
    """Return the words of a collection that a prefix or a fuzzy word stands for."""
    if kind == "prefix":
        return list(words.starting_with(word))
    if kind != "fuzzy":
        return []
    near = words.within(word, 2 if len(word) >= TWO_EDITS else 1)
    return [found for found, _ in near if not found.startswith("+")]  # which are the names of hashed phrases


class PlainWords:
    """The words of a vocabulary, read one by one."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces

    def starting_with(self, prefix: str, limit: int | None = None) -> list[str]:
        """Return the words that begin with the prefix, at most so many."""
        return sorted(word for word in self._words() if word.startswith(prefix))[:limit]

    def within(self, word: str, distance: int) -> list[tuple[str, int]]:
        """Return the words within this edit distance, each with its own."""
        near = (one for one in self._words() if abs(len(one) - len(word)) <= distance)
        return sorted((one, far) for one in near if (far := _distance(one, word)) <= distance)

    def _words(self) -> Iterator[str]:
        return (word for piece in self._pieces for word in piece.words())


def _distance(one: str, other: str) -> int:
    """Return how many letters are inserted, deleted, replaced or swapped with their neighbour."""
    older, last = [0] * (len(other) + 1), list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != wanted)))
            if i > 1 and j > 1 and one[i - 2 : i] == other[j - 1] + other[j - 2]:
                row[j] = min(row[j], older[j - 2] + 1)
        older, last = last, row
    return last[-1]
