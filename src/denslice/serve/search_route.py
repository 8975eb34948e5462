"""POST /search for one plain text, past the layers of FastAPI, which answers every other request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from denslice.serve.answering import BatchOptions
from denslice.serve.http_errors import HttpError, error_response
from denslice.serve.json_bytes import json_bytes
from denslice.serve.middleware import body_again
from denslice.serve.search_bodies import SearchBodies

SEARCH_PATH = "/search"
Search = Callable[[Sequence[str], BatchOptions], Awaitable[dict[str, Any]]]


class NamedRoute(NamedTuple):
    """What the metrics call a route."""

    path: str


class SearchRoute:
    """ASGI middleware that answers plain searches itself. A body that it does not read goes on to the app.

    The app has the same route: it describes the request, and finds the words for what is wrong with one.
    """

    def __init__(self, app: ASGIApp, bodies: SearchBodies, search: Search, refused: Callable[[str], None]) -> None:
        self._app, self._bodies, self._search, self._refused = app, bodies, search, refused
        self._route = NamedRoute(SEARCH_PATH)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a plain search, or call the app."""
        if scope["type"] != "http" or scope["path"] != SEARCH_PATH or scope["method"] != "POST":
            return await self._app(scope, receive, send)
        body: bytes = (await receive())["body"]  # all of it: the guard has read it
        asked = self._bodies.read(body)
        if asked is None:
            return await self._app(scope, body_again(body, receive), send)
        scope["route"] = self._route
        try:
            answer = json_bytes(await self._search([asked.text], asked.options))
        except HttpError as error:
            self._refused(error.code)
            return await error_response(error)(scope, receive, send)
        length = (b"content-length", str(len(answer)).encode())
        await send(
            {"type": "http.response.start", "status": 200, "headers": [length, (b"content-type", b"application/json")]}
        )
        await send({"type": "http.response.body", "body": answer})
