"""The chunks between white space of many texts, found and numbered in one compiled pass over their bytes.

Import this module inside the function that needs it: numba is slow to load.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from denslice.compiling import compiled, helper

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int32]
END = b"\xff"  # of a field; UTF-8 has no such byte
SPACE, SEPARATOR, SIGN = 1, 2, 3  # kinds of bytes; a separator is like white space, but for fields with an address
KINDS = np.zeros(256, dtype=np.uint8)
KINDS[[*range(9, 14), *range(28, 33), END[0]]] = SPACE  # those of str.split that are ASCII
KINDS[list(b'()[]{}"!?;')] = SEPARATOR
KINDS[list(b".,:")] = SIGN
_has_other_space = re.compile("[\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]").search
AT, ROW, FOUND, KNOWN = range(4)  # of the state of a scan


@helper
def _slot(data, start, end, slots, ends, pool):
    """Return the slot of some bytes: the one that has them, or the free one where they belong."""
    value = np.uint64(0xCBF29CE484222325)  # FNV-1a
    for at in range(start, end):
        value = (value ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
    mask = np.uint64(len(slots) - 1)
    slot = (value ^ (value >> np.uint64(32))) & mask
    while slots[slot] >= 0:
        begin = ends[slots[slot]]
        if ends[slots[slot] + 1] - begin == end - start:
            at = 0
            while at < end - start and pool[begin + at] == data[start + at]:
                at += 1
            if at == end - start:
                return slot
        slot = (slot + np.uint64(1)) & mask
    return slot


@compiled
def number_chunks(data, are_joined, kinds, slots, ends, pool, state, numbers, rows):
    """Write the number and the row of each chunk, without the signs around it, and number those that are new.

    Stops in front of a chunk for which the table has no room; returns whether all was read.
    """
    at, row, found, known = state[AT], state[ROW], state[FOUND], state[KNOWN]
    while at < len(data):
        kind = kinds[data[at]]
        if kind != 0:  # signs in front of a chunk are left out too
            row += data[at] == 255
            at += 1
            continue
        start = at
        while kinds[data[at]] != SPACE and (are_joined[row] or kinds[data[at]] != SEPARATOR):
            at += 1
        end = at
        while kinds[data[end - 1]] != 0:
            end -= 1
        slot = _slot(data, start, end, slots, ends, pool)
        if slots[slot] < 0:
            if 2 * known >= len(slots) or ends[known] + end - start > len(pool):
                state[AT], state[ROW], state[FOUND], state[KNOWN] = start, row, found, known
                return False
            pool[ends[known] : ends[known] + end - start] = data[start:end]
            ends[known + 1] = ends[known] + end - start
            slots[slot] = known
            known += 1
        numbers[found], rows[found] = slots[slot], row
        found += 1
    state[AT], state[ROW], state[FOUND], state[KNOWN] = at, row, found, known
    return True


@compiled
def fill_slots(slots, ends, pool, known):
    """Put the chunks of the pool into an empty table."""
    for chunk in range(known):
        slots[_slot(pool, ends[chunk], ends[chunk + 1], slots, ends, pool)] = chunk


class ScannedFields(NamedTuple):
    """The number and the row of each chunk of some fields, and the new chunks in the order of their numbers."""

    numbers: Numbers
    rows: Numbers
    new: list[str]


class ChunkTable:
    """The numbers of chunks, from 0 in the order in which they were first seen, in a hash table of their UTF-8."""

    def __init__(self) -> None:
        self._known = 0
        self._pool: Bytes = np.zeros(1 << 16, dtype=np.uint8)
        self._allocate(1 << 12)
        self._ends = np.zeros((1 << 11) + 1, dtype=np.int64)

    def scan(self, fields: Sequence[str]) -> ScannedFields:
        """Return the chunks of fields, which are the rows; those between white space, without the signs around them."""
        are_joined = np.fromiter(map(has_address, fields), np.uint8, len(fields))
        data = np.frombuffer(b"".join(map(_encoded, fields, are_joined)), dtype=np.uint8)
        most = len(data) // 2 + 1
        numbers, rows = np.empty(most, np.int32), np.empty(most, np.int32)
        known = self._known
        state = np.array([0, 0, 0, known], dtype=np.int64)
        tables: Any = (self._slots, self._ends, self._pool)
        while not number_chunks(data, are_joined, KINDS, *tables, state, numbers, rows):
            self._known = int(state[KNOWN])
            self._grow(len(data))
            tables = (self._slots, self._ends, self._pool)
        self._known, found = int(state[KNOWN]), state[FOUND]
        return ScannedFields(numbers[:found], rows[:found], self._chunks(known))

    def _chunks(self, first: int) -> list[str]:
        ends = self._ends[first : self._known + 1].tolist()
        pool = self._pool[ends[0] : ends[-1]].tobytes()
        spans = [(start - ends[0], end - ends[0]) for start, end in pairwise(ends)]
        return [pool[start:end].decode("utf-8", "surrogatepass") for start, end in spans]

    def _allocate(self, slots: int) -> None:
        self._slots = np.full(slots, -1, dtype=np.int32)

    def _grow(self, needed: int) -> None:
        """Make room for more chunks, of so many bytes at most."""
        used = int(self._ends[self._known])
        if used + needed > len(self._pool):
            self._pool = np.concatenate([self._pool, np.zeros(max(len(self._pool), needed), np.uint8)])
        if 2 * self._known >= len(self._slots):
            self._allocate(4 * len(self._slots))
            self._ends = np.concatenate([self._ends, np.zeros(len(self._slots) // 2 + 1 - len(self._ends), np.int64)])
            fill_slots(self._slots, self._ends, self._pool, self._known)


def has_address(text: str) -> bool:
    """Return whether a text may have an address, of which brackets, quotes and the like may be a part."""
    return "://" in text or "www." in text


def _encoded(field: str, is_joined: int) -> bytes:
    """Return the UTF-8 of a field, with ASCII white space, and its end."""
    if not field.isascii():
        if not is_joined:
            for sign in "“”„—–":  # which separate words
                field = field.replace(sign, " ")
        if _has_other_space(field):
            field = " ".join(field.split())
    return field.encode("utf-8", "surrogatepass") + END
