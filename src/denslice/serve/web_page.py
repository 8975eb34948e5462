"""The search page at `/`: static files of this package, read once and sent unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import APIRouter, Request, Response

_SCRIPTS = (
    "page",
    "completions",
    "elements",
    "facets",
    "filters",
    "passages",
    "reader",
    "requests",
    "results",
    "summary",
)
PAGE_FILES = {  # by path
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8") for name in _SCRIPTS},
}


def page_routes() -> APIRouter:
    """Return the routes of the page and its files."""
    router = APIRouter(include_in_schema=False)
    for path, (name, kind) in PAGE_FILES.items():
        content = (files("denslice.serve") / "web" / name).read_bytes()
        router.add_api_route(path, _file_route(content, kind), methods=["GET", "HEAD"])
    return router


def _file_route(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    """Return the function that responds with one file."""
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache", "Content-Type": kind}

    async def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers)

    return send
