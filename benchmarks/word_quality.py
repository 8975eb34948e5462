"""How engines rank by words: the run of each, with each of its analyses, on one collection."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import bm25s
import regex
import Stemmer
import tantivy

from denslice import Doc, Index, Query
from word_engines import K, any_of, numbers_of, plain_tantivy_analyzer, quoted

STEMMED = {"ar": "arabic", "de": "german", "en": "english", "hi": "hindi", "ru": "russian"}
TANTIVY_STEMMERS = ("ar", "de", "en", "ru")
BM25S_STOP_WORDS = {"de": "de", "en": "en", "ru": "ru", "zh": "zh"}
FTS5_TOKENIZERS = {"unicode61": "unicode61 remove_diacritics 2", "trigram": "trigram"}
Run = dict[str, dict[str, float]]
Way = Callable[[Sequence[Doc], Sequence[Query]], Run]
_words = regex.compile(r"[\p{L}\p{M}\p{N}]+")


def ways(language: str) -> dict[str, Way]:
    """Return how a collection of a language is searched, by the name of the engine and its analysis."""
    stemmed = STEMMED.get(language)
    found: dict[str, Way] = {"denslice": denslice_run, "tantivy": partial(tantivy_run, plain_tantivy_analyzer())}
    if stemmed and language in TANTIVY_STEMMERS:
        stemmer = tantivy.Filter.stemmer(stemmed.capitalize())
        found["tantivy, stemmed"] = partial(tantivy_run, plain_tantivy_analyzer(stemmer))
    found["bm25s"] = partial(bm25s_run, language, None)
    if stemmed:
        found["bm25s, stemmed"] = partial(bm25s_run, language, stemmed)
    found["FTS5"] = partial(fts5_run, "unicode61", _words.findall)
    found["FTS5, trigrams"] = partial(fts5_run, "trigram", _words.findall)
    found["FTS5, trigrams, any of them"] = partial(fts5_run, "trigram", trigrams)
    return found


def denslice_run(docs: Sequence[Doc], queries: Sequence[Query]) -> Run:
    """Return what denslice finds with its encoder bm25; the language is recognised."""
    with TemporaryDirectory() as temporary, Index.create(Path(temporary, "it.idx"), "bm25") as index:
        index.add(docs)
        return {one.query_id: dict(zip(one.ids, one.scores, strict=True)) for one in index.rank(queries, K)}


def tantivy_run(analyzer: tantivy.TextAnalyzer, docs: Sequence[Doc], queries: Sequence[Query]) -> Run:
    """Return what tantivy finds with any word of a query."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name="ours")
    builder.add_integer_field("number", fast=True, indexed=False)
    schema = builder.build()
    index = tantivy.Index(schema)
    index.register_tokenizer("ours", analyzer)
    writer = index.writer(num_threads=1)
    for number, doc in enumerate(docs):
        writer.add_document(tantivy.Document.from_dict({"text": doc.contents, "number": number}, schema))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher, run = index.searcher(), Run()
    for query in queries:
        hits = searcher.search(any_of(schema, analyzer.analyze(query.text)), K, count=False).hits
        numbers = numbers_of(searcher, [address for _, address in hits])
        run[query.id] = {docs[number].id: score for number, (score, _) in zip(numbers, hits, strict=True)}
    return run


def bm25s_run(language: str, stemmed: str | None, docs: Sequence[Doc], queries: Sequence[Query]) -> Run:
    """Return what bm25s finds, with its own stop words of the language."""
    stemmer = Stemmer.Stemmer(stemmed) if stemmed else None
    stop_words: str | list[str] = BM25S_STOP_WORDS.get(language, [])
    tokens = partial(bm25s.tokenize, stopwords=stop_words, stemmer=stemmer, show_progress=False)
    index = bm25s.BM25()
    index.index(tokens([doc.contents for doc in docs]), show_progress=False)
    asked = tokens([query.text for query in queries], return_ids=False)
    found = index.retrieve(asked, k=min(K, len(docs)), show_progress=False)
    rows = zip(queries, found.documents.tolist(), found.scores.tolist(), strict=True)
    return {query.id: _above_zero(docs, numbers, scores) for query, numbers, scores in rows}


def _above_zero(docs: Sequence[Doc], numbers: Sequence[int], scores: Sequence[float]) -> dict[str, float]:
    return {docs[number].id: score for number, score in zip(numbers, scores, strict=True) if score > 0}


def fts5_run(tokenizer: str, split: Callable[[str], list[str]], docs: Sequence[Doc], queries: Sequence[Query]) -> Run:
    """Return what FTS5 finds with any word of a query."""
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE VIRTUAL TABLE words USING fts5(text, tokenize='{FTS5_TOKENIZERS[tokenizer]}')")
    database.executemany("INSERT INTO words(rowid, text) VALUES (?, ?)", enumerate(doc.contents for doc in docs))
    found = "SELECT rowid, -rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
    run = Run()
    for query in queries:
        asked = quoted(word.casefold() for word in split(query.text))
        run[query.id] = {docs[row].id: score for row, score in database.execute(found, (asked, K))} if asked else {}
    database.close()
    return run


def trigrams(text: str) -> list[str]:
    """Return every three characters of each word that follow each other."""
    return [word[at : at + 3] for word in _words.findall(text) for at in range(len(word) - 2)]
