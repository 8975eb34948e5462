"""The collection to measure on: documents, the judged queries of one split, and the judgements."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from denslice.corpus.datasets import DATASET_PREFIX, is_dataset
from denslice.corpus.documents import read_docs, read_queries
from denslice.corpus.runs import read_qrels
from denslice.errors import InputError
from denslice.queries import Query


@dataclass(frozen=True)
class Collection:
    """A collection without its texts, which are streamed from the source for encoding."""

    name: str
    source: str  # a BEIR folder or an ir_datasets: name
    doc_ids: list[str]
    queries: list[Query]
    qrels: dict[str, dict[str, int]]
    docs_fingerprint: str
    queries_fingerprint: str  # of documents and queries, as the weights of bm25's queries depend on the documents
    fingerprint: str  # of documents, queries and judgements

    def doc_texts(self) -> Iterator[str]:
        """Return the text of each document, in the order of `doc_ids`."""
        return (doc.contents for doc in read_docs([self.source]))


def read_collection(source: str, split: str = "test") -> Collection:
    """Read the collection of a BEIR folder, or of an `ir_datasets:` name, which includes the split."""
    qrels = read_qrels(source if is_dataset(source) else _qrels_file(Path(source), split))
    queries = [query for query in read_queries(source) if query.id in qrels]
    if missing := qrels.keys() - {query.id for query in queries}:
        raise InputError(f"{source}: query {min(missing)!r} is judged, and is not among the queries")
    doc_ids, docs = [], sha256()
    for doc in read_docs([source]):
        doc_ids.append(doc.id)
        docs.update(_told(doc.id, doc.contents))
    asked = sha256(docs.digest())
    for query in queries:
        asked.update(_told(query.id, query.text))
    judged = sha256(asked.digest() + json.dumps(qrels, sort_keys=True).encode())
    prints = (docs.hexdigest(), asked.hexdigest(), judged.hexdigest())
    name = source.removeprefix(DATASET_PREFIX) if is_dataset(source) else Path(source).resolve().name
    return Collection(name, source, doc_ids, queries, qrels, *prints)


def _qrels_file(folder: Path, split: str) -> Path:
    found = folder / "qrels" / f"{split}.tsv"
    if not found.exists():
        raise InputError(f"{found}: no such file; --data names a BEIR folder, and --split one of its qrels")
    return found


def _told(id: str, text: str) -> bytes:
    return f"{id}\0{text}\0".encode("utf-8", "surrogatepass")
