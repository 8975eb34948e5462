"""Qdrant Edge, the engine of Qdrant in the process: MiniLM's vectors and its own BM25, joined by reciprocal ranks.

The local mode of qdrant-client advises against more than 20,000 points. Ids are numbers here, so the id of the text is
in the payload. Updates come in batches, as in its examples; after them, the optimizer builds the indexes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import qdrant_edge as qdrant
from minilm_vectors import DIMENSIONS, encode, encode_one
from product_protocol import Product, Text, answer_all, read_texts

AT_ONCE = 1_000  # points of an update
DEPTH = 100  # documents of each list
BM25 = qdrant.Bm25(qdrant.Bm25Config(language="english"))
CONFIG = qdrant.EdgeConfig(
    vectors={"dense": qdrant.EdgeVectorParams(size=DIMENSIONS, distance=qdrant.Distance.Cosine)},
    sparse_vectors={"words": qdrant.EdgeSparseVectorParams(modifier=qdrant.Modifier.Idf)},
)


class QdrantEdge(Product):
    """A shard with an index of the field that is filtered by."""

    packages = ("qdrant-edge-py",)
    about_model = "none; qdrant-client downloads one"
    explains = "the joined score"

    def build(self, folder: Path) -> int:
        self.store.mkdir()
        self.shard = qdrant.EdgeShard.create(str(self.store), CONFIG)
        index = qdrant.UpdateOperation.create_field_index("part", qdrant.PayloadSchemaType.Keyword)
        self.shard.update(index)
        self.add(read_texts(folder))
        self.shard.optimize()
        return 0

    def add(self, docs: Sequence[Text]) -> None:
        for some in (docs[start : start + AT_ONCE] for start in range(0, len(docs), AT_ONCE)):
            vectors = encode([doc["text"] for doc in some]).tolist()
            points = [
                qdrant.Point(
                    _number(doc["id"]), {"dense": vector, "words": BM25.embed_document(doc["text"])}, dict(doc)
                )
                for doc, vector in zip(some, vectors, strict=True)
            ]
            self.shard.update(qdrant.UpdateOperation.upsert_points(points))
        self.shard.flush()

    def search(self, text: str, k: int) -> list[str]:
        return [point.payload["id"] for point in self._hybrid(text, k, None)]

    def _hybrid(self, text: str, k: int, within: qdrant.Filter | None) -> Any:
        queries = (
            qdrant.Query.Nearest(encode_one(text), using="dense"),
            qdrant.Query.Nearest(BM25.embed_query(text), using="words"),
        )
        lists = [qdrant.Prefetch(limit=DEPTH, query=query, filter=within) for query in queries]
        joined = qdrant.QueryRequest(limit=k, prefetches=lists, query=qdrant.Fusion.Rrf(k=2), with_payload=["id"])
        return self.shard.query(joined)

    # --- more

    def open(self) -> None:
        self.shard = qdrant.EdgeShard.load(str(self.store), CONFIG)

    def search_in(self, part: str, text: str, k: int) -> list[str]:
        within = qdrant.Filter(must=[qdrant.FieldCondition("part", match=qdrant.MatchValue(part))])
        return [point.payload["id"] for point in self._hybrid(text, k, within)]

    def ids(self) -> list[str]:
        count = self.shard.count(qdrant.CountRequest())
        records, _ = self.shard.scroll(qdrant.ScrollRequest(limit=count + 1, with_payload=["id"]))
        return [record.payload["id"] for record in records]

    def delete(self, ids: Sequence[str]) -> None:
        self.shard.update(qdrant.UpdateOperation.delete_points([_number(id) for id in ids]))
        self.shard.flush()

    def explain(self, text: str, id: str) -> Any:
        return self._hybrid(text, 1, None)[0].score


def _number(id: str) -> int:
    return int(Path(id).stem)


if __name__ == "__main__":
    answer_all(QdrantEdge)
