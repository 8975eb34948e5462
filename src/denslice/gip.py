"""The gated inner product as a definition: paper equation 7. Everything faster is tested equal to this."""

from __future__ import annotations

import numpy as np

from denslice.densify import restore
from denslice.errors import InputError
from denslice.slicing import Slicing
from denslice.vectors import Floats, Slices, lexical_csr


def gip(queries: Slices, docs: Slices) -> Floats:
    """Scores (queries, docs): the sum over slices of query value · doc value where the gates are the same."""
    if queries.values.shape[1] != docs.values.shape[1]:
        raise InputError(f"queries have {queries.values.shape[1]} slices, documents {docs.values.shape[1]}")
    scores = np.empty((len(queries.values), len(docs.values)), dtype=np.float32)
    for i, (values, gates) in enumerate(zip(queries.values, queries.gates, strict=True)):
        scores[i] = np.where(docs.gates == gates, docs.values, 0) @ values
    return scores


def gip_full(queries: object, docs: Slices, slicing: Slicing) -> Floats:
    """Scores (queries, docs) of queries left whole: every query token meets what the document's slices kept."""
    return np.asarray((lexical_csr(queries) @ restore(docs, slicing).T).todense(), dtype=np.float32)
