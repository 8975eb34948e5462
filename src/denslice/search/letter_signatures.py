"""Signatures of words: 64 bits that say which letters a word has, so that most words are told apart without reading.

A letter falls into one of 32 buckets. A signature has one bit for each bucket that has a letter of the word, and one
for each that has two. So an inserted letter sets at most one bit, a deleted one clears at most one, a substitution does
both, and a swap of neighbours neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from denslice.store.files import damaged
from denslice.store.vocabulary import Piece, encoded
from denslice.vectors import Array, Ints

BUCKETS = 32
LONG = 63  # code points from which on words are grouped together, whatever their length
BUILT_TOGETHER = 1 << 13  # words whose counts of buckets fit into the cache


@dataclass(frozen=True)
class LetterSignatures:
    """The signatures of a piece's words, grouped by their number of code points; 12 bytes a word.

    Those of words of n < LONG code points are between starts[n] and starts[n + 1].
    """

    signatures: npt.NDArray[np.uint64]
    positions: npt.NDArray[np.uint32]  # of the words in their piece
    starts: tuple[int, ...]  # (LONG + 2,)
    longest: int  # the code points of the longest word

    @classmethod
    def of(cls, piece: Piece, prefix: str = "") -> LetterSignatures:
        """Return the signatures of a piece's words with this prefix. No Python object is made for a word."""
        letters, starts = piece.letters, piece.starts
        if starts[0] != 0 or np.any(starts[1:] < starts[:-1]):
            raise damaged(piece.path, "the words do not follow one another")
        signatures, lengths = np.empty(len(piece), np.uint64), np.empty(len(piece), np.int64)
        for first in range(0, len(piece), BUILT_TOGETHER):
            some = slice(first, first + BUILT_TOGETHER)
            bounds = starts[first : first + BUILT_TOGETHER + 1]
            signatures[some], lengths[some] = _signatures(letters[bounds[0] : bounds[-1]], bounds - bounds[0])
        return cls._grouped(signatures, lengths, _chosen(piece, prefix))

    @classmethod
    def _grouped(cls, signatures: npt.NDArray[np.uint64], lengths: Ints, chosen: Array) -> LetterSignatures:
        """Return the chosen ones of these signatures, given the lengths of their words."""
        lengths = lengths[chosen]
        groups = np.minimum(lengths, LONG).astype(np.uint8)
        order = np.argsort(groups, kind="stable")
        group_starts = np.searchsorted(groups[order], np.arange(LONG + 2)).tolist()
        positions = chosen[order]
        return cls(signatures[positions], positions, tuple(group_starts), int(lengths.max(initial=0)))

    def bounds(self, length: int, most: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield each group that can have words within `most` edits of a word with this many code points.

        A group is given by its first row, the row after its last, how many bits of the word its signatures may lack,
        and how many others they may have. A word that is longer by n has n insertions at least, so there are at most
        most - n other edits.
        """
        for group in range(min(max(length - most, 0), LONG), min(length + most, LONG) + 1):
            longer = group - length if group < LONG else 0
            start, end = self.starts[group], self.starts[group + 1]
            if start < end:
                yield start, end, most - max(longer, 0), most - max(-longer, 0)


def signature_of(word: str) -> int:
    """Return the signature of a word."""
    one = two = 0
    for letter in word:
        bit = 1 << ord(letter) % BUCKETS
        two |= one & bit
        one |= bit
    return one | two << BUCKETS


def _chosen(piece: Piece, prefix: str) -> npt.NDArray[np.uint32]:
    """Return the positions of the words with a prefix, ascending."""
    if not prefix:
        return np.arange(len(piece), dtype=np.uint32)
    chosen = np.sort(piece.starting_with(encoded(prefix)))
    if len(chosen) and chosen[-1] >= len(piece):
        raise damaged(piece.path, f"has no word {chosen[-1]:,}, which it lists")
    return chosen


def _signatures(letters: Array, starts: Ints) -> tuple[npt.NDArray[np.uint64], Ints]:
    """Return the signatures of some words and their numbers of code points.

    The bucket of a code point is in the last byte of its UTF-8, which is followed by a byte that continues nothing.
    """
    is_last = np.ones(len(letters), np.bool_)
    is_last[:-1] = letters[1:] & 0xC0 != 0x80
    before = np.concatenate([[0], np.cumsum(is_last)])
    lengths = np.diff(before[starts])
    cells = np.repeat(np.arange(len(lengths)) * BUCKETS, lengths) + letters[is_last] % BUCKETS
    counts = np.bincount(cells, minlength=len(lengths) * BUCKETS).reshape(-1, BUCKETS)
    return _packed(counts > 0) | _packed(counts > 1) << np.uint64(BUCKETS), lengths


def _packed(bits: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    """Return each row of 32 bits as a number."""
    packed = np.packbits(bits, axis=1, bitorder="little").view("<u4")[:, 0].astype(np.uint64)
    return packed
