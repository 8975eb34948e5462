"""SQLite with sqlite-vec and FTS5, joined by reciprocal ranks in SQL, in one file and one transaction.

pysqlite3 is SQLite for Python with extensions allowed, which not every Python has.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pysqlite3 as sqlite3
import sqlite_vec
from minilm_vectors import encode
from product_protocol import Product, Text, answer_all, read_texts

DEPTH = 100  # documents of each list
TABLES = """
CREATE TABLE docs (number INTEGER PRIMARY KEY, id TEXT UNIQUE, part TEXT, text TEXT);
CREATE VIRTUAL TABLE words USING fts5(text, content='', contentless_delete=1, tokenize='porter unicode61');
CREATE VIRTUAL TABLE vectors
    USING vec0(number INTEGER PRIMARY KEY, part TEXT, vector float[384] distance_metric=cosine);
"""
JOINED = """
WITH by_vector AS (
    SELECT number, row_number() OVER (ORDER BY distance) AS rank FROM vectors
    WHERE vector MATCH :vector AND k = :depth {near}
), by_words AS (
    SELECT number, row_number() OVER (ORDER BY score) AS rank FROM (
        SELECT words.rowid AS number, words.rank AS score FROM words {within}
        WHERE words MATCH :words ORDER BY words.rank LIMIT :depth
    )
), both AS (SELECT * FROM by_vector UNION ALL SELECT * FROM by_words)
SELECT id FROM both JOIN docs USING (number) GROUP BY number ORDER BY sum(1.0 / (60 + rank)) DESC LIMIT :k
"""


class SqliteVec(Product):
    """Three tables: texts, words, vectors."""

    packages = ("sqlite-vec", "pysqlite3-binary")
    about_model = "none"
    explains = "nothing; the two ranks, the distance and FTS5's bm25() can be selected"

    def build(self, folder: Path) -> int:
        self.open()
        self.database.executescript(TABLES)
        self.add(read_texts(folder))
        return 0

    def open(self) -> None:
        self.database = sqlite3.connect(str(self.store))
        self.database.enable_load_extension(True)
        sqlite_vec.load(self.database)
        self.database.enable_load_extension(False)

    def add(self, docs: Sequence[Text]) -> None:
        vectors = encode([doc["text"] for doc in docs])
        with self.database:
            self._remove([doc["id"] for doc in docs])
            for doc, vector in zip(docs, vectors, strict=True):
                stored = self.database.execute("INSERT INTO docs (id, part, text) VALUES (:id, :part, :text)", doc)
                number = stored.lastrowid
                self.database.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (number, doc["text"]))
                self.database.execute("INSERT INTO vectors VALUES (?, ?, ?)", (number, doc["part"], vector))

    def search(self, text: str, k: int) -> list[str]:
        return self._joined(text, k, JOINED.format(near="", within=""), {})

    def _joined(self, text: str, k: int, sql: str, more: dict[str, Any]) -> list[str]:
        words = " OR ".join('"{}"'.format(word.replace('"', '""')) for word in text.split())
        asked = {"vector": encode([text])[0], "words": words, "depth": DEPTH, "k": k} | more
        return [id for (id,) in self.database.execute(sql, asked)]

    def _remove(self, ids: Sequence[str]) -> None:
        for id in ids:
            found = self.database.execute("DELETE FROM docs WHERE id = ? RETURNING number", (id,)).fetchall()
            self.database.executemany("DELETE FROM words WHERE rowid = ?", found)
            self.database.executemany("DELETE FROM vectors WHERE number = ?", found)

    # --- more

    def search_in(self, part: str, text: str, k: int) -> list[str]:
        within = "JOIN docs ON docs.number = words.rowid AND docs.part = :part"
        return self._joined(text, k, JOINED.format(near="AND part = :part", within=within), {"part": part})

    def ids(self) -> list[str]:
        return [id for (id,) in self.database.execute("SELECT id FROM vectors JOIN docs USING (number)")]

    def delete(self, ids: Sequence[str]) -> None:
        with self.database:
            self._remove(ids)


if __name__ == "__main__":
    answer_all(SqliteVec)
