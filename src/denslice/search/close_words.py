"""The words of a vocabulary that are close to a misspelt word, and those that begin with a prefix.

Most words are ruled out by the signatures of their letters, the others by the edit distance itself: no word within the
distance is missed. Prefixes need no index of their own, because a piece has the order of its words.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from denslice.errors import InputError
from denslice.search.edit_distance import edit_distance, rows_for
from denslice.search.letter_signatures import LetterSignatures, signature_of
from denslice.store.vocabulary import Piece
from denslice.vectors import Ints

ONE_EDIT, TWO_EDITS = 4, 8  # code points of a word from which on so many edits are allowed
SMALL_VOCABULARY = 1 << 13  # words up to which a vocabulary is searched without compiled code


class CloseWord(NamedTuple):
    """A word of the vocabulary, and its edit distance from the word that was asked for."""

    word: str
    distance: int


def allowed_distance(word: str) -> int:
    """Return how many edits a word may be away from the one that was meant: 0, 1 or 2, by its length."""
    return (len(word) >= ONE_EDIT) + (len(word) >= TWO_EDITS)


class CloseWords:
    """Finds words of a vocabulary by edit distance and by prefix, from any number of threads.

    The signatures of a piece are made at the first search by distance, and then kept.
    """

    def __init__(self, pieces: Sequence[Piece], known: dict[tuple[Path, int, int], LetterSignatures]) -> None:
        self.pieces = tuple(piece for piece in pieces if len(piece))
        self._words = sum(map(len, self.pieces))
        self._known = known

    @classmethod
    def of(cls, pieces: Sequence[Piece], before: CloseWords | None = None) -> CloseWords:
        """Return the close words of these pieces.

        `before` are those of an earlier commit of the same index, whose signatures are used again.
        """
        known = {key: made for key in map(_key, pieces) if before and (made := before._known.get(key))}
        return cls(pieces, known)

    def within(self, word: str, distance: int) -> list[CloseWord]:
        """Return every word within this Damerau-Levenshtein distance, the closest first, then by code points.

        The distance counts code points that are inserted, deleted, substituted, or swapped with their neighbour.
        """
        if distance < 0:
            raise InputError(f"an edit distance of {distance}: it must be 0 or more")
        found = (
            CloseWord(piece.word(at), far) for piece in self.pieces for at, far in self._near(piece, word, distance)
        )
        return sorted(found, key=lambda one: (one.distance, one.word))

    def starting_with(self, prefix: str, limit: int | None = None) -> list[str]:
        """Return the first words that begin with the prefix, by code points; without a limit, all of them."""
        if limit is not None and limit < 0:
            raise InputError(f"a limit of {limit} words: it must be 0 or more, or None for all of them")
        return list(islice(self.each_starting_with(prefix), limit))

    def each_starting_with(self, prefix: str) -> Iterator[str]:
        """Yield the words that begin with the prefix, by code points. A word is read when it is asked for."""
        return merge(*(map(piece.word, _starting(piece, prefix)) for piece in self.pieces))

    def ids_starting_with(self, prefix: str) -> Ints:
        """Return the token ids of all words that begin with the prefix, in any order. No word is read but a few."""
        ids = [_starting(piece, prefix).astype(np.int64) + piece.base for piece in self.pieces]
        return np.concatenate([np.empty(0, np.int64), *ids])

    def _near(self, piece: Piece, word: str, distance: int) -> Iterator[tuple[int, int]]:
        """Yield the positions of a piece's words within the distance, and their distances."""
        made = self._signatures(piece)
        most = min(distance, max(len(word), made.longest))  # no two words are further apart
        if self._words <= SMALL_VOCABULARY:
            return _near_plainly(piece, made, word, most)
        return _near_compiled(piece, made, word, most)

    def _signatures(self, piece: Piece) -> LetterSignatures:
        made = self._known.get(_key(piece))
        if made is None:
            made = self._known[_key(piece)] = LetterSignatures.of(piece)
        return made


def _key(piece: Piece) -> tuple[Path, int, int]:
    return piece.path, piece.base, len(piece)


def _near_plainly(piece: Piece, made: LetterSignatures, word: str, most: int) -> Iterator[tuple[int, int]]:
    asked, rows, signature = list(map(ord, word)), rows_for(len(word)), np.uint64(signature_of(word))
    for start, end, lacking, more in made.bounds(len(word), most):
        some = made.signatures[start:end]
        passes = (np.bitwise_count(signature & ~some) <= lacking) & (np.bitwise_count(some & ~signature) <= more)
        for position in made.positions[start:end][passes].tolist():
            distance = edit_distance(list(map(ord, piece.word(position))), asked, most, rows)
            if distance <= most:
                yield position, distance


def _near_compiled(piece: Piece, made: LetterSignatures, word: str, most: int) -> Iterator[tuple[int, int]]:
    from denslice.search.cpu.signature_scan import close_positions

    asked = np.frombuffer(word.encode("utf-32-le", errors="surrogatepass"), np.uint32)
    groups = np.array([*made.bounds(len(word), most)], np.uint64).reshape(-1, 4)
    table, words = (made.signatures, made.positions), (piece.letters, piece.starts)
    positions, distances = close_positions(asked, np.uint64(signature_of(word)), most, groups, table, words)
    return zip(positions.tolist(), distances.tolist(), strict=True)


def _starting(piece: Piece, prefix: str) -> Ints:
    """Return the positions of a piece's words that begin with the prefix, in the order of their code points."""
    order = piece.order
    low = bisect_left(order, prefix, key=piece.word)
    high = bisect_right(order, prefix, low, key=lambda position: piece.word(position)[: len(prefix)])
    return order[low:high]
