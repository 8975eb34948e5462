"""Middleware that checks every request first: Host header, API key, content type, size and time of the body."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from denslice.serve.auth import check_read, may_write
from denslice.serve.http_errors import HttpError, error_response
from denslice.serve.limits import Access, Limits
from denslice.serve.metrics import Metrics
from denslice.serve.request_log import AccessLog

log = logging.getLogger("denslice.serve")
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
INTERNAL_ERROR = HttpError(500, "internal", "the server failed to answer this request; see its log")
OTHER = "other"  # the label of requests that match no route
Headers = Mapping[bytes, bytes]


class GuardMiddleware:
    """ASGI middleware with these checks. It also sets security headers and counts responses."""

    def __init__(
        self, app: ASGIApp, limits: Limits, access: Access, metrics: Metrics, log: AccessLog | None = None
    ) -> None:
        self._app, self._limits, self._access, self._metrics, self._log = app, limits, access, metrics, log
        self._hosts = access.allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with an error, or read the body and call the app."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began, status, sent = time.perf_counter(), 0, 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *HEADERS]
            else:
                sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._checked(scope, receive, send_with_headers)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not status:
                await error_response(INTERNAL_ERROR)(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", OTHER)
            seconds = time.perf_counter() - began
            self._metrics.request(route, scope["method"], status, seconds)
            if self._log:
                self._log.write(scope, status, seconds, sent)

    async def _checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        try:
            self._check_host(headers)
            authorization = headers.get(b"authorization", b"").decode("latin-1")
            check_read(self._access, scope["path"], authorization)
            _check_type(headers)
            body = await self._body(headers, authorization, receive)
        except HttpError as error:
            self._metrics.refused(error.code)
            return await error_response(error)(scope, receive, send)
        if body is not None:
            await self._app(scope, body_again(body, receive), send)

    def _check_host(self, headers: Headers) -> None:
        if self._hosts and _name(headers.get(b"host", b"").decode("latin-1")) not in self._hosts:
            message = "the Host header names another server; --allow-host NAME makes this server accept a name"
            raise HttpError(421, "unknown_host", message)

    async def _body(self, headers: Headers, authorization: str, receive: Receive) -> bytes | None:
        """Return the whole body, or None if the client disconnected."""
        most = self._limits.max_write_body if may_write(self._access, authorization) else self._limits.max_body
        length = headers.get(b"content-length", b"0")
        too_large = HttpError(413, "body_too_large", f"the body is too large; at most {most:,} bytes are accepted")
        if not length.isdigit() or int(length[:20]) > most:
            raise too_large
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._limits.body_timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        raise too_large
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            too_slow = f"the body did not arrive within {self._limits.body_timeout:g} s"
            raise HttpError(408, "body_too_slow", too_slow) from None


def _check_type(headers: Headers) -> None:
    """Raise HttpError if the body is not declared as JSON. Forms on other sites cannot declare that."""
    has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
    if has_body and headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        raise HttpError(415, "not_json", "the body must be JSON: send Content-Type: application/json")


def body_again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that returns this body first."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _name(host: str) -> str:
    """Return the name in a Host header, without port and brackets."""
    return (host[1:].partition("]") if host.startswith("[") else host.partition(":"))[0].lower()
