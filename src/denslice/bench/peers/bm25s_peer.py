"""bm25s with its numba backend: every BM25 score is computed when the index is built, and a query sums columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from denslice.bench.bench_data import BenchTexts, Collection
from denslice.bench.contender import Contender, Docs, Setting
from denslice.errors import InputError

INDEX = "index"


@dataclass(frozen=True)
class Bm25s(Contender):
    """BM25 with the stop words, stemmer, k1 and b of denslice's bm25."""

    name: str = "bm25s, numba"
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"method": "lucene", "k1": 0.9, "b": 0.4})
    packages: Sequence[str] = ("bm25s", "numba", "PyStemmer")
    files: Sequence[str] = (f"{INDEX}/*",)
    built_as: str = "bm25s"
    module: str = "bm25s"

    def prepare(self, collection: Collection, folder: Path) -> None:
        _ = _texts(collection).texts

    def build(self, collection: Collection, folder: Path) -> None:
        import bm25s

        index = bm25s.BM25(backend="numba", **self.parameters)
        index.index(_words(_texts(collection).texts), show_progress=False)
        index.save(str(folder / INDEX), show_progress=False)

    def open(self, collection: Collection, folder: Path) -> _OpenedBm25s:
        return _OpenedBm25s(_texts(collection), folder)


class _OpenedBm25s:
    def __init__(self, collection: BenchTexts, folder: Path) -> None:
        import bm25s

        self._index = bm25s.BM25.load(str(folder / INDEX), mmap=True, show_progress=False)
        self._index.activate_numba_scorer()
        self._questions = collection.questions

    def query(self, at: int) -> str:
        return self._questions[at]

    def search(self, query: str, k: int, setting: Setting) -> Any:
        return self._search([query], k, 0)

    def docs(self, answer: Any) -> Docs:
        return np.asarray(answer.documents[0], dtype=np.int64)

    def search_all(self, k: int, setting: Setting) -> int:
        return len(self._search(self._questions, k, -1).documents)

    def _search(self, questions: list[str], k: int, threads: int) -> Any:
        return self._index.retrieve(_words(questions), k=k, show_progress=False, n_threads=threads)


def _words(texts: list[str]) -> Any:
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, return_ids=False, show_progress=False)


def _texts(collection: Collection) -> BenchTexts:
    if not isinstance(collection, BenchTexts):
        raise InputError("bm25s searches texts, not vectors")
    return collection
