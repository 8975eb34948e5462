"""The FastAPI app: the routes, which call the service and return JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Query, Request, Response

from denslice import __version__
from denslice.serve import api
from denslice.serve.auth import BEARER, require_write
from denslice.serve.deepening_task import DeepeningTask
from denslice.serve.embeddings import embedding_routes
from denslice.serve.http_errors import HttpError, add_error_handlers
from denslice.serve.json_bytes import json_bytes
from denslice.serve.limits import Access, Limits
from denslice.serve.metrics import Metrics
from denslice.serve.middleware import GuardMiddleware
from denslice.serve.request_log import AccessLog, LogOptions
from denslice.serve.search_bodies import SearchBodies
from denslice.serve.search_route import SEARCH_PATH, SearchRoute
from denslice.serve.searchable import Searchable
from denslice.serve.service import Service
from denslice.serve.web_page import page_routes

DESCRIPTION = "Hybrid search with lexical and dense vectors, and an explanation of every score."
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Responses = dict[int | str, dict[str, Any]]


def make_app(
    searchable: Searchable,
    limits: Limits | None = None,
    access: Access | None = None,
    deepening: DeepeningTask | None = None,
    on_ready: Callable[[], None] = lambda: None,
    logs: LogOptions | None = None,
) -> FastAPI:
    """Return the app that serves an index or a cluster, and deepens it if there is a task for it.

    `on_ready` is called when it is warmed up.
    """
    limits, access, logs = limits or Limits(), access or Access(), logs or LogOptions()
    metrics, log = Metrics(), AccessLog(logs.access_log) if logs.access_log else None
    service = Service(searchable, limits, metrics, access.writable, deepening, on_ready, logs.slow_ms)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="denslice", description=DESCRIPTION, version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.state.access = access
    bodies = SearchBodies(service.settled, limits.max_query_length)
    app.add_middleware(SearchRoute, bodies=bodies, search=service.answer, refused=metrics.refused)
    app.add_middleware(GuardMiddleware, limits=limits, access=access, metrics=metrics, log=log)
    add_error_handlers(app, metrics.refused)
    _add_read_routes(app, service)
    _add_query_routes(app, service)
    _add_write_routes(app, service)
    _add_status_routes(app, service, metrics)
    app.include_router(embedding_routes(searchable, limits))
    app.include_router(page_routes())
    return app


def _add_read_routes(app: FastAPI, service: Service) -> None:
    reading, errors = [Depends(BEARER)], _errors(400, 401, 413, 415, 422, 503)

    @app.post(SEARCH_PATH, response_model=api.SearchResponse, responses=errors, dependencies=reading)
    async def search(body: api.SearchRequest) -> Response:
        """Return the k best documents or passages for each query, best first."""
        return _json(await service.search(body))

    @app.get(
        "/documents/{id:path}/similar",
        response_model=api.SimilarResponse,
        responses=_errors(401, 404, 422, 503),
        dependencies=reading,
    )
    async def similar(
        request: Request, id: Annotated[str, Path(max_length=1_000)], options: Annotated[api.SimilarQuery, Query()]
    ) -> Response:
        """Return the k documents or passages that are most like the document with this id."""
        if not request.scope["raw_path"].endswith(b"/similar"):  # the slash is escaped: it belongs to the id
            return _json(await service.document(f"{id}/similar"))
        try:
            return _json(await service.similar(id, options))
        except HttpError as error:
            if error.status != 404:
                raise
            return _json(await service.document(f"{id}/similar"))  # an id may be a path that ends like this

    @app.get(
        "/documents/{id:path}", response_model=api.Document, responses=_errors(401, 404, 503), dependencies=reading
    )
    async def document(id: Annotated[str, Path(max_length=1_000)]) -> Response:
        """Return the document with this id, and where its passages are."""
        return _json(await service.document(id))

    @app.get("/suggest", response_model=api.Suggestions, responses=_errors(401, 422, 503), dependencies=reading)
    async def suggest(typed: Annotated[api.SuggestQuery, Query()]) -> Response:
        """Return how a text that is being typed may go on: with its last word completed."""
        return _json({"suggestions": await service.suggest(typed.text, typed.k)})

    @app.get("/index", response_model=api.ServerInfo, responses=_errors(401), dependencies=reading)
    async def info() -> Response:
        """Return a description of the index and the limits of the server."""
        return _json(service.info().model_dump())


def _add_query_routes(app: FastAPI, service: Service) -> None:
    reading, errors = [Depends(BEARER)], _errors(400, 401, 404, 413, 415, 422, 503)

    @app.post("/explain", response_model=api.ExplainResponse, responses=errors, dependencies=reading)
    async def explain(body: api.ExplainRequest) -> Response:
        """Return why a document or a passage has its score for a query, whether a search returns it or not."""
        return _json(await service.explain(body))

    @app.post("/matching", response_model=api.MatchingResponse, responses=errors, dependencies=reading)
    async def matching(body: api.SearchedQuery) -> Response:
        """Return how many documents match a query."""
        return _json(await service.matching(body))


def _add_write_routes(app: FastAPI, service: Service) -> None:
    writing, errors = [Depends(BEARER), Depends(require_write)], _errors(400, 401, 403, 413, 415, 422, 503)

    @app.post("/documents", response_model=api.WriteResponse, responses=errors, dependencies=writing)
    async def add(body: api.WriteRequest) -> Response:
        """Add documents in one commit. Each replaces a document with the same id."""
        return _json({"documents": await service.add(body.documents, body.level), "generation": service.generation})

    @app.delete("/documents", response_model=api.WriteResponse, responses=errors, dependencies=writing)
    async def delete(body: api.DeleteRequest) -> Response:
        """Delete documents in one commit and return how many there were. Unknown ids are ignored."""
        return _json({"documents": await service.delete(body.ids), "generation": service.generation})


def _add_status_routes(app: FastAPI, service: Service, metrics: Metrics) -> None:
    @app.get("/healthz", response_model=api.Status)
    async def healthz() -> Response:
        """Return 200 while the server runs."""
        return _json({"status": "ok"})

    @app.get("/readyz", response_model=api.Status, responses=_errors(503))
    async def readyz() -> Response:
        """Return 200 once the server is warmed up and while its background tasks succeed; otherwise 503 and why."""
        service.check_ready()
        return _json({"status": "ready"})

    text: Responses = {200: {"content": {"text/plain": {}}}}

    @app.get("/metrics", responses={**text, **_errors(401)}, dependencies=[Depends(BEARER)])
    async def metrics_text() -> Response:
        """Return metrics in the text format of Prometheus."""
        return Response(metrics.text(), media_type=METRICS_TYPE)


def _json(answer: dict[str, Any]) -> Response:
    """Return the answer as JSON without validating it again, which would cost as much as some searches."""
    return Response(json_bytes(answer), media_type="application/json")


def _errors(*statuses: int) -> Responses:
    """Describe the error responses of a route for /openapi.json."""
    return {status: {"model": api.ErrorResponse} for status in statuses}
