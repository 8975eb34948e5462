"""The engines that word_peers.py compares: each builds an index of the sentences and answers questions about it.

Every engine keeps the texts, and returns the numbers of the ten best documents.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import bm25s
import Stemmer
import tantivy

from denslice import Index, Query, open_index
from word_collection import TOPICS, YEARS, Question, Sentence

K = 10
FIELDS = ("year", "topic")
KINDS = ("plain", "phrase", "prefix", "fuzzy", "facets")
Facets = dict[str, dict[Any, int]]  # by field and value, values that no document has left out


class WordEngine(Protocol):
    """An engine with an index in a folder."""

    @property
    def kinds(self) -> Sequence[str]:
        """The kinds of questions that it can answer."""

    def build(self, docs: Sequence[Sentence]) -> None:
        """Write the index."""

    def open(self) -> None:
        """Open the index."""

    def best(self, question: Question) -> list[int]:
        """Return the ten best documents: this is what is timed, for facets together with them."""

    def matching(self, question: Question) -> set[int]:
        """Return every document that matches."""

    def facets(self, question: Question) -> Facets:
        """Return how many matching documents have each value of the fields."""


class DensliceWords:
    """denslice with its encoder bm25 and nothing set but the filterable fields."""

    kinds = KINDS

    def __init__(self, folder: Path) -> None:
        self._path = folder / "denslice.idx"
        self._index: Index

    def build(self, docs: Sequence[Sentence]) -> None:
        """Add the documents in one commit and merge the segments."""
        with Index.create(self._path, "bm25", filterable=list(FIELDS)) as index:
            index.add({"id": str(d.number), "text": d.text, "year": d.year, "topic": d.topic} for d in docs)
            index.merge()

    def open(self) -> None:
        """Open the index."""
        self._index = open_index(self._path)
        self._total = len(self._index)

    def best(self, question: Question) -> list[int]:
        """Return the ten best documents."""
        return [int(id) for id in self._index.search(_typed(question), K).ids]

    def matching(self, question: Question) -> set[int]:
        """Return every document that matches: of a prefix or a misspelt word, also those that are not scored."""
        required = "+" if question.kind in ("prefix", "fuzzy") else ""
        typed = _typed(question)
        asked = f"{required}{typed}" if isinstance(typed, str) else typed
        return {int(id) for id in self._index.search(asked, self._total).ids}

    def facets(self, question: Question) -> Facets:
        """Return the ten best documents' facets."""
        found = self._index.search(_typed(question), K, facets=list(FIELDS))
        return {name: dict(counts) for name, counts in found.facets.items()}

    def tokens(self, question: Question) -> set[str]:
        """Return the tokens of a question."""
        return self._index.search(_typed(question), K).tokens()


def _typed(question: Question) -> str | Query:
    """Return the question as people type it, or as a value if it has no operators."""
    match question.kind:
        case "phrase":
            return f'"{question.text}"'
        case "prefix":
            return f"{question.text}*"
        case "fuzzy":
            return f"{question.text}~"
        case _:
            return Query(text=question.text)


class TantivyWords:
    """tantivy with its default tokenizer, which does not stem, and fast fields."""

    kinds = KINDS

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "tantivy"
        schema = tantivy.SchemaBuilder()
        schema.add_text_field("text", stored=True)
        schema.add_integer_field("number", fast=True, indexed=False)
        schema.add_integer_field("year", fast=True, indexed=True)
        schema.add_text_field("topic", fast=True, tokenizer_name="raw", index_option="basic")
        self._schema = schema.build()
        self._analyzer = plain_tantivy_analyzer()

    def build(self, docs: Sequence[Sentence]) -> None:
        """Add the documents in one commit, and wait for merges."""
        self._folder.mkdir()
        writer = tantivy.Index(self._schema, path=str(self._folder)).writer(256_000_000)
        for doc in docs:
            fields = {"text": doc.text, "number": doc.number, "year": doc.year, "topic": doc.topic}
            writer.add_document(tantivy.Document.from_dict(fields, self._schema))
        writer.commit()
        writer.wait_merging_threads()

    def open(self) -> None:
        """Open the index."""
        self._searcher = tantivy.Index.open(str(self._folder)).searcher()

    def best(self, question: Question) -> list[int]:
        """Return the ten best documents, which are not counted."""
        return self._numbers(self._query(question), K)

    def matching(self, question: Question) -> set[int]:
        """Return every document that matches."""
        return set(self._numbers(self._query(question), self._searcher.num_docs))

    def facets(self, question: Question) -> Facets:
        """Return the counts of the fields; the ten best documents are found too."""
        query = self._query(question)
        self._numbers(query, K)
        asked = {name: {"terms": {"field": name, "size": max(len(YEARS), len(TOPICS))}} for name in FIELDS}
        found = self._searcher.aggregate(query, asked)
        return {name: {one["key"]: one["doc_count"] for one in found[name]["buckets"]} for name in FIELDS}

    def _numbers(self, query: tantivy.Query, limit: int) -> list[int]:
        hits = self._searcher.search(query, limit, count=False).hits
        return numbers_of(self._searcher, [address for _, address in hits])

    def _query(self, question: Question) -> tantivy.Query:
        match question.kind:
            case "phrase":
                return tantivy.Query.phrase_query(self._schema, "text", list(question.words))
            case "prefix":
                # its query for prefixes stands for the first 50 words alone
                return tantivy.Query.regex_query(self._schema, "text", f"{question.text}.*")
            case "fuzzy":
                return tantivy.Query.fuzzy_term_query(self._schema, "text", question.text, distance=1)
            case _:
                return any_of(self._schema, self._analyzer.analyze(question.text))


