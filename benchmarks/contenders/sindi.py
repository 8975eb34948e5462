"""SINDI (VSAG): posting lists in windows of documents, whose best candidates are scored again from whole vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from contenders.contender import Contender, Found, Setting, Tokens, grid
from contenders.vectors_folder import Floats, VectorsFolder

INDEX = "sindi"
WINDOW = 60_000  # documents


class Sindi(Contender):
    """Nothing is pruned when it is built; queries and posting lists are pruned by each search."""

    packages = ("pyvsag",)

    def settings(self, k: int) -> Sequence[Setting]:
        return grid(n_candidate=[2 * k, 10 * k], query_prune_ratio=[0.0, 0.2, 0.4], term_prune_ratio=[0.0, 0.3, 0.6])

    def build(self, vectors: VectorsFolder, folder: Path) -> None:
        docs, index = vectors.docs, _empty(vectors)
        numbers = np.arange(docs.shape[0], dtype=np.int64)
        index.build(docs.indptr.astype(np.uint32), docs.indices.astype(np.uint32), docs.data, numbers)
        index.save(str(folder / INDEX))

    def open(self, vectors: VectorsFolder, folder: Path) -> None:
        self._index = _empty(vectors)
        self._index.load(str(folder / INDEX))

    def query(self, tokens: Tokens, weights: Floats, dense: Floats) -> tuple[Any, ...]:
        return np.array([0, len(tokens)], np.uint32), tokens.astype(np.uint32), weights

    def search(self, query: tuple[Any, ...], k: int, setting: Setting) -> Any:
        return self._index.knn_search(*query, k, json.dumps({"sindi": dict(setting)}))[0]

    def found(self, answer: Any) -> Found:
        return list(answer[0])


def _empty(vectors: VectorsFolder) -> Any:
    import pyvsag

    pyvsag.set_logger_off()
    vocabulary = vectors.about["vocabulary"]
    parameters = {"use_reorder": True, "doc_prune_ratio": 0.0, "window_size": WINDOW, "term_id_limit": vocabulary}
    kind = {"dtype": "sparse", "dim": vocabulary, "metric_type": "ip", "index_param": parameters}
    return pyvsag.Index("sindi", json.dumps(kind))
