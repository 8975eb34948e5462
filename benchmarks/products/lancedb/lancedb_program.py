"""LanceDB: a table with a full-text index; hybrid search joins words and vectors by reciprocal ranks, its default."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lancedb
from lancedb.index import FTS
from lancedb.query import MatchQuery
from minilm_vectors import encode, encode_one
from product_protocol import Product, Text, answer_all, read_texts


class Lancedb(Product):
    """A table without a vector index, which its documentation calls for in larger tables.

    A question is a MatchQuery, since a plain text in quotes is an error unless the index stores positions.
    """

    packages = ("lancedb", "pyarrow")
    about_model = "downloads one"
    explains = "the plan of the query; the joined score, and with an option the two it came from"

    def build(self, folder: Path) -> int:
        database = lancedb.connect(str(self.store))
        self.table = database.create_table("docs", _rows(read_texts(folder)))
        self.table.create_index("text", config=FTS())
        return 0

    def search(self, text: str, k: int) -> list[str]:
        found = self._hybrid(text).limit(k).to_list()
        return [row["id"] for row in found]

    def _hybrid(self, text: str) -> Any:
        return self.table.search(query_type="hybrid").vector(encode_one(text)).text(MatchQuery(text, "text"))

    # --- more

    def open(self) -> None:
        self.table = lancedb.connect(str(self.store)).open_table("docs")

    def search_in(self, part: str, text: str, k: int) -> list[str]:
        found = self._hybrid(text).where(f"part = '{part}'", prefilter=True).limit(k).to_list()
        return [row["id"] for row in found]

    def ids(self) -> list[str]:
        ids: list[str] = (
            self.table.search().select(["id"]).limit(self.table.count_rows() + 1).to_arrow()["id"].to_pylist()
        )
        return ids

    def add(self, docs: Sequence[Text]) -> None:
        self.table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(_rows(docs))

    def delete(self, ids: Sequence[str]) -> None:
        listed = ", ".join(f"'{id}'" for id in ids)
        self.table.delete(f"id IN ({listed})")

    def explain(self, text: str, id: str) -> Any:
        return self._hybrid(text).limit(1).explain_plan()


def _rows(docs: Sequence[Text]) -> list[dict[str, Any]]:
    vectors = encode([doc["text"] for doc in docs])
    return [{**doc, "vector": vector} for doc, vector in zip(docs, vectors, strict=True)]


if __name__ == "__main__":
    answer_all(Lancedb)
