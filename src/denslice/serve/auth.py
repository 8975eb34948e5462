"""The API key: which requests need it, and whether they have it."""

from __future__ import annotations

import hmac

from fastapi import Request
from fastapi.security import HTTPBearer

from denslice.serve.http_errors import HttpError
from denslice.serve.limits import Access
from denslice.serve.web_page import PAGE_FILES

PUBLIC_PATHS = frozenset({*PAGE_FILES, "/healthz", "/readyz"})  # these never need the key
BEARER = HTTPBearer(auto_error=False)  # documents the key in /openapi.json; the functions below check it


def check_read(access: Access, path: str, authorization: str) -> None:
    """Raise HttpError if a request for this path lacks the key that reading needs.

    It works on paths and not on routes, so it protects a new route too.
    """
    if access.key_for_reads and path not in PUBLIC_PATHS:
        _check_key(access, authorization)


def may_write(access: Access, authorization: str) -> bool:
    """Return whether a request with this Authorization header may change the index."""
    return access.writable and _has_key(access, authorization)


async def require_write(request: Request) -> None:
    """Raise HttpError if the request may not write. It is async because FastAPI runs sync dependencies in threads."""
    access: Access = request.app.state.access
    if not access.writable:
        raise HttpError(403, "read_only", "this server is read-only; start it with --writable to add or delete")
    _check_key(access, request.headers.get("authorization", ""))


def _check_key(access: Access, authorization: str) -> None:
    if not _has_key(access, authorization):
        raise HttpError(401, "key_needed", "this request needs the API key: send Authorization: Bearer KEY")


def _has_key(access: Access, authorization: str) -> bool:
    """Return whether the header holds the key. The comparison takes constant time."""
    scheme, _, given = authorization.partition(" ")
    known = access.api_key is not None and hmac.compare_digest(given.strip().encode(), access.api_key.encode())
    return known and scheme.lower() == "bearer"
