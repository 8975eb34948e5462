"""What every request passes first: the name it calls us by, the key, the size of its body and the time that takes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from denslice.serve.auth import check_may_ask, may_write
from denslice.serve.http_errors import Refusal, response
from denslice.serve.limits import Access, Limits
from denslice.serve.metrics import Metrics

log = logging.getLogger("denslice.serve")
CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = [
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
FAILED = Refusal(500, "internal", "the server failed at this; its log tells why")
OTHER = "other"  # route of what none matches
Headers = Mapping[bytes, bytes]


class Guard:
    """The app behind these checks; counts what it answers."""

    def __init__(self, app: ASGIApp, limits: Limits, access: Access, metrics: Metrics) -> None:
        self._app, self._limits, self._access, self._metrics = app, limits, access, metrics
        self._hosts = access.allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or hands it on with its body read."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        try:
            await self._guarded(scope, receive, sending)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not status:
                await response(FAILED)(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", OTHER)
            self._metrics.request(route, scope["method"], status, time.perf_counter() - began)

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        try:
            self._check_host(headers)
            authorization = headers.get(b"authorization", b"").decode("latin-1")
            check_may_ask(self._access, scope["path"], authorization)
            _check_type(headers)
            body = await self._body(headers, authorization, receive)
        except Refusal as refusal:
            self._metrics.refused(refusal.code)
            return await response(refusal)(scope, receive, send)
        if body is not None:
            await self._app(scope, _again(body, receive), send)

    def _check_host(self, headers: Headers) -> None:
        if self._hosts and _name(headers.get(b"host", b"").decode("latin-1")) not in self._hosts:
            raise Refusal(421, "unknown_host", "this server goes by another name; --allow-host adds one")

    async def _body(self, headers: Headers, authorization: str, receive: Receive) -> bytes | None:
        """The whole body; None where the client went away."""
        most = self._limits.max_write_body if may_write(self._access, authorization) else self._limits.max_body
        told = headers.get(b"content-length", b"0")
        too_large = Refusal(413, "body_too_large", f"the body is larger than {most:,} bytes")
        if not told.isdigit() or int(told[:20]) > most:
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
            told_s = f"the body did not arrive within {self._limits.body_timeout:g} s"
            raise Refusal(408, "body_too_slow", told_s) from None


def _check_type(headers: Headers) -> None:
    """Refuses a body that is not said to be JSON: a form of another site's page can send one only so."""
    has_body = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers
    if has_body and headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != b"application/json":
        raise Refusal(415, "not_json", "send JSON, with Content-Type: application/json")


def _again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives this body first."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _name(host: str) -> str:
    """The name in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()
