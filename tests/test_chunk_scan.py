"""The compiled scan of chunks gives the words that the plain one gives."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from denslice.analysis.analyzer import Analyzer
from denslice.analysis.fielded_text import FieldedText
from denslice.analysis.languages import ENGLISH
from denslice.encoders.bm25 import COMPILED_FROM, Bm25, Bm25Config
from denslice.encoders.chunk_scan import ChunkTable
from denslice.encoders.chunk_terms import ChunkTerms
from denslice.store.vocabulary import Growth, Vocabulary

TYPED = st.text(st.sampled_from("abZ19 .,;:!?()[]{}\"'’-/@#+w“”„—–é語ก\u3000\u00a0\u2028\x85\x1c\n\x00\ud800"))
WEB = st.sampled_from(["https://a.b/c(d)?e=“f”", "www.a.b!", " ", "(a)", "http://"])
FIELDS = st.lists(st.text() | TYPED | st.lists(TYPED | WEB).map("".join))


def chunk_terms() -> tuple[ChunkTerms, Growth]:
    words = Growth(Vocabulary())
    return ChunkTerms(Analyzer(), words.place, has_phrases=False), words


@settings(deadline=None)  # loops may be compiled
@given(st.lists(FIELDS, max_size=3))
@example([["»http://:"]])
def test_scanned_chunks_have_the_terms_of_plain_ones(batches: list[list[str]]) -> None:
    """In the same order, so that words have the same token ids."""
    compiled, compiled_words = chunk_terms()
    plain, plain_words = chunk_terms()
    for fields in batches:
        found = compiled.terms(compiled.scanned(fields, ENGLISH))
        starts = np.searchsorted(found.rows, np.arange(len(fields) + 1)).tolist()
        for field, (start, end) in zip(fields, pairwise(starts), strict=True):
            numbers = plain.numbered(field, ENGLISH)
            expected = [
                id for number in numbers for id in plain._ids[plain._starts[number] : plain._starts[number + 1]]
            ]
            assert found.ids[start:end].tolist() == expected
    assert compiled_words.new_words == plain_words.new_words


@settings(deadline=None)  # loops may be compiled
@given(st.lists(st.lists(st.text(st.sampled_from("ab."), max_size=9)), min_size=1))
def test_chunks_are_numbered_as_they_come(batches: list[list[str]]) -> None:
    table, numbers = ChunkTable(), dict[str, int]()
    for fields in batches:
        found = table.scan(fields)
        for chunk in found.new:
            assert numbers.setdefault(chunk, len(numbers)) == len(numbers) - 1
        chunks = [(row, chunk.strip(".")) for row, field in enumerate(fields) for chunk in field.split()]
        expected = [(row, numbers[chunk]) for row, chunk in chunks if chunk]
        assert list(zip(found.rows.tolist(), found.numbers.tolist(), strict=True)) == expected


def test_the_table_grows_with_many_and_with_long_chunks() -> None:
    table = ChunkTable()
    words = [f"w{number}" for number in range(10_000)]
    long = ["x" * 100_000, "y" * 300_000]
    assert table.scan([" ".join(words)]).new == words
    assert table.scan([" ".join([*words[:3], *long])]).new == long
    assert table.scan([" ".join([*long, *words[::-1]])]).numbers.tolist() == [10_000, 10_001, *range(9_999, -1, -1)]


@pytest.mark.parametrize("phrases", [0.0, 0.3])
@pytest.mark.parametrize("language", [None, "german"])
def test_many_texts_are_encoded_as_few_are(language: str | None, phrases: float) -> None:
    """After so many texts, the encoder reads them with compiled loops. New phrases then have ids behind new words."""
    kinds = [
        "A dog's life, and that of the cats",
        "Die Häuser und die Hunde sind nicht im Garten",
        "犬と猫がいます",
        "",
    ]
    texts = [FieldedText.of(f"Title {n}", f"{kinds[n % 4]} ({n % 100})", "Heading") for n in range(COMPILED_FROM + 400)]
    config = Bm25Config(language, phrases=phrases)
    many, few = (Bm25(config, Growth(Vocabulary())) for _ in range(2))
    many.encode_docs(texts[:400])
    read = many.encode_docs(texts[400:])
    few.encode_docs(texts[:400])
    assert many.encode_docs([]).lexical.shape == (0, len(many.words))
    for start in range(400, len(texts), 1_000):
        few._read_texts = 0
        encoded = few.encode_docs(texts[start : start + 1_000])
        rows = slice(start - 400, start + 600)
        ids = np.array([many.words.find(few.words.word(id)) for id in range(len(few.words))])
        assert phrases or (ids == np.arange(len(ids))).all()
        stored = encoded.lexical.tocoo()
        expected = sp.csr_array((stored.data, (stored.row, ids[stored.col])), (stored.shape[0], len(many.words)))
        assert (read.lexical[rows] != expected).nnz == 0
        assert read.lengths is not None
        assert encoded.lengths is not None
        assert read.lengths[rows].tolist() == encoded.lengths.tolist()
