"""Checks rankings against the definition, on some queries and documents, before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from denslice.densify import densify
from denslice.errors import DensliceError
from denslice.gip import gip, gip_full
from denslice.rankings import Ranking
from denslice.reproduce.cells import Setting
from denslice.slicing import Slicing
from denslice.vectors import Encoded, Floats

CLOSE = 1e-3  # how far a score may lie from the definition's, relative to it
ROWS = 2_000  # documents that are checked


class NotTheDefinitionError(DensliceError):
    """A ranking differs from the definition."""


def scores(queries: Encoded, docs: Encoded, slicing: Slicing | None, query: str, lam: float) -> Floats:
    """Return scores (queries, docs) by the paper's equations 7 and 9; without a slicing, every weight counts."""
    if slicing is None:
        found: Floats = (queries.lexical @ docs.lexical.T).toarray().astype(np.float32)
    elif query == "full":
        found = gip_full(queries.lexical, densify(docs.lexical, slicing), slicing)
    else:
        found = gip(densify(queries.lexical, slicing), densify(docs.lexical, slicing))
    if queries.dense is not None and docs.dense is not None:
        found = found + np.float32(lam) * (queries.dense @ docs.dense.T)
    return found


def check(rankings: Sequence[Ranking], defined: Floats, doc_ids: Sequence[str], setting: Setting) -> None:
    """Raise NotTheDefinitionError if a score is wrong, or if an exact ranking lacks a document.

    `defined` are the scores (rankings, docs) of the first documents.
    """
    for ranking, scores in zip(rankings, defined.tolist(), strict=True):
        found = dict(zip(ranking.ids, ranking.scores, strict=True))
        least = min(found.values(), default=0.0)
        for id, expected in zip(doc_ids, scores, strict=False):
            close = CLOSE * max(1.0, abs(expected))
            if id in found and abs(found[id] - expected) > close:
                raise NotTheDefinitionError(f"{setting}: document {id!r} has {found[id]}, by definition {expected}")
            is_result = expected > 0 or setting.index.mode != "lexical"  # words find nothing without a shared token
            if setting.is_exact and id not in found and is_result and expected > least + close:
                raise NotTheDefinitionError(f"{setting}: document {id!r} is missing, with {expected} against {least}")
