"""Search of a small index in numpy alone, with the same results as the compiled loops.

Compiling the loops takes far longer than searching a few hundred documents.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from denslice.store.segment import Segment
from denslice.vectors import Floats, Ints


def lexical_scores(segment: Segment, keys: Ints, weights: Floats) -> Floats:
    """Return the exact lexical score of each row: the sum over the query's keys of query weight · row weight.

    Products are added in float64 and in the order of a row's keys, as `rescore.rescore` adds them. Files may be
    damaged: whatever numbers the arrays hold, each weight belongs to some row.
    """
    kept = segment.kept
    matching = np.flatnonzero(np.isin(kept.keys, keys))
    rows = np.searchsorted(kept.starts[1:-1], matching, side="right")
    row_weights = kept.weights[matching].view(np.float16)
    with np.errstate(over="ignore", invalid="ignore"):  # compiled loops give no warnings either
        products = weights[np.searchsorted(keys, kept.keys[matching])].astype(np.float64) * row_weights
        return np.bincount(rows, products, segment.rows).astype(np.float32)


def best_in_order(
    segments: Sequence[Segment], positions: Ints, scores: Floats, k: int
) -> tuple[Ints, Ints, Ints, list[str]]:
    """Return the k best of these positions, equal scores by id, and the segment, row and id of each.

    Positions count the rows of all segments, and `scores` has a score for each of those rows.
    """
    if k < len(positions):  # a document that ties with the k-th may come before it by its id
        positions = positions[scores[positions] >= np.partition(scores[positions], -k)[-k]]
    bases = np.cumsum([0, *(segment.rows for segment in segments)])
    at = np.searchsorted(bases, positions, side="right") - 1
    rows = positions - bases[at]
    ids = [segments[s].ids(rows[i : i + 1])[0] for i, s in enumerate(at.tolist())]
    falling = (-scores[positions]).tolist()
    order = np.array(sorted(range(len(ids)), key=lambda i: (falling[i], ids[i]))[:k], np.int64)
    return positions[order], at[order], rows[order], [ids[i] for i in order]
