"""The API key: who gave it, and who has to."""

from __future__ import annotations

import hmac

from fastapi import Request
from fastapi.security import HTTPBearer

from denslice.serve.http_errors import Refusal
from denslice.serve.limits import Access
from denslice.serve.web_page import FILES

WITHOUT_KEY = frozenset({*FILES, "/healthz", "/readyz"})  # every other address takes the key where reading does
BEARER = HTTPBearer(auto_error=False)  # describes the key in /openapi.json; the checks are below


def check_may_ask(access: Access, path: str, authorization: str) -> None:
    """Refuses a request for this path by whoever may not even read. It knows no routes: a new one is guarded too."""
    if access.key_for_reads and path not in WITHOUT_KEY:
        _check_key(access, authorization)


def may_write(access: Access, authorization: str) -> bool:
    """Whether a request with this Authorization header may change the index."""
    return access.writable and _has_key(access, authorization)


async def writing(request: Request) -> None:
    """Refuses whoever may not write. It is async, or FastAPI would take a thread for it each time."""
    access: Access = request.app.state.access
    if not access.writable:
        raise Refusal(403, "read_only", "this server only reads; it was started without --writable")
    _check_key(access, request.headers.get("authorization", ""))


def _check_key(access: Access, authorization: str) -> None:
    if not _has_key(access, authorization):
        raise Refusal(401, "key_needed", "this needs the API key, as Authorization: Bearer KEY")


def _has_key(access: Access, authorization: str) -> bool:
    """Whether the header holds the key, in a time that tells nothing of how much of it is right."""
    scheme, _, given = authorization.partition(" ")
    known = access.api_key is not None and hmac.compare_digest(given.strip().encode(), access.api_key.encode())
    return known and scheme.lower() == "bearer"
