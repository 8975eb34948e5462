"""The OpenAPI description, tried out by schemathesis: whatever fits it or does not, no answer is a server's error."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from denslice import Index
from denslice.serve.limits import Access
from serving import KEY, live

EXAMPLES = 12
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}


def test_no_request_makes_the_server_fail(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "s.idx", "bm25", filterable=["year"])
    index.add([{"id": "cats", "text": "cats sleep", "year": 2020}, {"id": "0", "text": "dogs run", "tags": ["a"]}])
    tried = set()
    with live(index, access=Access(api_key=KEY, writable=True)) as running:
        schema = schemathesis.openapi.from_url(f"{running.address}/openapi.json", headers=AUTHORIZED)
        for found in schema.get_all_operations():
            assert isinstance(found, Ok), found
            operation = found.ok()
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                tried.add((operation.label, _try(operation, mode)))
        assert running.ask("/search", {"query": "cats"}, **AUTHORIZED).status == 200
    assert {label for label, _ in tried} == {
        "POST /search", "GET /documents/{id}", "GET /documents/{id}/similar", "GET /suggest", "GET /index",
        "POST /documents", "DELETE /documents", "GET /healthz", "GET /readyz", "GET /metrics", "POST /explain",
        "POST /matching", "POST /v1/embeddings", "GET /v1/models", "GET /v1/models/{name}",
    }  # fmt: skip
    accepted = {label for label, statuses in tried if 200 in statuses}
    assert accepted >= {"POST /search", "POST /documents", "DELETE /documents", "GET /index"}


def _try(operation: object, mode: object) -> frozenset[int]:
    """The statuses that requests made from the description were answered with; each answer fits the description."""
    statuses = set()

    @given(case=operation.as_strategy(generation_mode=mode))  # type: ignore[attr-defined]
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: object) -> None:
        response = case.call(headers=AUTHORIZED)  # type: ignore[attr-defined]
        statuses.add(response.status_code)
        case.validate_response(  # type: ignore[attr-defined]
            response, checks=[not_a_server_error, status_code_conformance, response_schema_conformance]
        )

    with suppress(Unsatisfiable):  # an address that takes nothing has no wrong requests
        ask()
    return frozenset(statuses)
