"""The Damerau-Levenshtein distance of two words, as a function that Python runs and numba compiles."""

from __future__ import annotations

from collections.abc import Sequence

Rows = Sequence[list[int]]


def rows_for(length: int) -> Rows:
    """Return the rows that `edit_distance` needs for a first word of any length and a second one of this length."""
    return [[0] * (length + 1) for _ in range(3)]


def edit_distance(first: Sequence[int], second: Sequence[int], most: int, rows: Rows) -> int:
    """Return the distance of two words, or most + 1 if it is larger.

    It is the optimal string alignment of their code points: an insertion, a deletion, a substitution and a swap of two
    neighbours cost 1 each, and no letter is edited twice. Only the cells of the table that are at most `most` away from
    its diagonal are computed, because all others exceed it. A row is never below the smallest of the one before.
    """
    too_far, width = most + 1, len(second)
    if abs(len(first) - width) > most:
        return too_far
    older, last, row = rows[0], rows[1], rows[2]
    for j in range(min(width, too_far) + 1):
        last[j] = j
    for i in range(1, len(first) + 1):
        low, high = max(1, i - most), min(width, i + most)
        row[low - 1] = least = i if low == 1 else too_far
        for j in range(low, high + 1):
            if first[i - 1] == second[j - 1]:
                cost = last[j - 1]
            else:
                cost = 1 + min(last[j - 1], last[j], row[j - 1])
                if i > 1 and j > 1 and first[i - 1] == second[j - 2] and first[i - 2] == second[j - 1]:
                    cost = min(cost, older[j - 2] + 1)
            row[j] = cost
            least = min(least, cost)
        if least > most:
            return too_far
        if high < width:
            row[high + 1] = too_far  # the next row reads one cell further
        older, last, row = last, row, older
    return min(last[width], too_far)
