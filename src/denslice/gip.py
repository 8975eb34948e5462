"""The definition of the gated inner product, paper equation 7. Every faster implementation is tested equal to it."""

from __future__ import annotations

import numpy as np

from denslice.densify import restore
from denslice.errors import InputError
from denslice.slicing import Slicing
from denslice.vectors import Floats, Slices, lexical_csr


def gip(queries: Slices, docs: Slices) -> Floats:
    """Return scores (queries, docs): the sum of query value · doc value over the slices with equal gates."""
    if queries.values.shape[1] != docs.values.shape[1]:
        raise InputError(f"queries have {queries.values.shape[1]} slices, documents {docs.values.shape[1]}")
    scores = np.empty((len(queries.values), len(docs.values)), dtype=np.float32)
    for i, (values, gates) in enumerate(zip(queries.values, queries.gates, strict=True)):
        scores[i] = np.where(docs.gates == gates, docs.values, 0) @ values
    return scores


def gip_full(queries: object, docs: Slices, slicing: Slicing) -> Floats:
    """Return scores (queries, docs) of queries that are not densified: only the documents are sliced."""
    return np.asarray((lexical_csr(queries) @ restore(docs, slicing).T).todense(), dtype=np.float32)
