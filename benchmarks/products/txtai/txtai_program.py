"""txtai: an embeddings database with content, words and vectors, saved to a folder after every change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from minilm_vectors import encode
from product_protocol import Product, Text, answer_all, read_texts
from txtai import Embeddings


class Txtai(Product):
    """Hybrid search; its model, MiniLM by default, would be downloaded, so its vectors come from a function."""

    packages = ("txtai", "faiss-cpu")
    about_model = "downloads MiniLM"
    explains = "how much each word matters, by leaving it out"

    def build(self, folder: Path) -> int:
        self.embeddings = Embeddings(method="external", transform=_vectors, hybrid=True, content=True)
        self.embeddings.index(_rows(read_texts(folder)))
        self.embeddings.save(str(self.store))
        return 0

    def search(self, text: str, k: int) -> list[str]:
        return [row["id"] for row in self.embeddings.search(text, k)]

    # --- more

    def open(self) -> None:
        self.embeddings = Embeddings(method="external", transform=_vectors)
        self.embeddings.load(str(self.store), config={"transform": _vectors})

    def search_in(self, part: str, text: str, k: int) -> list[str]:
        sql = "SELECT id FROM txtai WHERE similar(:text) AND part = :part"
        return [row["id"] for row in self.embeddings.search(sql, k, parameters={"text": text, "part": part})]

    def ids(self) -> list[str]:
        return [row["id"] for row in self.embeddings.search("SELECT id FROM txtai", self.embeddings.count() + 1)]

    def add(self, docs: Sequence[Text]) -> None:
        self.embeddings.upsert(_rows(docs))
        self.embeddings.save(str(self.store))

    def delete(self, ids: Sequence[str]) -> None:
        self.embeddings.delete(list(ids))
        self.embeddings.save(str(self.store))


def _rows(docs: Sequence[Text]) -> Iterator[tuple[str, dict[str, Any], None]]:
    return ((doc["id"], {"text": doc["text"], "part": doc["part"]}, None) for doc in docs)


def _vectors(texts: Sequence[str]) -> Any:
    return encode(texts)


if __name__ == "__main__":
    answer_all(Txtai)
