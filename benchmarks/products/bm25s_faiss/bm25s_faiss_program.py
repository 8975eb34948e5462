"""bm25s and Faiss side by side, their lists joined by reciprocal ranks: what a newcomer builds from two libraries.

Neither changes a document in place or filters by a field. So the texts are kept in a file, every change builds both
indexes again, and a filter is applied to longer lists.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import bm25s
import faiss
import Stemmer
from minilm_vectors import encode
from product_protocol import Product, Text, answer_all, read_texts

RANKS = 60  # the constant of reciprocal rank fusion
DEPTH = 100  # documents of each list


class Bm25sFaiss(Product):
    """Both indexes in memory, saved to a folder."""

    packages = ("bm25s", "faiss-cpu", "PyStemmer")
    about_model = "none"
    explains = "nothing; the two ranks can be shown"

    def build(self, folder: Path) -> int:
        self.store.mkdir()
        self._make(read_texts(folder))
        return 0

    def _make(self, docs: Sequence[Text]) -> None:
        self.docs, texts = list(docs), [doc["text"] for doc in docs]
        self.words = bm25s.BM25()
        self.words.index(
            bm25s.tokenize(texts, stopwords="en", stemmer=STEMMER, show_progress=False), show_progress=False
        )
        vectors = encode(texts)
        self.vectors: faiss.Index = faiss.IndexFlatIP(vectors.shape[1])
        self.vectors.add(vectors)
        self.words.save(str(self.store / "words"), show_progress=False)
        faiss.write_index(self.vectors, str(self.store / "vectors"))
        (self.store / "texts.json").write_text(json.dumps(self.docs), encoding="utf-8")

    def search(self, text: str, k: int) -> list[str]:
        return [self.docs[row]["id"] for row in self._joined(text, DEPTH)[:k]]

    def _joined(self, text: str, depth: int) -> list[int]:
        """Return the rows that either list has, by the sum of their reciprocal ranks."""
        depth = min(depth, len(self.docs))
        tokens = bm25s.tokenize(text, stopwords="en", stemmer=STEMMER, show_progress=False)
        by_words = self.words.retrieve(tokens, k=depth, show_progress=False).documents[0].tolist()
        _, by_vector = self.vectors.search(encode([text]), depth)
        scores: dict[int, float] = {}
        for rows in (by_words, by_vector[0].tolist()):
            for rank, row in enumerate(rows, 1):
                scores[row] = scores.get(row, 0.0) + 1 / (RANKS + rank)
        return sorted(scores, key=lambda row: -scores[row])

    # --- more

    def open(self) -> None:
        self.words = bm25s.BM25.load(str(self.store / "words"))
        self.vectors = faiss.read_index(str(self.store / "vectors"))
        self.docs = json.loads((self.store / "texts.json").read_text(encoding="utf-8"))

    def search_in(self, part: str, text: str, k: int) -> list[str]:
        depth = DEPTH
        while True:
            found = [row for row in self._joined(text, depth) if self.docs[row]["part"] == part][:k]
            if len(found) == k or depth >= len(self.docs):
                return [self.docs[row]["id"] for row in found]
            depth *= 10

    def ids(self) -> list[str]:
        return [doc["id"] for doc in self.docs]

    def add(self, docs: Sequence[Text]) -> None:
        self._make(list(({doc["id"]: doc for doc in self.docs} | {doc["id"]: doc for doc in docs}).values()))

    def delete(self, ids: Sequence[str]) -> None:
        self._make([doc for doc in self.docs if doc["id"] not in set(ids)])


STEMMER = Stemmer.Stemmer("english")

if __name__ == "__main__":
    answer_all(Bm25sFaiss)
