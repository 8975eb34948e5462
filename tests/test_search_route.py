"""The short way of plain searches answers as FastAPI's route does, and leaves to it what it does not read."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from denslice import Index, InputError
from denslice.options import SearchOptions, shown
from denslice.serve.http_app import make_app
from denslice.serve.json_bytes import json_bytes
from denslice.serve.limits import Limits
from denslice.serve.request_log import LogOptions
from denslice.serve.search_route import SearchRoute

LIMITS = Limits(max_k=50, max_query_length=30, max_offset=100, max_conditions=2, max_candidates=20_000)
Clients = tuple[TestClient, TestClient]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    index = Index.create(tmp_path_factory.mktemp("route") / "r.idx", "bm25", filterable=["year"])
    index.add([{"id": "cats", "text": "cats sleep", "year": 2020}, {"id": "dogs", "text": "dogs run", "big": 10**30}])
    return index


@pytest.fixture(scope="module")
def both(index: Index) -> Iterator[Clients]:
    """The app, and the same app without the short way."""
    short, long = make_app(index, LIMITS), make_app(index, LIMITS)
    long.user_middleware = [one for one in long.user_middleware if one.cls is not cast(Any, SearchRoute)]
    address = "http://127.0.0.1"
    with TestClient(short, base_url=address) as one, TestClient(long, base_url=address) as other:
        yield one, other


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 60), st.integers(), st.floats(), st.text(max_size=4), st.just("year"),
    st.sampled_from(["lexical", "dense", "hybrid", "both", "cats", "\ud800"]), st.lists(st.just("year"), max_size=2),
    st.sampled_from([{"year": 2020}, {"year": {"gte": 1e400}}, {"big": 10**30}, {"a": {"b": {}}}, {"or": []}]),
)  # fmt: skip
NAMES = st.sampled_from([*(one.name for one in shown(SearchOptions)), "explain", "highlight", "queries", "unknown"])
QUERIES = st.one_of(st.sampled_from(["cats", "sleeping dogs", "+cats -run", '"cats', "year:2020"]), st.text(), VALUES)
BODIES = st.builds(
    lambda query, options: json.dumps({"query": query} | options).encode(), QUERIES, st.dictionaries(NAMES, VALUES)
)


@given(st.one_of(BODIES, st.binary(max_size=20)))
@example(b'{"query": "cats"}')
@example(b'{"query": "cats", "k": 10, "k": 1}')
@example('{"query": "cats"}'.encode("utf-16"))
@example(b'{"query": "cats", "where": ' + b'{"not": ' * 3_000 + b"{}" + b"}" * 3_001)
@settings(max_examples=60, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_every_body_is_answered_as_by_the_described_route(both: Clients, body: bytes) -> None:
    answers = [one.post("/search", content=body, headers={"Content-Type": "application/json"}) for one in both]
    short, long = [_comparable(answer.json()) for answer in answers]
    assert short == long
    assert answers[0].status_code == answers[1].status_code
    assert _headers(answers[0]) == _headers(answers[1])


def _comparable(answer: Any) -> str:
    """The answer as text, without times; NaN would differ from itself."""
    return json.dumps({name: value for name, value in answer.items() if name != "took_ms"})


def _headers(answer: Any) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name != "content-length"}


def test_plain_searches_take_the_short_way(both: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object) -> None:
        raise AssertionError("FastAPI was asked")

    monkeypatch.setattr("denslice.serve.service.Service.search", fail)
    for options in ({}, {"k": 3, "explain": True}, {"where": {"year": 2020}, "facets": ["year"]}):
        assert both[0].post("/search", json={"query": "cats", **options}).status_code == 200


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=10,
))  # fmt: skip
@settings(max_examples=80, deadline=None, database=None, derandomize=True)
def test_json_is_what_python_writes(value: Any) -> None:
    assert json.loads(json_bytes(value)) == value


def test_a_slow_search_is_logged_with_its_query_options_and_stages(
    index: Index, caplog: pytest.LogCaptureFixture
) -> None:
    with TestClient(make_app(index, logs=LogOptions(slow_ms=0)), base_url="http://127.0.0.1") as client:
        client.post("/search", json={"query": "slow cats", "k": 3, "explain": True})
        client.post("/search", json={"query": {"text": "dogs", "must": ["run"]}})
    first, second = [json.loads(one.message) for one in caplog.records if one.name == "denslice.slow"]
    assert (first["queries"], first["options"]) == (["slow cats"], {"k": 3, "explain": True})
    assert first["took_ms"].keys() >= {"queue", "encode", "search", "documents", "explain", "total"}
    assert first["slow_ms"] == first["took_ms"]["total"]
    assert first["read"]["words_scored"] > 0
    assert second["queries"] == [{"text": "dogs", "has": ["+run"]}]
    assert logging.getLevelName(caplog.records[-1].levelno) == "WARNING"


def test_a_fast_search_is_not_logged(index: Index, caplog: pytest.LogCaptureFixture) -> None:
    with TestClient(make_app(index, logs=LogOptions(slow_ms=1e9)), base_url="http://127.0.0.1") as client:
        assert client.post("/search", json={"query": "cats"}).status_code == 200
    assert not caplog.records


def test_a_log_that_cannot_be_is_told(index: Index, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--access-log .*: cannot be written"):
        make_app(index, logs=LogOptions(access_log=tmp_path / "none" / "a.jsonl"))
    with pytest.raises(InputError, match="--slow-ms is -1"):
        LogOptions(slow_ms=-1)
