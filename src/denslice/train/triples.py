"""MS MARCO's triples in TSV, read as a stream in the order of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from denslice.corpus.documents import read_docs, read_queries
from denslice.corpus.lines import located, read_lines
from denslice.encoders.model_config import ModelConfig
from denslice.errors import InputError
from denslice.train.data import UNKNOWN, TrainBatch, number_in
from denslice.train.tokens import joined, token_rows


class Triples:
    """Examples of a triples file in the order of the file, which is shuffled already; each epoch reads it again.

    A line is `query positive negative`, separated by tabs, or `score score query positive negative` with a teacher's
    scores of the two passages. Columns are texts, or ids if a collection and queries are given.
    """

    def __init__(
        self,
        path: Path,
        tokenizer: Any,
        config: ModelConfig,
        collection: Path | None = None,
        queries: Path | None = None,
    ) -> None:
        self._path = path
        self._tokenizer = tokenizer
        self._config = config
        self._docs = None if collection is None else {doc.id: doc.contents for doc in read_docs([collection])}
        self._queries = None if queries is None else {query.id: query.text for query in read_queries(queries)}
        self._scored = len(next(self._lines())) == 5

    def texts(self) -> Iterable[list[int]]:
        """Yield the positives of the file, once."""
        lines = self._lines()
        while some := list(islice(lines, 1000)):
            yield from self._passage_rows([fields[-2] for fields in some])

    def batches(self, start: int, size: int) -> Iterator[TrainBatch]:
        """Yield batches without end, beginning after the first `start` examples."""
        lines = islice(self._epochs(), start, None)
        while True:
            yield self._batch(list(islice(lines, size)))

    def _epochs(self) -> Iterator[list[str]]:
        while True:
            yield from self._lines()

    def _lines(self) -> Iterator[list[str]]:
        width = 0
        for number, line in read_lines(self._path):
            fields = line.split("\t")
            width = width or len(fields)
            if len(fields) not in (3, 5) or len(fields) != width:
                expected = f"{width}, as in line 1" if width in (3, 5) else "3 (query, positive, negative)"
                raise located(self._path, number, f"{len(fields)} columns between tabs, expected {expected}")
            self._check(number, fields)
            yield fields
        if width == 0:
            raise InputError(f"{self._path}: has no triples; expected lines of query, positive and negative")

    def _check(self, number: int, fields: list[str]) -> None:
        query, *docs = fields[-3:]
        if self._queries is not None and query not in self._queries:
            raise located(self._path, number, f"query {query!r} is not among the queries")
        for doc in docs:
            if self._docs is not None and doc not in self._docs:
                raise located(self._path, number, f"document {doc!r} is not in the collection")
        for text in fields[:-3]:
            number_in(self._path, number, text)

    def _passage_rows(self, names: list[str]) -> list[list[int]]:
        texts = names if self._docs is None else [self._docs[name] for name in names]
        return token_rows(self._tokenizer, [self._config.doc_prompt + text for text in texts], self._config.max_length)

    def _query_rows(self, names: list[str]) -> list[list[int]]:
        texts = names if self._queries is None else [self._queries[name] for name in names]
        prompt, length = self._config.query_prompt, self._config.query_length
        return token_rows(self._tokenizer, [prompt + text for text in texts], length)

    def _batch(self, lines: list[list[str]]) -> TrainBatch:
        queries = [fields[-3] for fields in lines]
        passages = [name for fields in lines for name in fields[-2:]]
        texts = (joined(self._query_rows(queries)), joined(self._passage_rows(passages)))
        return TrainBatch(*texts, _known_relevant(queries, passages), _line_scores(lines) if self._scored else None)


def _known_relevant(queries: list[str], passages: list[str]) -> npt.NDArray[np.bool_]:
    """Return marks (B, P) at passages that are the positive of the same query in another line."""
    positives: dict[str, set[str]] = {}
    for query, positive in zip(queries, passages[::2], strict=True):
        positives.setdefault(query, set()).add(positive)
    marks = np.array([[name in positives[query] for name in passages] for query in queries])  # (B, P)
    marks[np.arange(len(queries)), np.arange(len(queries)) * 2] = False  # the query's own positive
    return marks


def _line_scores(lines: list[list[str]]) -> npt.NDArray[np.float32]:
    scores = np.full((len(lines), 2 * len(lines)), UNKNOWN, dtype=np.float32)  # (B, P)
    for row, fields in enumerate(lines):
        scores[row, 2 * row : 2 * row + 2] = [float(fields[0]), float(fields[1])]
    return scores