def plain_tantivy_analyzer(*filters: tantivy.Filter) -> tantivy.TextAnalyzer:
    """Return tantivy's default analyzer, with further filters."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for one in (tantivy.Filter.remove_long(40), tantivy.Filter.lowercase(), *filters):
        builder = builder.filter(one)
    return builder.build()


def any_of(schema: tantivy.Schema, tokens: Iterable[str]) -> tantivy.Query:
    """Return the query for documents with any of these tokens."""
    terms = [tantivy.Query.term_query(schema, "text", token) for token in tokens]
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])


def numbers_of(searcher: tantivy.Searcher, addresses: Sequence[tantivy.DocAddress]) -> list[int]:
    """Return the field `number` of these documents."""
    return [int(number) for number in searcher.fast_field_values("number", list(addresses)) if number is not None]


class Fts5Words:
    """SQLite FTS5 with the tokenizer unicode61, which does not stem, and with an index of prefixes. It has no fuzzy."""

    kinds = tuple(kind for kind in KINDS if kind != "fuzzy")

    def __init__(self, folder: Path) -> None:
        self._path = folder / "fts5.sqlite"

    def build(self, docs: Sequence[Sentence]) -> None:
        """Insert the documents in one transaction and merge the segments."""
        with sqlite3.connect(self._path) as database:
            database.execute("CREATE TABLE docs (number INTEGER PRIMARY KEY, year INTEGER, topic TEXT)")
            tokenize, prefixes = "unicode61 remove_diacritics 2", "3 4 5"
            database.execute(f"CREATE VIRTUAL TABLE words USING fts5(text, tokenize='{tokenize}', prefix='{prefixes}')")
            database.executemany("INSERT INTO docs VALUES (?, ?, ?)", ((d.number, d.year, d.topic) for d in docs))
            database.executemany("INSERT INTO words(rowid, text) VALUES (?, ?)", ((d.number, d.text) for d in docs))
            database.execute("INSERT INTO words(words) VALUES ('optimize')")
        database.close()

    def open(self) -> None:
        """Open the index."""
        self._database = sqlite3.connect(self._path)
        self._database.execute(f"PRAGMA mmap_size = {1 << 31}")

    def best(self, question: Question) -> list[int]:
        """Return the ten best documents."""
        found = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
        return [number for (number,) in self._database.execute(found, (_matched(question), K))]

    def matching(self, question: Question) -> set[int]:
        """Return every document that matches."""
        found = "SELECT rowid FROM words WHERE words MATCH ?"
        return {number for (number,) in self._database.execute(found, (_matched(question),))}

    def facets(self, question: Question) -> Facets:
        """Return the counts of the fields; the ten best documents are found too."""
        self.best(question)
        found = (
            "WITH found AS MATERIALIZED (SELECT rowid AS number FROM words WHERE words MATCH ?) "
            + " UNION ALL ".join(
                f"SELECT '{name}', {name}, COUNT(*) FROM found JOIN docs USING (number) GROUP BY {name}"
                for name in FIELDS
            )
        )
        counts: Facets = {name: {} for name in FIELDS}
        for name, value, count in self._database.execute(found, (_matched(question),)):
            counts[name][value] = count
        return counts


def _matched(question: Question) -> str:
    match question.kind:
        case "phrase":
            return f'"{question.text}"'
        case "prefix":
            return f"{question.text}*"
        case _:
            return quoted(question.text.split())


def quoted(words: Iterable[str]) -> str:
    """Return the FTS5 query for documents with any of these words."""
    return " OR ".join('"{}"'.format(word.replace('"', '""')) for word in dict.fromkeys(words))


class Bm25sWords:
    """bm25s with the English stemmer. It has plain questions alone."""

    kinds = ("plain",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "bm25s"
        self._stemmer = Stemmer.Stemmer("english")

    def build(self, docs: Sequence[Sentence]) -> None:
        """Index the documents and save them."""
        corpus = [doc.text for doc in docs]
        index = bm25s.BM25()
        index.index(bm25s.tokenize(corpus, stemmer=self._stemmer, show_progress=False), show_progress=False)
        index.save(str(self._folder), corpus=corpus, show_progress=False)

    def open(self) -> None:
        """Load the index into memory."""
        self._index = bm25s.BM25.load(str(self._folder))

    def best(self, question: Question) -> list[int]:
        """Return the ten best documents."""
        asked = bm25s.tokenize(question.text, stemmer=self._stemmer, show_progress=False, return_ids=False)
        found: list[int] = self._index.retrieve(asked, k=K, show_progress=False).documents[0].tolist()
        return found

    def matching(self, question: Question) -> set[int]:
        """Return nothing: it cannot tell."""
        return set()

    def facets(self, question: Question) -> Facets:
        """Return nothing: it has none."""
        return {}


ENGINES: dict[str, Callable[[Path], WordEngine]] = {
    "denslice": DensliceWords,
    "tantivy": TantivyWords,
    "FTS5": Fts5Words,
    "bm25s": Bm25sWords,
}
