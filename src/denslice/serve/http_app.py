"""The app: addresses → service → answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Response

from denslice import __version__
from denslice.serve import api
from denslice.serve.auth import BEARER, writing
from denslice.serve.guard import Guard
from denslice.serve.http_errors import answer_errors
from denslice.serve.limits import Access, Limits
from denslice.serve.metrics import Metrics
from denslice.serve.searchable import Searchable
from denslice.serve.service import Service
from denslice.serve.web_page import page_routes

ABOUT = "Search by words and by meaning at once, and see why each result matched."
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Answers = dict[int | str, dict[str, Any]]


def make_app(searchable: Searchable, limits: Limits | None = None, access: Access | None = None) -> FastAPI:
    """The app that serves this; what it may take on, and who may ask it, is given."""
    limits, access = limits or Limits(), access or Access()
    metrics = Metrics()
    service = Service(searchable, limits, metrics, access.writable)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="denslice", description=ABOUT, version=__version__, docs_url=None, redoc_url=None, lifespan=life
    )
    app.state.access = access
    app.add_middleware(Guard, limits=limits, access=access, metrics=metrics)
    answer_errors(app, metrics.refused)
    _add_reads(app, service)
    _add_writes(app, service)
    _add_states(app, service, metrics)
    app.include_router(page_routes())
    return app


def _add_reads(app: FastAPI, service: Service) -> None:
    may_read = [Depends(BEARER)]

    @app.post(
        "/search",
        response_model=api.SearchResponse,
        responses=_no(400, 401, 413, 415, 422, 503),
        dependencies=may_read,
    )
    async def search(asked: api.SearchRequest) -> Response:
        """The k best documents for one query or many, best first."""
        return _json(await service.search(asked))

    @app.get(
        "/documents/{id:path}",
        response_model=api.Document,
        responses=_no(401, 404, 503),
        dependencies=may_read,
    )
    async def document(id: Annotated[str, Path(max_length=1_000)]) -> Response:
        """The document with this id."""
        return _json((await service.document(id)).to_dict())

    @app.get("/index", response_model=api.About, responses=_no(401), dependencies=may_read)
    async def about() -> Response:
        """What is served, and what this server takes."""
        return _json(service.about().model_dump())


def _add_writes(app: FastAPI, service: Service) -> None:
    may_write, answers = [Depends(BEARER), Depends(writing)], _no(400, 401, 403, 413, 415, 422, 503)

    @app.post("/documents", response_model=api.Written, responses=answers, dependencies=may_write)
    async def add(asked: api.WriteRequest) -> Response:
        """Adds documents in one commit; one with an id that is there takes its place."""
        return _json({"documents": await service.add(asked.documents), "generation": service.generation})

    @app.delete("/documents", response_model=api.Written, responses=answers, dependencies=may_write)
    async def delete(asked: api.DeleteRequest) -> Response:
        """Deletes documents in one commit; those that are not there are passed over."""
        return _json({"documents": await service.delete(asked.ids), "generation": service.generation})


def _add_states(app: FastAPI, service: Service, metrics: Metrics) -> None:
    @app.get("/healthz", response_model=api.Status)
    async def healthz() -> Response:
        """Whether the server runs."""
        return _json({"status": "ok"})

    @app.get("/readyz", response_model=api.Status, responses=_no(503))
    async def readyz() -> Response:
        """Whether searches are answered without delay, and the server's own tasks succeed; if not, why."""
        service.check_ready()
        return _json({"status": "ready"})

    @app.get("/metrics", responses={200: {"content": {"text/plain": {}}}, **_no(401)}, dependencies=[Depends(BEARER)])
    async def metrics_text() -> Response:
        """Counters for Prometheus."""
        return Response(metrics.text(), media_type=METRICS_TYPE)


def _json(answer: dict[str, Any]) -> Response:
    """The answer as it is: it fits its model, and to check that each time would cost as much as some searches."""
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), media_type="application/json")


def _no(*statuses: int) -> Answers:
    """The refusals an address may answer with, for its description."""
    return {status: {"model": api.Refused} for status in statuses}
