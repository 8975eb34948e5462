"""POST /v1/embeddings and GET /v1/models, asked by the client of OpenAI."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest

from denslice import Index
from denslice.serve.limits import Access, Limits
from serving import KEY, Live, live

TEXTS = ["Foxes sleep by day.", "Bread is baked in an oven."]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    index = Index.create(tmp_path_factory.mktemp("openai") / "my.idx")
    index.add([{"id": "foxes", "text": TEXTS[0]}])
    return index


@pytest.fixture(scope="module")
def server(index: Index) -> Iterator[Live]:
    with live(index, Limits(max_queries=4), Access(api_key=KEY)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Live) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key=KEY, base_url=f"{server.address}/v1", max_retries=0) as client:
        yield client


def test_vectors_are_those_that_the_index_stores_of_passages(client: openai.OpenAI, index: Index) -> None:
    found = client.embeddings.create(model="mini", input=TEXTS)
    assert [one.index for one in found.data] == [0, 1]
    (segment,) = index.reader.snapshot.segments
    assert segment.dense is not None
    stored = np.asarray(segment.dense[np.array([0])], np.float32)[0]
    np.testing.assert_allclose(found.data[0].embedding, stored, atol=1e-3)  # it stores float16
    assert found.model == "mini"


def test_floats_and_base64_are_the_same_vectors(client: openai.OpenAI, server: Live) -> None:
    floats = client.embeddings.create(model="mini", input=TEXTS[0], encoding_format="float").data[0].embedding
    body = {"model": "mini", "input": TEXTS[0], "encoding_format": "base64"}
    packed = server.ask("/v1/embeddings", body, Authorization=f"Bearer {KEY}").json()["data"][0]["embedding"]
    assert np.frombuffer(base64.b64decode(packed), "<f4").tolist() == floats
    assert np.linalg.norm(floats) == pytest.approx(1)
    assert client.embeddings.create(model="mini", input=TEXTS[0]).data[0].embedding == floats  # it asks for base64


def test_short_texts_have_the_same_vector_as_documents_and_as_queries(client: openai.OpenAI) -> None:
    docs, queries = (client.embeddings.create(model=name, input=TEXTS) for name in ("mini", "mini:query"))
    assert [one.embedding for one in docs.data] == [one.embedding for one in queries.data]


def test_usage_counts_the_word_pieces_that_the_model_reads(client: openai.OpenAI) -> None:
    def tokens(text: str, model: str = "mini") -> int:
        usage = client.embeddings.create(model=model, input=text).usage
        assert usage.total_tokens == usage.prompt_tokens
        return int(usage.total_tokens)

    assert tokens("fox") == 3  # with the first and the last piece, which the model adds
    assert tokens("fox " * 1000) == 256
    assert tokens("fox " * 1000, "mini:query") == 64


def test_the_models_are_listed_and_retrieved(client: openai.OpenAI) -> None:
    assert [one.id for one in client.models.list()] == ["mini", "mini:query"]
    assert client.models.retrieve("mini:query").id == "mini:query"
    with pytest.raises(openai.NotFoundError, match="there are mini and mini:query"):
        client.models.retrieve("gpt")


@pytest.mark.parametrize(
    ("wrong", "param", "told"),
    [
        ({"input": [1, 2, 3]}, "input", "check_embedding_ctx_length"),
        ({"input": [[1, 2], [3]]}, "input", "token ids cannot be read"),
        ({"input": ""}, "input", "none may be empty"),
        ({"input": []}, "input", "at least one text"),
        ({"input": ["x"] * 5}, "input", "5 texts in one request; at most 4"),
        ({"dimensions": 64}, "dimensions", "64 dimensions; the vectors of this model have"),
        ({"encoding_format": "int8"}, "encoding_format", "'float' or 'base64'"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(
    client: openai.OpenAI, wrong: dict[str, Any], param: str, told: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=told) as error:
        client.embeddings.create(**{"model": "mini", "input": "fox", **wrong})
    assert (error.value.param, error.value.type) == (param, "invalid_request_error")


def test_another_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="there is no model 'text-embedding-3-small' here") as error:
        client.embeddings.create(model="text-embedding-3-small", input="fox")
    assert (error.value.code, error.value.param) == ("model_not_found", "model")


def test_the_dimensions_of_the_model_may_be_named(client: openai.OpenAI, index: Index) -> None:
    width = index.info().dimensions
    assert width is not None
    assert len(client.embeddings.create(model="mini", input="fox", dimensions=width).data[0].embedding) == width


def test_the_key_of_the_server_is_needed(server: Live) -> None:
    with (
        openai.OpenAI(api_key="another-key-entirely", base_url=f"{server.address}/v1", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError, match="this request needs the API key") as error,
    ):
        stranger.embeddings.create(model="mini", input="fox")
    assert (error.value.code, error.value.type) == ("key_needed", "invalid_request_error")


def test_an_index_without_dense_vectors_has_no_model(tmp_path: Path) -> None:
    with (
        live(Index.create(tmp_path / "w.idx", "bm25")) as running,
        openai.OpenAI(api_key=KEY, base_url=f"{running.address}/v1", max_retries=0) as client,
    ):
        assert list(client.models.list()) == []
        with pytest.raises(openai.NotFoundError, match="has no model of dense vectors"):
            client.embeddings.create(model="mini", input="fox")
