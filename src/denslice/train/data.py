"""Training examples as batches of token ids, from BEIR folders; triples.py reads MS MARCO's triples.

The order depends only on the seed and the position, so a run that resumes sees the batches it would have seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from denslice.corpus.documents import read_docs, read_queries
from denslice.corpus.lines import located, read_lines
from denslice.corpus.runs import read_qrels
from denslice.encoders.model_config import ModelConfig
from denslice.errors import InputError
from denslice.train.tokens import TokenArray, Tokens, tokenised
from denslice.train.word_reader import WordReader
from denslice.vectors import Ints

TeacherScores = dict[tuple[str, str], float]  # by query and document
UNKNOWN = float("nan")  # the teacher gave no score


@dataclass(frozen=True)
class TrainBatch:
    """B queries and their P passages: the positive of the first query, its hard negatives, then the next query's."""

    queries: Tokens
    passages: Tokens
    relevant: npt.NDArray[np.bool_]  # (B, P) other passages that are known to be relevant to the query
    teacher: npt.NDArray[np.float32] | None = None  # (B, P) scores of a teacher, NaN if unknown

    def share(self, process: int, processes: int) -> TrainBatch:
        """Return the texts that one of several processes encodes; `relevant` and `teacher` stay whole."""
        if processes == 1:
            return self
        queries, passages = len(self.queries) // processes, len(self.passages) // processes
        mine = range(process * queries, (process + 1) * queries)
        theirs = range(process * passages, (process + 1) * passages)
        return TrainBatch(self.queries.only(mine), self.passages.only(theirs), self.relevant, self.teacher)


class Examples(Protocol):
    """Training data, as the loop uses it."""

    def batches(self, start: int, size: int) -> Iterator[TrainBatch]:
        """Yield batches without end, beginning after the first `start` examples."""

    def texts(self) -> Iterable[Sequence[int] | TokenArray]:
        """Return the token ids of passages for the masked-language warm-up."""


# --- a collection with its queries and judgements


class Source(NamedTuple):
    """The three files of a collection. A BEIR folder takes the place of the first two."""

    docs: Path
    queries: Path
    qrels: Path

    @classmethod
    def of_folder(cls, folder: Path, split: str) -> Source:
        """Return the source of one split of a BEIR folder."""
        qrels = folder / "qrels" / f"{split}.tsv"
        if folder.is_dir() and not qrels.exists():
            raise InputError(f"{qrels}: no such file; the folder has no split {split!r}")
        return cls(folder, folder, qrels)


@dataclass(frozen=True)
class TrainCollection:
    """Documents and judged queries as token ids, addressed by row."""

    doc_ids: list[str]
    docs: Tokens
    query_ids: list[str]
    queries: Tokens
    relevant: list[dict[int, int]]  # for each query, relevant row → grade


class CollectionReader:
    """Reads collections for one model. It reads and tokenises documents that several splits share once."""

    def __init__(self, tokenizer: Any, config: ModelConfig) -> None:
        self._tokenizer = tokenizer
        self._config = config
        self._docs: dict[Path, tuple[list[str], Tokens]] = {}
        self._words: dict[Path, WordReader] = {}

    def collection(self, source: Source, limit: int | None = None, few: int | None = None) -> TrainCollection:
        """Read the documents and the first `limit` queries that have a relevant document.

        `few` keeps only the relevant documents of these queries and that many others, which is faster and easier.
        """
        names, docs = self._read_docs(source.docs)
        grades = _positive_grades(source.qrels, set(names))
        queries = list(islice((query for query in read_queries(source.queries) if query.id in grades), limit))
        if not queries:
            raise InputError(f"{source.qrels}: no query of {source.queries} has a relevant document here")
        if few is not None:
            kept = _fewer(names, {doc for query in queries for doc in grades[query.id]}, few)
            names, docs = [names[row] for row in kept], docs.only(kept)
        rows = {name: row for row, name in enumerate(names)}
        asked = self._read_queries(source.docs, [query.text for query in queries])
        relevant = [{rows[doc]: grade for doc, grade in grades[query.id].items()} for query in queries]
        return TrainCollection(names, docs, [query.id for query in queries], asked, relevant)

    def _read_docs(self, path: Path) -> tuple[list[str], Tokens]:
        if path not in self._docs:
            docs = list(read_docs([path]))
            if self._config.lexical == "words":
                self._words[path] = WordReader(self._tokenizer, self._config)
                found = self._words[path].docs([doc.contents for doc in docs])
            else:
                texts = (self._config.doc_prompt + doc.contents for doc in docs)
                found = tokenised(self._tokenizer, texts, self._config.max_length)
            self._docs[path] = ([doc.id for doc in docs], found)
        return self._docs[path]

    def _read_queries(self, path: Path, texts: list[str]) -> Tokens:
        if path in self._words:
            return self._words[path].queries(texts)
        prompted = (self._config.query_prompt + text for text in texts)
        return tokenised(self._tokenizer, prompted, self._config.query_length)


def _positive_grades(path: Path, docs: set[str]) -> dict[str, dict[str, int]]:
    """Return the grades above 0 of the queries that have one."""
    qrels = read_qrels(path)
    found = {query: {doc: grade for doc, grade in grades.items() if grade > 0} for query, grades in qrels.items()}
    for doc in (doc for grades in found.values() for doc in grades):
        if doc not in docs:
            raise InputError(f"{path}: document {doc!r} is not in the collection")
    return {query: grades for query, grades in found.items() if grades}


