"""The API key: who gave it, and who has to. What FastAPI calls here is async, or it would take a thread each time."""

from __future__ import annotations

import hmac
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from denslice.serve.refusals import Refusal
from denslice.serve.settings import Access

Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]


def may_write(access: Access, authorization: str) -> bool:
    """Whether a request with this Authorization header may change the index."""
    scheme, _, key = authorization.partition(" ")
    return access.writable and scheme.lower() == "bearer" and _is_key(access, key.strip())


async def reading(request: Request, given: Bearer) -> None:
    """Refuses whoever may not read."""
    access: Access = request.app.state.access
    if access.key_for_reads:
        _check(access, given)


async def writing(request: Request, given: Bearer) -> None:
    """Refuses whoever may not write."""
    access: Access = request.app.state.access
    if not access.writable:
        raise Refusal(403, "read_only", "this server only reads; it was started without --writable")
    _check(access, given)


def _check(access: Access, given: HTTPAuthorizationCredentials | None) -> None:
    if given is None or not _is_key(access, given.credentials):
        raise Refusal(401, "key_needed", "this needs the API key, as Authorization: Bearer KEY")


def _is_key(access: Access, given: str) -> bool:
    """Whether this is the key, in a time that tells nothing of how much of it is right."""
    return access.api_key is not None and hmac.compare_digest(given.encode(), access.api_key.encode())
