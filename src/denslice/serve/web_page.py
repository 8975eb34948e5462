"""The page at `/`: a few plain files of this package, read once and sent as they are."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import APIRouter, Request, Response

FILES = {  # by address
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/results.js": ("results.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


def page_routes() -> APIRouter:
    """`/` and the files it names."""
    router = APIRouter(include_in_schema=False)
    for address, (name, kind) in FILES.items():
        content = (files("denslice.serve") / "web" / name).read_bytes()
        router.add_api_route(address, _sending(content, kind), methods=["GET", "HEAD"])
    return router


def _sending(content: bytes, kind: str) -> Callable[[Request], Awaitable[Response]]:
    """What answers a request for one file."""
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "no-cache", "Content-Type": kind}

    async def send(request: Request) -> Response:
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers)

    return send
