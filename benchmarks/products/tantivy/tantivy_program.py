"""tantivy: an index of words on disk, with the English stemmer that its tutorial shows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tantivy
from product_protocol import Product, Text, answer_all, read_texts


class Tantivy(Product):
    """BM25 over stemmed words, documents stored."""

    search_kind = "words"
    needs_minilm = False
    packages = ("tantivy",)
    about_model = "none"
    explains = "BM25 of each word as a tree: idf, frequency, length"

    def build(self, folder: Path) -> int:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("id", stored=True, tokenizer_name="raw")
        builder.add_text_field("part", stored=True, tokenizer_name="raw")
        builder.add_text_field("text", stored=True, tokenizer_name="en_stem")
        self.store.mkdir()
        self.index = tantivy.Index(builder.build(), path=str(self.store))
        self.add(read_texts(folder))
        return 0

    def add(self, docs: Sequence[Text]) -> None:
        writer = self.index.writer()
        for doc in docs:
            writer.delete_documents_by_term("id", doc["id"])
            writer.add_document(tantivy.Document(**doc))
        writer.commit()
        writer.wait_merging_threads()
        self.index.reload()

    def search(self, text: str, k: int) -> list[str]:
        query, _ = self.index.parse_query_lenient(text, ["text"])
        return self._found(query, k)

    def _found(self, query: tantivy.Query, k: int) -> list[str]:
        searcher = self.index.searcher()
        return [str(searcher.doc(address)["id"][0]) for _, address in searcher.search(query, k).hits]

    # --- more

    def open(self) -> None:
        self.index = tantivy.Index.open(str(self.store))

    def search_in(self, part: str, text: str, k: int) -> list[str]:
        query, _ = self.index.parse_query_lenient(text, ["text"])
        within = tantivy.Query.term_query(self.index.schema, "part", part)
        both = [(tantivy.Occur.Must, query), (tantivy.Occur.Must, tantivy.Query.const_score_query(within, 0.0))]
        return self._found(tantivy.Query.boolean_query(both), k)

    def ids(self) -> list[str]:
        return self._found(tantivy.Query.all_query(), max(1, self.index.searcher().num_docs))

    def delete(self, ids: Sequence[str]) -> None:
        writer = self.index.writer()
        for id in ids:
            writer.delete_documents_by_term("id", id)
        writer.commit()
        self.index.reload()

    def explain(self, text: str, id: str) -> Any:
        query, _ = self.index.parse_query_lenient(text, ["text"])
        searcher = self.index.searcher()
        found = searcher.search(tantivy.Query.term_query(self.index.schema, "id", id), 1).hits
        return query.explain(searcher, found[0][1]).to_json()


if __name__ == "__main__":
    answer_all(Tantivy)