def _fewer(names: list[str], relevant: set[str], others: int) -> list[int]:
    """Return the rows of the relevant documents and of the first `others` others."""
    extra = set(islice((name for name in names if name not in relevant), others))
    return [row for row, name in enumerate(names) if name in relevant or name in extra]


# --- examples of a BEIR folder


@dataclass(frozen=True)
class Pairs:
    """Examples of a collection. In each epoch, every query occurs once, with one of its relevant documents."""

    collection: TrainCollection
    hard: Sequence[Sequence[int]]  # for each query, the rows that hard negatives are drawn from
    negatives: int
    seed: int
    teacher: TeacherScores | None = None

    def __len__(self) -> int:
        return len(self.collection.query_ids)

    def texts(self) -> Iterable[TokenArray]:
        """Return every document of the collection."""
        return self.collection.docs

    def batches(self, start: int, size: int) -> Iterator[TrainBatch]:
        """Yield batches without end, beginning after the first `start` examples."""
        while True:
            yield self.batch(start, size)
            start += size

    def batch(self, start: int, size: int) -> TrainBatch:
        """Return the batch that follows the first `start` examples."""
        draw = np.random.default_rng((self.seed, 1, start))
        queries = [self._query_at(position) for position in range(start, start + size)]
        passages = [row for query in queries for row in self._passages(query, draw)]
        texts = (self.collection.queries.only(queries), self.collection.docs.only(passages))
        return TrainBatch(*texts, self._marks(queries, passages), self._taught(queries, passages))

    def _query_at(self, position: int) -> int:
        epoch, at = divmod(position, len(self.collection.query_ids))
        return int(_order(self.seed, epoch, len(self.collection.query_ids))[at])

    def _passages(self, query: int, draw: np.random.Generator) -> list[int]:
        relevant, hard = list(self.collection.relevant[query]), self.hard[query]
        positive = relevant[draw.integers(len(relevant))]
        count = min(self.negatives, len(hard))
        drawn = [hard[at] for at in draw.choice(len(hard), count, replace=False)] if count else []
        while len(drawn) < self.negatives:  # a query with too few hard negatives gets random documents
            row = int(draw.integers(len(self.collection.docs)))
            if row not in relevant or len(relevant) == len(self.collection.docs):
                drawn.append(row)
        return [positive, *drawn]

    def _marks(self, queries: list[int], passages: list[int]) -> npt.NDArray[np.bool_]:
        columns: dict[int, list[int]] = {}
        for column, row in enumerate(passages):
            columns.setdefault(row, []).append(column)
        marks = np.zeros((len(queries), len(passages)), dtype=np.bool_)  # (B, P)
        for at, query in enumerate(queries):
            for row in self.collection.relevant[query]:
                marks[at, columns.get(row, [])] = True
        own = np.arange(len(queries))
        marks[own, own * (1 + self.negatives)] = False  # the query's own positive
        return marks

    def _taught(self, queries: list[int], passages: list[int]) -> npt.NDArray[np.float32] | None:
        if self.teacher is None:
            return None
        ids = self.collection.doc_ids
        names = [self.collection.query_ids[query] for query in queries]
        rows = [[self.teacher.get((name, ids[row]), UNKNOWN) for row in passages] for name in names]
        return np.array(rows, dtype=np.float32)


class Mixed:
    """Examples of several collections. Each batch is from one collection, so that in-batch negatives are too.

    A collection is drawn with a probability proportional to the square root of its number of queries.
    """

    def __init__(self, collections: Sequence[Pairs], seed: int) -> None:
        self._collections = collections
        self._seed = seed
        roots = np.sqrt([len(pairs) for pairs in collections])
        self._shares = roots / roots.sum()

    def texts(self) -> Iterable[TokenArray]:
        """Return every document of every collection."""
        return chain.from_iterable(pairs.texts() for pairs in self._collections)

    def batches(self, start: int, size: int) -> Iterator[TrainBatch]:
        """Yield batches without end, beginning after the first `start` examples."""
        while True:
            draw = np.random.default_rng((self._seed, 3, start))
            yield self._collections[draw.choice(len(self._collections), p=self._shares)].batch(start, size)
            start += size


def read_teacher(path: Path) -> TeacherScores:
    """Read a teacher's scores from lines `query document score`, separated by tabs or spaces."""
    scores: TeacherScores = {}
    for number, line in read_lines(path):
        fields = line.split("\t") if "\t" in line else line.split()
        if len(fields) != 3:
            raise located(path, number, f"{len(fields)} columns, expected `query document score`")
        scores[fields[0], fields[1]] = number_in(path, number, fields[2])
    if not scores:
        raise InputError(f"{path}: has no scores; expected lines `query document score`")
    return scores


def number_in(path: Path, number: int, text: str) -> float:
    """Return the score in a column of a line."""
    try:
        return float(text)
    except ValueError:
        raise located(path, number, f"score {text!r} is not a number") from None


@lru_cache(maxsize=2)
def _order(seed: int, epoch: int, queries: int) -> Ints:
    """Return the order of the queries in one epoch."""
    return np.random.default_rng((seed, 0, epoch)).permutation(queries)
