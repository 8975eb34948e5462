"""Rankings against judgements: RR@10, nDCG@10 and R@1000, as trec_eval has them, and ranks packed small."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]
DEPTH = 1000  # how deep a ranking is looked at


def measures(rankings: Rows, relevant: Sequence[Mapping[int, int]]) -> dict[str, float]:
    """Means over the queries of rankings (Q, k) of rows, best first, -1 where there is none."""
    found = [_found(ranking, grades) for ranking, grades in zip(rankings, relevant, strict=True)]
    pairs = list(zip(found, relevant, strict=True))
    return {
        "RR@10": _mean([1 / min(ranks) if ranks and min(ranks) <= 10 else 0.0 for ranks in found]),
        "nDCG@10": _mean([_ndcg(ranks, grades, 10) for ranks, grades in pairs]),
        "R@1000": _mean([len(ranks) / len(grades) for ranks, grades in pairs]),
    }


def first_ranks(rankings: Rows, relevant: Sequence[Mapping[int, int]]) -> npt.NDArray[np.uint16]:
    """The rank from 1 of each query's first relevant row; 0 where it was not found."""
    found = (_found(ranking, grades) for ranking, grades in zip(rankings, relevant, strict=True))
    return np.array([min(ranks, default=0) for ranks in found], dtype=np.uint16)


def packed(ranks: npt.NDArray[np.uint16]) -> str:
    """The ranks as little-endian bytes, zlib, base64."""
    return base64.b64encode(zlib.compress(ranks.astype("<u2").tobytes(), 9)).decode()


def unpacked(text: str) -> npt.NDArray[np.uint16]:
    """The ranks that `packed` told."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u2")


def _found(ranking: Rows, grades: Mapping[int, int]) -> dict[int, int]:
    """The grade at each rank, from 1, where a relevant row stands."""
    ranks = np.flatnonzero(np.isin(ranking[:DEPTH], list(grades)))
    return {int(rank) + 1: grades[int(ranking[rank])] for rank in ranks}


def _ndcg(ranks: Mapping[int, int], grades: Mapping[int, int], depth: int) -> float:
    best = sorted(grades.values(), reverse=True)[:depth]
    ideal = sum(grade / math.log2(rank + 1) for rank, grade in enumerate(best, 1))
    gained = sum(grade / math.log2(rank + 1) for rank, grade in ranks.items() if rank <= depth)
    return gained / ideal


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
