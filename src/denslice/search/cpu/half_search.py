"""The words of a piece that are one edit away from query words, found by their halves, in one compiled call.

Import this module inside the function that needs it: numba is slow to load.
"""

from __future__ import annotations

import numpy as np

from denslice.compiling import compiled, helper
from denslice.search.cpu.signature_scan import Words, decoded, doubled, measured_distance, passes
from denslice.search.letter_signatures import BUCKETS, LONG
from denslice.vectors import Array, Ints

HalfRows = tuple[Array, Array]  # a `HalfTable`: words and starts
Halves = tuple[HalfRows, HalfRows, int]  # `WordHalves`: first, second, bits

_mixing = np.uint64(0x9E3779B97F4A7C15)
_one = np.uint64(1)
_buckets = np.uint64(BUCKETS)
_position = np.uint64((1 << 32) - 1)
_hash_bits = 64


@compiled
def half_hashes(positions: Array, words: Words, bits: int) -> tuple[Array, Array]:
    """Return the hashes of the first and of the second half of each word. A word of LONG or more letters has none."""
    first, second = np.zeros(len(positions), np.uint32), np.zeros(len(positions), np.uint32)
    letters = np.empty(LONG, np.uint32)
    for at in range(len(positions)):
        length = decoded(words, np.int64(positions[at]), letters)
        if length < LONG:
            first[at] = _hash(letters[: length // 2], bits)
            second[at] = _hash(letters[length // 2 : length], bits)
    return first, second


@compiled
def one_edit_away(letters: Array, bounds: Ints, halves: Halves, words: Words) -> tuple[Ints, Ints, Ints]:
    """Return the words at most one edit away: the query that each is close to, its position, and its distance.

    Query i has the code points from bounds[i] to bounds[i + 1], fewer than LONG - 1. Files may be damaged: whatever
    bytes the letters hold, only they are read.
    """
    queries, positions, distances = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64)
    word, rows, count = np.empty(LONG + 1, np.uint32), np.empty((3, LONG + 1), np.int64), 0
    for number in range(len(bounds) - 1):
        query = letters[bounds[number] : bounds[number + 1]]
        begun = count
        for position in _sharing_a_half(query, halves):
            if _is_among(positions[begun:count], position):
                continue
            length = decoded(words, position, word)
            distance = measured_distance(word[:length], query, 1, rows)
            if distance <= 1:
                if count == len(positions):
                    queries, positions, distances = doubled(queries), doubled(positions), doubled(distances)
                queries[count], positions[count], distances[count] = number, position, distance
                count += 1
    return queries[:count], positions[:count], distances[:count]


@helper
def _sharing_a_half(query: Array, halves: Halves) -> Ints:
    """Return the positions of the words that share a half and most letters with the query, some twice."""
    found, count = np.empty(64, np.int64), 0
    first, second, bits = halves
    signature, size = _letters_of(query), len(query)
    for length in range(max(size - 1, 0), size + 2):
        half = length // 2
        lacking, more = np.uint64(1 - max(length - size, 0)), np.uint64(1 - max(size - length, 0))
        limits = signature, lacking, more
        if half <= size:
            bucket = length << bits | _hash(query[:half], bits)
            found, count = _with_passing(found, count, first, bucket, limits)
        if length - half <= size:
            bucket = length << bits | _hash(query[size - (length - half) :], bits)
            found, count = _with_passing(found, count, second, bucket, limits)
        if length == size and size > 1:
            bucket = length << bits | _hash(_with_swapped_middle(query)[:half], bits)
            found, count = _with_passing(found, count, first, bucket, limits)
    return found[:count]


@helper
def _with_passing(
    found: Ints,
    count: int,
    half: HalfRows,
    bucket: int,
    limits: tuple[np.uint64, np.uint64, np.uint64],
) -> tuple[Ints, int]:
    """Add the positions of a bucket's words whose letters pass, and return them all and how many they are."""
    entries, starts = half
    signature, lacking, more = limits
    for entry in entries[starts[bucket] : starts[bucket + 1]]:
        if passes(entry >> _buckets, signature, lacking, more):
            if count == len(found):
                found = doubled(found)
            found[count] = np.int64(entry & _position)
            count += 1
    return found, count


@helper
def _hash(letters: Array, bits: int) -> int:
    """Return a hash of some letters with so many bits."""
    mixed = np.uint64(len(letters)) + _one
    for letter in letters:
        mixed = (mixed ^ np.uint64(letter)) * _mixing
        mixed ^= mixed >> np.uint64(29)
    return int(mixed * _mixing >> _one >> np.uint64(_hash_bits - 1 - bits))


@helper
def _letters_of(query: Array) -> np.uint64:
    """Return which letters a word has: the half of its signature that says so."""
    found = np.uint64(0)
    for letter in query:
        found |= _one << np.uint64(letter) % _buckets
    return found


@helper
def _with_swapped_middle(query: Array) -> Array:
    """Return a word with the last letter of its first half and the first of its second one swapped."""
    swapped, middle = query.copy(), len(query) // 2
    swapped[middle - 1], swapped[middle] = query[middle], query[middle - 1]
    return swapped


@helper
def _is_among(numbers: Ints, number: int) -> bool:
    return bool(np.any(numbers == number))
