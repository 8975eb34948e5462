"""RR@10, nDCG@10 and R@1000 of rankings of rows, as trec_eval defines them, and the ranks in compressed form."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from denslice.vectors import Ints

RANKING_DEPTH = 1000  # rows of a ranking that are measured


def measures(rankings: Ints, relevant: Sequence[Mapping[int, int]]) -> dict[str, float]:
    """Return the mean of each measure over rankings (Q, k) of rows, best first, padded with -1."""
    found = [_found(ranking, grades) for ranking, grades in zip(rankings, relevant, strict=True)]
    pairs = list(zip(found, relevant, strict=True))
    values = {
        "RR@10": [1 / min(ranks) if ranks and min(ranks) <= 10 else 0.0 for ranks in found],
        "nDCG@10": [_ndcg(ranks, grades, 10) for ranks, grades in pairs],
        "R@1000": [len(ranks) / len(grades) for ranks, grades in pairs],
    }
    return {name: float(np.mean(some)) for name, some in values.items()}


def first_ranks(rankings: Ints, relevant: Sequence[Mapping[int, int]]) -> npt.NDArray[np.uint16]:
    """Return the rank of each query's first relevant row, from 1, or 0 if none was found."""
    found = (_found(ranking, grades) for ranking, grades in zip(rankings, relevant, strict=True))
    return np.array([min(ranks, default=0) for ranks in found], dtype=np.uint16)


def packed(ranks: npt.NDArray[np.uint16]) -> str:
    """Return the ranks as a string: little-endian uint16, zlib, base64."""
    return base64.b64encode(zlib.compress(ranks.astype("<u2").tobytes(), 9)).decode()


def unpacked(text: str) -> npt.NDArray[np.uint16]:
    """Return the ranks that `packed` made a string of."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u2")


def _found(ranking: Ints, grades: Mapping[int, int]) -> dict[int, int]:
    """Return the grade at each rank, from 1, that holds a relevant row."""
    ranks = np.flatnonzero(np.isin(ranking[:RANKING_DEPTH], list(grades)))
    return {int(rank) + 1: grades[int(ranking[rank])] for rank in ranks}


def _ndcg(ranks: Mapping[int, int], grades: Mapping[int, int], depth: int) -> float:
    best = sorted(grades.values(), reverse=True)[:depth]
    ideal = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(best, 1))
    gained = sum(grade / math.log2(rank + 1) for rank, grade in ranks.items() if rank <= depth)
    return gained / ideal
