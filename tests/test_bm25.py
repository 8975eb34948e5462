"""BM25: the words of a text, their weights, and the same scores as bm25s."""

import json
import os
import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from denslice.analysis.analyzer import Analyzer
from denslice.analysis.fielded_text import FieldedText
from denslice.encoders import bm25 as bm25_module
from denslice.encoders.bm25 import Bm25, Bm25Config, idf
from denslice.errors import InputError
from denslice.store.vocabulary import Growth, Piece, Vocabulary, word_arrays
from denslice.vectors import Encoded

DATA = Path(os.environ.get("DENSLICE_DATA", Path(__file__).parents[2] / "shared" / "data"))

PLAIN = Bm25Config(language="none", stop_words=("the",), average_length=2.0)
TEXTS = [
    "The cat sat on the mat, and the cats were sitting.",
    "A dog chased the cat.",
    "Dogs chase cats; cats chase mice.",
    "Running runners run in the running race.",
    "Creme brulee is not for cats",
    "Wings, wing-tips and the aerodynamics of winged flight!",
    "to be or not to be",
    "Mice and men: the best-laid plans of mice",
]
SOME = ["aa", "bb", "cc", "dd", "the"]
QUERIES = ["cats chasing mice", "cat cat dog", "Creme of the wing", "running", "to be unknownword cat"]


def growing(config: Bm25Config = PLAIN) -> Bm25:
    return Bm25(config, Growth(Vocabulary()))


def scores(docs: list[str], queries: list[str]) -> np.ndarray:
    """(queries, docs) by a plain product."""
    average = sum(len(Analyzer("english").words(doc)) for doc in docs) / len(docs)
    encoder = growing(Bm25Config("english", average_length=average))
    weights = encoder.encode_docs(docs).lexical
    df = np.bincount(weights.indices, minlength=weights.shape[1])
    asked = encoder.encode_queries(queries).lexical
    scores: np.ndarray = (asked.multiply(idf(df, len(docs))) @ weights.T).toarray()
    return scores


def bm25s_words(texts: list[str]) -> list[list[str]]:
    tokenizer = bm25s.tokenization.Tokenizer(stopwords="en", stemmer=Stemmer.Stemmer("english"))
    words: list[list[str]] = tokenizer.tokenize(
        texts, update_vocab=True, return_as="string", show_progress=False, allow_empty=False
    )
    return words


def plain(text: str) -> str:
    """Return the words of a text on which denslice and bm25s agree: no accents, single letters or compounds."""
    return " ".join(re.findall(r"(?<!\w)[a-z]{2,}(?!\w)", text.lower()))


def named(encoder: Bm25, encoded: Encoded) -> list[dict[str, float]]:
    """Return the weights of each text by token."""
    rows = [encoded.lexical[[row]] for row in range(encoded.weights.shape[0])]
    return [{encoder.token(id): float(w) for id, w in zip(row.indices, row.data, strict=True)} for row in rows]


def lengths(encoded: Encoded) -> list[int]:
    assert encoded.lengths is not None
    return [int(length) for length in encoded.lengths]


def bm25s_scores(docs: list[str], queries: list[str]) -> np.ndarray:
    peer = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    peer.index(bm25s_words(docs), show_progress=False)
    return np.stack([peer.get_scores(words) for words in bm25s_words(queries)])


# Words


@pytest.mark.parametrize("text", ["word " * 200_000, "e" * 1_000_000, "猫" * 1_000_000])
def test_a_million_characters_are_encoded(text: str) -> None:
    encoder = growing()
    encoded = encoder.encode_docs([text])
    assert {encoder.token(id) for id in encoded.lexical.indices} <= {"word", "e" * 1_000_000, "猫猫", "猫", "~english"}
    assert lengths(encoded) == encoder.text_lengths([text]).tolist()


@given(st.lists(st.text(), max_size=4))
def test_the_lengths_of_texts_are_those_of_their_encoding(texts: list[str]) -> None:
    encoder = growing()
    assert encoder.text_lengths(texts).tolist() == lengths(encoder.encode_docs(texts))
    assert encoder.text_lengths(["the cats, the owls"]).tolist() == lengths(encoder.encode_docs(["cats owls"])) == [2]


# Weights


def test_a_document_weight_is_saturated_by_frequency_and_length() -> None:
    encoded = growing().encode_docs(["the red red cat", "cat"])
    assert lengths(encoded) == [3, 1]
    long, short = 0.9 * (0.6 + 0.4 * 3 / 2), 0.9 * (0.6 + 0.4 * 1 / 2)
    np.testing.assert_allclose(encoded.lexical.data, [2 / (2 + long), 1 / (1 + long), 1 / (1 + short)], rtol=1e-6)


