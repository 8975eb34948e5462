"""The words of a piece that are close to a query word, in one compiled call.

Import this module inside the function that needs it: numba is slow to load.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from denslice.compiling import compiled, helper, inlined
from denslice.search import edit_distance as plain
from denslice.search.cpu.intrinsics import ones
from denslice.vectors import Array, Ints

Table = tuple[Array, Array]  # signatures and positions of `LetterSignatures`
Words = tuple[Array, Array]  # letters and starts of a piece

BLOCK = np.uint64(32)  # signatures that are compared at once; unsigned indices need no test for negative ones

measured_distance = helper(plain.edit_distance)
_ones: Any = ones  # mypy does not know that numba passes the first argument of an intrinsic


@compiled
def close_positions(
    query: Array, signature: np.uint64, most: int, groups: Array, table: Table, words: Words
) -> tuple[Ints, Ints]:
    """Return the positions of the words within `most` edits of the query (code points), and their distances.

    `groups` has the rows of `LetterSignatures.bounds`. Files may be damaged: whatever bytes the letters hold, only they
    are read.
    """
    positions = _passing_positions(signature, groups, table)
    distances, count = np.empty(len(positions), np.int64), 0
    letters, rows = np.empty(len(query) + most + 1, np.uint32), np.empty((3, len(query) + 1), np.int64)
    for position in positions:
        length = decoded(words, position, letters)
        distance = measured_distance(letters[:length], query, most, rows)
        if distance <= most:
            positions[count], distances[count] = position, distance
            count += 1
    return positions[:count], distances[:count]


@inlined
def _passing_positions(signature: np.uint64, groups: Array, table: Table) -> Ints:
    """Return the positions of the words whose signatures pass. A block is scanned again only if one of it does."""
    signatures, positions = table
    found, count = np.empty(64, np.int64), 0
    for first, last, lacking, more in groups:
        for start in range(first, last, BLOCK):
            is_whole = start + BLOCK <= last
            if is_whole and not _one_passes(signatures, start, signature, lacking, more):
                continue
            if count + np.int64(BLOCK) > len(found):
                found = doubled(found)
            for i in range(start, start + BLOCK if is_whole else last):
                if passes(signatures[i], signature, lacking, more):
                    found[count] = np.int64(positions[i])
                    count += 1
    return found[:count]


@inlined
def _one_passes(
    signatures: Array, start: np.uint64, signature: np.uint64, lacking: np.uint64, more: np.uint64
) -> np.bool:
    """Return whether a signature of a block passes. There is no branch, so that vector instructions are used."""
    passing = np.uint64(0)
    for i in range(start, start + BLOCK):
        passing |= np.uint64(passes(signatures[i], signature, lacking, more))
    return passing > np.uint64(0)


@helper
def passes(one: np.uint64, signature: np.uint64, lacking: np.uint64, more: np.uint64) -> np.bool:
    """Return whether a signature lacks few enough bits of the query's, and has few enough others."""
    is_passing: np.bool = (_ones(signature & ~one) <= lacking) & (_ones(one & ~signature) <= more)
    return is_passing


@helper
def decoded(words: Words, position: int, into: Array) -> int:
    """Write the code points of a word, as many as there is room for, and return how many they are."""
    letters, starts = words
    count = -1
    for at in range(starts[position], starts[position + 1]):
        byte = np.uint32(letters[at])
        if byte & np.uint32(0xC0) == np.uint32(0x80) and count >= 0:
            into[count] = into[count] << np.uint32(6) | byte & np.uint32(0x3F)
            continue
        count += 1
        if count == len(into):
            return count
        into[count] = _first_bits(byte)
    return count + 1


@helper
def _first_bits(byte: np.uint32) -> np.uint32:
    """Return the bits of a code point that the first byte of its UTF-8 has."""
    if byte < np.uint32(0xC0):
        return byte
    if byte < np.uint32(0xE0):
        return byte & np.uint32(0x1F)
    return byte & np.uint32(0x0F if byte < np.uint32(0xF0) else 0x07)


@helper
def doubled(numbers: Ints) -> Ints:
    """Return the numbers at the beginning of an array twice as large."""
    larger = np.empty(2 * len(numbers), np.int64)
    larger[: len(numbers)] = numbers
    return larger
