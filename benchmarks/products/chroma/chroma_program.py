"""Chroma: a persistent collection of texts and vectors. It ranks by vectors; words can only be required."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chromadb
from minilm_vectors import encode
from product_protocol import Product, Text, answer_all, read_texts


class Chroma(Product):
    """A collection whose vectors are given, because its default model is downloaded."""

    search_kind = "vectors"
    packages = ("chromadb",)
    about_model = "downloads MiniLM"
    explains = "the distance"

    def build(self, folder: Path) -> int:
        self.open()
        self.add(read_texts(folder))
        return 0

    def open(self) -> None:
        self.client = chromadb.PersistentClient(str(self.store))
        self.docs = self.client.get_or_create_collection("docs", embedding_function=None)

    def add(self, docs: Sequence[Text]) -> None:
        size = self.client.get_max_batch_size()
        for some in (docs[start : start + size] for start in range(0, len(docs), size)):
            texts = [doc["text"] for doc in some]
            parts = [{"part": doc["part"]} for doc in some]
            self.docs.upsert(
                ids=[doc["id"] for doc in some], documents=texts, embeddings=encode(texts), metadatas=parts
            )

    def search(self, text: str, k: int) -> list[str]:
        return list(self.docs.query(query_embeddings=encode([text]), n_results=k)["ids"][0])

    # --- more

    def search_in(self, part: str, text: str, k: int) -> list[str]:
        return list(self.docs.query(query_embeddings=encode([text]), n_results=k, where={"part": part})["ids"][0])

    def ids(self) -> list[str]:
        return list(self.docs.get(include=[])["ids"])

    def delete(self, ids: Sequence[str]) -> None:
        self.docs.delete(ids=list(ids))

    def explain(self, text: str, id: str) -> Any:
        return self.docs.query(query_embeddings=encode([text]), n_results=1)["distances"]


if __name__ == "__main__":
    answer_all(Chroma)