def test_document_vectors_are_canonical_float32_as_wide_as_the_grown_vocabulary() -> None:
    encoder = growing()
    encoder.encode_docs(["dog cat"])
    lexical = encoder.encode_docs(["mouse cat mouse dog", "", "the"]).lexical
    assert lexical.shape == (3, len(encoder.words))
    assert lexical.dtype == np.float32
    assert lexical.indptr.tolist() == [0, 3, 3, 3]
    assert lexical.indices.tolist() == sorted(lexical.indices)
    assert [encoder.token(column) for column in lexical.indices] == ["dog", "cat", "mouse"]
    assert [encoder.token(id) for id in range(len(encoder.words))] == ["=dog", "dog", "=cat", "cat", "=mouse", "mouse"]


def test_no_documents_and_empty_documents_are_encoded() -> None:
    assert growing().encode_docs([]).lexical.shape == (0, 0)
    assert growing().encode_docs(["", "the"]).lexical.shape == (2, 0)
    assert lengths(growing().encode_docs(["", "the"])) == [0, 0]


def test_a_query_weight_is_how_often_the_word_occurs() -> None:
    encoder = growing()
    encoder.encode_docs(["red cat"])
    assert named(encoder, encoder.encode_queries(["cat the cat", "dog", "Red"])) == [{"cat": 2}, {}, {"red": 1}]


def test_queries_never_grow_the_vocabulary() -> None:
    encoder = growing()
    assert encoder.encode_queries(["red cat"]).lexical.shape == (1, 0)
    assert len(encoder.words) == 0


def test_a_word_asked_for_before_it_was_added_is_found_after() -> None:
    encoder = growing()
    encoder.encode_queries(["cat"])
    encoder.encode_docs(["cat"])
    assert named(encoder, encoder.encode_queries(["cat"])) == [{"cat": 1}]


def test_over_a_fixed_vocabulary_unknown_words_count_in_the_length_only(tmp_path: Path) -> None:
    arrays = word_arrays(["cat"])
    piece = Piece(0, arrays["words"], arrays["starts"], arrays["sorted"], tmp_path)
    encoded = Bm25(PLAIN, Vocabulary([piece])).encode_docs(["cat the unheard", "unheard"])
    assert lengths(encoded) == [2, 1]
    np.testing.assert_allclose(encoded.lexical.toarray(), [[1 / 1.9], [0.0]], rtol=1e-6)


def test_documents_added_in_batches_weigh_as_they_do_at_once() -> None:
    whole, parts = growing(Bm25Config()), growing(Bm25Config())
    expected = whole.encode_docs(TEXTS).lexical.toarray()
    for number, text in enumerate(TEXTS):
        row = parts.encode_docs([text]).lexical.toarray()[0]
        assert row.tolist() == expected[number, : len(row)].tolist()


def test_two_words_side_by_side_weigh_as_a_phrase() -> None:
    encoder = growing(replace(PLAIN, phrases=0.5))
    encoded = encoder.encode_docs(["heat the transfer heat transfer", "transfer"])  # stop words stand between no words
    norm = 0.9 * (0.6 + 0.4 * 4 / 2)
    word, pair, other = 2 / (2 + norm), 0.5 * 2 / (2 + norm), 0.5 * 1 / (1 + norm)
    asked = encoder.encode_queries(["the heat transfer heat", "transfer of heat", "cold transfer"])
    pairs = {name: id for id, names in encoder.phrases("the heat transfer heat").items() for name in names}
    words = [encoder.words.find("heat"), encoder.words.find("transfer")]
    columns = [*words, pairs["heat transfer"], pairs["transfer heat"]]
    np.testing.assert_allclose(encoded.lexical.toarray()[0, columns], [word, word, pair, other], rtol=1e-6)
    assert lengths(encoded) == [4, 1]
    assert encoded.lexical.toarray()[1, columns[2:]].tolist() == [0, 0]
    assert asked.lexical.toarray()[:, columns].tolist() == [[2, 1, 1, 1], [1, 1, 0, 0], [0, 1, 0, 0]]


@given(st.lists(st.lists(st.sampled_from(SOME), max_size=9).map(" ".join), min_size=1, max_size=6))
def test_phrases_are_those_of_a_plain_count(texts: list[str]) -> None:
    encoder = growing(replace(PLAIN, phrases=0.3))
    weights = encoder.encode_docs(texts).lexical
    plain = growing().encode_docs(texts).lexical
    for number, text in enumerate(texts):
        words = [word for word in text.split() if word != "the"]
        pairs = Counter(pairwise(words))
        norm = 0.9 * (0.6 + 0.4 * len(words) / 2)
        expected = sorted([*plain[[number]].data, *(0.3 * count / (count + norm) for count in pairs.values())])
        np.testing.assert_allclose(sorted(weights[[number]].data), expected, rtol=1e-5)


def test_phrases_in_one_bucket_are_one_token_and_a_vocabulary_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm25_module, "BUCKETS", 4)
    encoder = growing(replace(PLAIN, phrases=1.0))
    encoder.encode_docs([" ".join(f"w{number}x{other}" for other in range(50)) for number in range(20)])
    assert len(encoder.words) == 1000 + 1000 + 4  # stems, forms and phrases


