"""zvec: a collection with HNSW over MiniLM's vectors and a full-text index, joined by reciprocal ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import zvec
from minilm_vectors import DIMENSIONS, encode, encode_one
from product_protocol import Product, Text, answer_all, read_texts

AT_ONCE = 1_000  # documents of an insert
SCHEMA = zvec.CollectionSchema(
    name="docs",
    fields=[
        zvec.FieldSchema("id", zvec.DataType.STRING),
        zvec.FieldSchema("part", zvec.DataType.STRING, index_param=zvec.InvertIndexParam()),
        zvec.FieldSchema(
            "text", zvec.DataType.STRING, index_param=zvec.FtsIndexParam(filters=["lowercase", "stemmer"])
        ),
    ],
    vectors=zvec.VectorSchema(
        "vector", zvec.DataType.VECTOR_FP32, DIMENSIONS, zvec.HnswIndexParam(metric_type=zvec.MetricType.COSINE)
    ),
)


class Zvec(Product):
    """A collection that is optimized once its documents are there."""

    packages = ("zvec",)
    about_model = "downloads MiniLM"
    explains = "the joined score"

    def build(self, folder: Path) -> int:
        self.docs = zvec.create_and_open(str(self.store), SCHEMA)
        self.add(read_texts(folder))
        self.docs.optimize()
        return 0

    def add(self, docs: Sequence[Text]) -> None:
        for some in (docs[start : start + AT_ONCE] for start in range(0, len(docs), AT_ONCE)):
            vectors = encode([doc["text"] for doc in some])
            rows = [
                zvec.Doc(id=_key(doc["id"]), vectors={"vector": vector}, fields=dict(doc))
                for doc, vector in zip(some, vectors, strict=True)
            ]
            _check(self.docs.upsert(rows))
        self.docs.flush()

    def search(self, text: str, k: int) -> list[str]:
        return self._hybrid(text, k, None)

    def _hybrid(self, text: str, k: int, within: str | None) -> list[str]:
        queries = [zvec.Query("vector", vector=encode_one(text)), zvec.Query("text", fts=zvec.Fts(match_string=text))]
        found = self.docs.query(queries, topk=k, filter=within, output_fields=["id"], reranker=zvec.RrfReRanker())
        return [doc.field("id") for doc in found]

    # --- more

    def open(self) -> None:
        self.docs = zvec.open(str(self.store))

    def search_in(self, part: str, text: str, k: int) -> list[str]:
        return self._hybrid(text, k, f"part = '{part}'")

    def ids(self) -> list[str]:
        found = [self.docs.query(topk=MOST, filter=f"part = '{part}'", output_fields=["id"]) for part in PARTS]
        return [doc.field("id") for some in found for doc in some]

    def delete(self, ids: Sequence[str]) -> None:
        _check(self.docs.delete([_key(id) for id in ids]))
        self.docs.flush()

    def explain(self, text: str, id: str) -> Any:
        return self.docs.query(zvec.Query("vector", vector=encode_one(text)), topk=1)[0].score


MOST = 100_000  # documents that a query can return
PARTS = [f"part{number}" for number in range(10)]


def _key(id: str) -> str:
    """Return an id without a slash."""
    return Path(id).stem


def _check(done: Sequence[Any]) -> None:
    if failed := [one for one in done if not one.ok()]:
        raise SystemExit(f"{len(failed)} documents were refused, such as {failed[0]}")


if __name__ == "__main__":
    answer_all(Zvec)
