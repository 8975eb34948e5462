"""The words of a vocabulary that are close to a misspelt word, and those that begin with a prefix.

Most words are ruled out by their halves or by the signatures of their letters, the others by the edit distance itself:
no word within the distance is missed. Prefixes need no index of their own, because a piece has the order of its words.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import accumulate, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from denslice.errors import InputError
from denslice.loops import LOOPS
from denslice.search.edit_distance import edit_distance, rows_for
from denslice.search.letter_signatures import LONG, LetterSignatures, signature_of
from denslice.search.word_halves import WordHalves, word_halves
from denslice.store.vocabulary import Piece, encoded
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


@dataclass
class WordTables:
    """What the words of a piece are found by. The halves are made when they are first needed."""

    signatures: LetterSignatures
    halves: WordHalves | None = None

    def halves_of(self, piece: Piece) -> WordHalves:
        """Return the halves of the piece's words."""
        if self.halves is None:
            self.halves = word_halves(piece, self.signatures)
        return self.halves


class CloseWords:
    """Finds words of a vocabulary by edit distance and by prefix, from any number of threads.

    The tables of a piece are made at the first search by distance, and then kept.
    """

    def __init__(
        self, pieces: Sequence[Piece], known: dict[tuple[Path, int, int], WordTables], beginning: str = ""
    ) -> None:
        self.pieces = tuple(piece for piece in pieces if len(piece))
        self._words = sum(map(len, self.pieces))
        self._known = known
        self._beginning = beginning

    @classmethod
    def of(cls, pieces: Sequence[Piece], before: CloseWords | None = None, beginning: str = "") -> CloseWords:
        """Return the close words of these pieces; searches by distance find only words with this beginning.

        `before` are those of an earlier commit of the same index, whose tables are used again.
        """
        is_same = before is not None and before._beginning == beginning
        known = {key: made for key in map(_key, pieces) if is_same and before and (made := before._known.get(key))}
        return cls(pieces, known, beginning)

    def within(self, word: str, distance: int) -> list[CloseWord]:
        """Return every word within this Damerau-Levenshtein distance, the closest first, then by code points.

        The distance counts code points that are inserted, deleted, substituted, or swapped with their neighbour.
        """
        return self.within_each([word], distance)[0]

    def within_each(self, words: Sequence[str], distance: int) -> list[list[CloseWord]]:
        """Return what `within` returns for each word; many take little longer than one."""
        found = self.ids_within_each(words, distance)
        each = [[CloseWord(self._word(id), apart) for id, apart in some] for some in found]
        return [sorted(some, key=lambda one: (one.distance, one.word)) for some in each]

    def ids_within_each(self, words: Sequence[str], distance: int) -> list[list[tuple[int, int]]]:
        """Return the token ids of the words within this distance of each word, with their distances, in any order."""
        if distance < 0:
            raise InputError(f"an edit distance of {distance}: it must be 0 or more")
        found: list[list[tuple[int, int]]] = [[] for _ in words]
        for piece in self.pieces:
            for asked, position, apart in self._near(piece, words, distance):
                found[asked].append((piece.base + position, apart))
        return found

    def starting_with(self, prefix: str, limit: int | None = None) -> list[str]:
        """Return the first words that begin with the prefix, by code points; without a limit, all of them."""
        if limit is not None and limit < 0:
            raise InputError(f"a limit of {limit} words: it must be 0 or more, or None for all of them")
        return list(islice(self.each_starting_with(prefix), limit))

    def each_starting_with(self, prefix: str) -> Iterator[str]:
        """Yield the words that begin with the prefix, by code points. A word is read when it is asked for."""
        return merge(*(map(piece.word, piece.starting_with(encoded(prefix))) for piece in self.pieces))

    def ids_starting_with(self, prefix: str) -> Ints:
        """Return the token ids of all words that begin with the prefix, in any order. No word is read but a few."""
        ids = [piece.starting_with(encoded(prefix)).astype(np.int64) + piece.base for piece in self.pieces]
        return np.concatenate([np.empty(0, np.int64), *ids])

    def _near(self, piece: Piece, words: Sequence[str], distance: int) -> Iterable[tuple[int, int, int]]:
        """Return the words of a piece within the distance: the number of the word asked for, position and distance."""
        made = self._tables(piece)
        by_loops = self._words > SMALL_VOCABULARY and LOOPS.ready_or_begun()
        if by_loops and distance == 1 and max(map(len, words), default=0) < LONG - 1:
            return _near_by_halves(piece, made, words)
        near = _near_compiled if by_loops else _near_plainly
        longest = made.signatures.longest
        most = [min(distance, max(len(word), longest)) for word in words]  # no two words are further apart
        each = (near(piece, made.signatures, word, far) for word, far in zip(words, most, strict=True))
        return ((asked, *one) for asked, some in enumerate(each) for one in some)

    def _word(self, id: int) -> str:
        piece = self.pieces[bisect_right(self.pieces, id, key=lambda piece: piece.base) - 1]
        return piece.word(id - piece.base)

    def _tables(self, piece: Piece) -> WordTables:
        made = self._known.get(_key(piece))
        if made is None:
            made = self._known[_key(piece)] = WordTables(LetterSignatures.of(piece, self._beginning))
        return made


def load_loops(piece: Piece) -> None:
    """Load or compile the loops that look for words in a large vocabulary."""
    made = WordTables(LetterSignatures.of(piece))
    list(_near_by_halves(piece, made, ["word"]))
    list(_near_compiled(piece, made.signatures, "word", 2))


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


def _near_by_halves(piece: Piece, made: WordTables, words: Sequence[str]) -> Iterable[tuple[int, int, int]]:
    from denslice.search.cpu.half_search import one_edit_away

    letters = np.frombuffer("".join(words).encode("utf-32-le", errors="surrogatepass"), np.uint32)
    bounds = np.array([0, *accumulate(map(len, words))], np.int64)
    found = one_edit_away(letters, bounds, made.halves_of(piece), (piece.letters, piece.starts))
    return zip(*(numbers.tolist() for numbers in found), strict=True)