def test_documents_with_phrases_weigh_the_same_in_batches_and_at_once() -> None:
    config = Bm25Config(phrases=0.4)
    whole, parts = growing(config), growing(config)
    expected = whole.encode_docs(TEXTS).lexical.toarray()
    for number, text in enumerate(TEXTS):
        row = parts.encode_docs([text]).lexical.toarray()[0]
        assert row.tolist() == expected[number, : len(row)].tolist()
    assert [parts.token(id) for id in range(len(parts.words))] == [whole.token(id) for id in range(len(whole.words))]


def test_a_word_weighs_as_its_count_and_its_documents_length_beside_the_average_length_say() -> None:
    for average in (2.0, 7.0):
        weights = growing(replace(PLAIN, average_length=average)).encode_docs(["cat cat dog", "the cat"]).lexical
        norms = [0.9 * (0.6 + 0.4 * length / average) for length in (3, 1)]
        expected = [2 / (2 + norms[0]), 1 / (1 + norms[0]), 1 / (1 + norms[1])]
        np.testing.assert_allclose(weights.data, expected, rtol=1e-6)


def test_words_of_the_title_and_of_headings_count_more_and_only_the_title_makes_a_text_longer() -> None:
    encoder = growing(replace(PLAIN, title=3.0, heading=0.5))
    text = FieldedText.of("red fox", "the fox sleeps", "foxes › red things")
    (weights,) = named(encoder, encoder.encode_docs([text]))
    norm = 0.9 * (0.6 + 0.4 * 4 / 2)  # red fox fox sleeps
    counts = {"red": 3.5, "fox": 4.0, "sleeps": 1.0, "foxes": 0.5, "things": 0.5}
    assert weights == pytest.approx({word: count / (count + norm) for word, count in counts.items()}, rel=1e-5)
    assert lengths(encoder.encode_docs([text])) == encoder.text_lengths([text]).tolist() == [4]


def test_idf_is_lucenes() -> None:
    found = idf(np.array([0, 1, 4]), docs=4)
    np.testing.assert_allclose(found, [np.log(10), np.log(1 + 3.5 / 1.5), np.log(1 + 0.5 / 4.5)], rtol=1e-6)
    assert found.dtype == np.float32


# Settings


def test_settings_come_back_from_json_as_they_went() -> None:
    for config in (Bm25Config(), Bm25Config("german", ("der", "die"), 1.2, 0.75, 80.0, title=3.0)):
        assert Bm25Config.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_an_index_of_an_earlier_analysis_is_an_error_that_names_the_command() -> None:
    with pytest.raises(InputError, match="earlier analysis of words; run `denslice upgrade`"):
        Bm25Config.from_json({"analysis": 1})


def test_a_setting_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(InputError, match="bm25 has no setting k2; it has language, stop_words, k1, b, average_length"):
        Bm25Config.from_json({"k2": 1})


@pytest.mark.parametrize(
    "settings",
    [
        {"k1": -0.1},
        {"k1": float("nan")},
        {"k1": "0.9"},
        {"b": 1.1},
        {"b": True},
        {"phrases": -1},
        {"phrases": None},
        {"title": -1},
        {"heading": "much"},
        {"average_length": 0},
        {"average_length": None},
        {"average_length": "long"},
        {"language": "klingon"},
        {"language": ["english"]},
        {"stop_words": "the"},
        {"stop_words": [1]},
        {"stop_words": 5},
    ],
)
def test_a_setting_out_of_bounds_is_an_error_that_names_it(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"^{next(iter(settings))} "):
        Bm25Config.from_json(settings)


# Against bm25s


def test_scores_equal_those_of_bm25s() -> None:
    expected = bm25s_scores(TEXTS, QUERIES)
    assert (expected > 0).any(axis=1).all()
    np.testing.assert_allclose(scores(TEXTS, QUERIES), expected, atol=1e-4)


@pytest.mark.skipif(not (DATA / "cranfield").is_dir(), reason=f"no cranfield in {DATA}; set DENSLICE_DATA")
def test_the_best_ten_of_cranfield_score_as_in_bm25s() -> None:
    docs = [plain(f"{doc['title']} {doc['text']}") for doc in read_jsonl(DATA / "cranfield" / "corpus.jsonl")]
    queries = [plain(query["text"]) for query in read_jsonl(DATA / "cranfield" / "queries.jsonl")]
    ours, theirs = scores(docs, queries), bm25s_scores(docs, queries)
    np.testing.assert_allclose(np.sort(ours)[:, -10:], np.sort(theirs)[:, -10:], atol=1e-3)
    best = np.argsort(-theirs)[:, :10]
    np.testing.assert_allclose(np.take_along_axis(ours, best, 1), np.take_along_axis(theirs, best, 1), atol=1e-3)


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
