"""Spans of OpenTelemetry, with the SDK: one for each search, and within it one for each stage."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from denslice import Index
from denslice.serve.http_app import make_app

TRACE, PARENT = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
HEADERS = {"traceparent": f"00-{TRACE:032x}-{PARENT:016x}-01"}


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The spans that end during a test; other tests are not traced."""
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def test_a_search_is_a_span_of_its_request_with_a_span_for_each_stage(
    tmp_path: Path, exported: InMemorySpanExporter
) -> None:
    index = Index.create(tmp_path / "t.idx", "bm25")
    index.add([{"id": "cats", "text": "cats sleep"}])
    with TestClient(make_app(index), base_url="http://127.0.0.1") as client:
        client.post("/search", json={"query": "cats", "where": {"id": "cats"}}, headers=HEADERS)
        client.post("/search", json={"queries": ["cats", "dogs"]}, headers=HEADERS)
    spans = exported.get_finished_spans()
    searches = [span for span in spans if span.name == "denslice.search"]
    assert [one.attributes and one.attributes["denslice.queries"] for one in searches] == [1, 2]
    for search in searches:
        assert search.context.trace_id == TRACE  # within the span of its request, which FastAPI makes
        stages = [one for one in spans if one.parent and one.parent.span_id == search.context.span_id]
        assert {one.name for one in stages} == {"encode", "filter", "search", "documents"}
        times = [(one.start_time or 0, one.end_time or 0) for one in (search, *stages)]
        assert times[0] == (min(min(times)), max(map(max, times)))
        assert search.parent is not None


def test_without_the_package_nothing_is_traced() -> None:
    code = """import sys; sys.modules["opentelemetry"] = None
from denslice.serve.tracing import trace_search
from denslice.stage_timers import stage, timed
with timed() as times, stage("search"): pass
trace_search(times, 0.0, 1, 1)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
