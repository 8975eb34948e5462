"""Milvus Lite: a local file behind the client of Milvus, with its BM25 function; lists joined by reciprocal ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minilm_vectors import DIMENSIONS, encode, encode_one
from product_protocol import Product, Text, answer_all, read_texts
from pymilvus import AnnSearchRequest, DataType, Function, FunctionType, MilvusClient, RRFRanker

AT_ONCE = 1_000  # rows of an insert
DEPTH = 100  # documents of each list


class MilvusLite(Product):
    """A collection with a field of MiniLM's vectors and one of BM25's weights."""

    packages = ("milvus-lite", "pymilvus")
    about_model = "downloads one"
    explains = "the joined score"

    def build(self, folder: Path) -> int:
        self.client = MilvusClient(str(self.store) + ".db")
        schema = MilvusClient.create_schema(auto_id=False)
        schema.add_field("id", DataType.VARCHAR, is_primary=True, max_length=100)
        schema.add_field("part", DataType.VARCHAR, max_length=100)
        schema.add_field("text", DataType.VARCHAR, max_length=65_535, enable_analyzer=True)
        schema.add_field("dense", DataType.FLOAT_VECTOR, dim=DIMENSIONS)
        schema.add_field("words", DataType.SPARSE_FLOAT_VECTOR)
        bm25 = Function("bm25", FunctionType.BM25, input_field_names=["text"], output_field_names=["words"])
        schema.add_function(bm25)
        indexes = MilvusClient.prepare_index_params()
        indexes.add_index("dense", index_type="AUTOINDEX", metric_type="COSINE")
        indexes.add_index("words", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
        self.client.create_collection("docs", schema=schema, index_params=indexes)
        self.add(read_texts(folder))
        self.client.flush("docs")  # without it, searches read rows that have no index, and take many times as long
        return 0

    def add(self, docs: Sequence[Text]) -> None:
        for some in (docs[start : start + AT_ONCE] for start in range(0, len(docs), AT_ONCE)):
            vectors = encode([doc["text"] for doc in some])
            self.client.upsert("docs", [{**doc, "dense": vector} for doc, vector in zip(some, vectors, strict=True)])

    def search(self, text: str, k: int) -> list[str]:
        return self._hybrid(text, k, "")

    def _hybrid(self, text: str, k: int, within: str) -> list[str]:
        near = AnnSearchRequest([encode_one(text)], "dense", {"metric_type": "COSINE"}, DEPTH, expr=within)
        words = AnnSearchRequest([text], "words", {"metric_type": "BM25"}, DEPTH, expr=within)
        found = self.client.hybrid_search("docs", [near, words], RRFRanker(), limit=k, output_fields=["id"])
        return [hit["id"] for hit in found[0]]

    # --- more

    def open(self) -> None:
        self.client = MilvusClient(str(self.store) + ".db")
        self.client.load_collection("docs")

    def search_in(self, part: str, text: str, k: int) -> list[str]:
        return self._hybrid(text, k, f"part == '{part}'")

    def ids(self) -> list[str]:
        pages, found = self.client.query_iterator("docs", batch_size=AT_ONCE, output_fields=["id"]), list[str]()
        while page := pages.next():
            found += [row["id"] for row in page]
        return found

    def delete(self, ids: Sequence[str]) -> None:
        self.client.delete("docs", ids=list(ids))

    def explain(self, text: str, id: str) -> Any:
        near = AnnSearchRequest([encode_one(text)], "dense", {"metric_type": "COSINE"}, 1)
        return self.client.hybrid_search("docs", [near], RRFRanker(), limit=1)[0][0]["distance"]


if __name__ == "__main__":
    answer_all(MilvusLite)
