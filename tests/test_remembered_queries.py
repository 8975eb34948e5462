"""Queries that were asked before are not read again, and are answered exactly as if they were."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from denslice import Index, open_index
from denslice.encoders.bm25 import Bm25Config
from denslice.encoders.mini import Mini, _model
from denslice.encoders.onnx_model import CHARACTERS_PER_PIECE, REMEMBERED_QUERIES, OnnxModel
from denslice.encoders.word_pieces import QUERY_SIDE
from denslice.store.vocabulary import Growth, Vocabulary
from small_tables import MINI

DOCS = [
    {"id": "fox", "text": "Foxes sleep by day and hunt at night."},
    {"id": "pump", "text": "A heat pump moves heat from a cold place to a warm one."},
    {"id": "bread", "text": "Bake the bread in a hot oven."},
]
TEXTS = ["when do foxes sleep", "a warm place", "a warm place", "?!", "", "Fuchs und Hase", "warm bread, zebra"]


@pytest.fixture(scope="module")
def model() -> OnnxModel:
    """The embedded model, with nothing remembered."""
    return OnnxModel(MINI)


def same(found: Any, expected: Any) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


def test_what_is_remembered_is_what_the_model_gives(model: OnnxModel) -> None:
    length = model.config.query_length
    plain = [next(OnnxModel(MINI).read([text], length)) for text in TEXTS]
    for texts, expected in ((TEXTS, plain), (TEXTS[::-1], plain[::-1]), (TEXTS, plain)):
        assert all(map(same, model.read_queries(texts), expected))
    told = model._read_query.cache_info()
    assert told.hits >= 2 * len(TEXTS)
    assert told.currsize == len(set(TEXTS))


def test_a_long_query_is_known_by_what_the_model_reads_of_it(model: OnnxModel) -> None:
    longest = CHARACTERS_PER_PIECE * model.config.query_length
    for text in ("x " * longest, "x " * longest + "y", "x " * (longest // 2)):
        assert same(next(model.read_queries([text])), next(model.read([text], model.config.query_length)))


def test_documents_are_not_remembered_and_only_so_many_queries_are(model: OnnxModel) -> None:
    before = model._read_query.cache_info().currsize
    list(model.read(["a document", "another"], model.config.max_length))
    assert model._read_query.cache_info().currsize == before
    list(model.read_queries([f"number {number}" for number in range(REMEMBERED_QUERIES + 50)]))
    assert model._read_query.cache_info().currsize == REMEMBERED_QUERIES


def test_nobody_can_change_what_is_remembered(model: OnnxModel) -> None:
    found = next(model.read_queries(["foxes"]))
    with pytest.raises(ValueError, match="read-only"):
        found.dense[0] = 7
    with pytest.raises(ValueError, match="read-only"):
        found.importance[0] = 7


def test_a_remembered_query_finds_the_words_of_a_later_commit(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx")
    index.add(DOCS)
    first = {text: index.search(text, mode="hybrid").scores for text in TEXTS}
    assert {text: index.search(text, mode="hybrid").scores for text in TEXTS} == first
    index.add([{"id": "zebra", "text": "A zebra eats warm bread by day."}])
    fresh = Index.create(tmp_path / "new.idx")
    fresh.add([*DOCS, {"id": "zebra", "text": "A zebra eats warm bread by day."}])
    for one in (index, fresh, open_index(index.path)):
        config, words = Bm25Config.from_json(_options(one)), one.reader.snapshot.words
        unread = Mini(OnnxModel(MINI), config, words, one.reader.languages)
        for text in TEXTS:
            found = one.search(text)
            assert same(vectors(one.reader.encoder, text), vectors(unread, text))
            assert list(found.scores) == list(index.search(text).scores)


def _options(index: Index) -> dict[str, Any]:
    return {name: value for name, value in index.info().encoder_options.items() if name != "fingerprint"}


def vectors(encoder: Any, text: str) -> list[Any]:
    encoded = encoder.encode_queries([text])
    return [encoded.weights.data, encoded.weights.indices, encoded.dense]


def test_many_threads_ask_at_once_and_each_is_answered_as_alone(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "my.idx")
    index.add(DOCS)
    asked = [f"{text} {number}" for number in range(8) for text in TEXTS] * 3
    expected = {text: index.search(text).scores for text in asked}
    _model(MINI)._read_query.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda text: index.search(text).scores, asked)) == [expected[text] for text in asked]
    batch = index.search_batch(asked)
    assert [found.scores for found in batch] == [expected[text] for text in asked]


def test_the_query_side_is_the_one_that_is_remembered(model: OnnxModel) -> None:
    encoder = Mini(model, Bm25Config(), Growth(Vocabulary()))
    before = model._read_query.cache_info().misses
    list(encoder._read(["never asked before"], QUERY_SIDE))
    encoder.encode_docs(["never asked before"])
    assert model._read_query.cache_info().misses == before + 1
