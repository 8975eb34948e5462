"""Connections to a server, which are kept for the next request. This is the only file that imports httpx."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx

from denslice.client.api_calls import ApiCall, Result
from denslice.client.server_replies import Attempts, Reply, ServerAddress, result_of
from denslice.errors import InputError

CONNECT_TIMEOUT = 5.0  # seconds
WRITE_TIMEOUT = 600.0  # seconds: a server encodes the documents of a request before it answers
KEPT = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=10.0)  # the server keeps 15 s
JSON = {"Content-Type": "application/json"}
BROKEN = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


class Connections:
    """Sends requests from any number of threads."""

    def __init__(self, server: ServerAddress) -> None:
        self._server = server
        self._http = httpx.Client(**_settings(server))

    def send(self, call: ApiCall[Result]) -> Result:
        """Return the result of a request, which is sent again if that may help; or raise a DensliceError."""
        attempts = Attempts(self._server.retries)
        while True:
            reply = self._reply(call)
            if (pause := attempts.pause(reply)) is None:
                return result_of(call, reply, self._server)
            time.sleep(pause)

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def _reply(self, call: ApiCall[Any]) -> Reply:
        _check_open(self._http)
        try:
            response = self._http.request(**_request(call, self._server))
        except httpx.RequestError as error:
            return _no_reply(error, call, self._server)
        return Reply(response.status_code, response.headers, response.content)


class AsyncConnections:
    """Sends requests from the event loop."""

    def __init__(self, server: ServerAddress) -> None:
        self._server = server
        self._http = httpx.AsyncClient(**_settings(server))

    async def send(self, call: ApiCall[Result]) -> Result:
        """Return the result of a request, which is sent again if that may help; or raise a DensliceError."""
        attempts = Attempts(self._server.retries)
        while True:
            reply = await self._reply(call)
            if (pause := attempts.pause(reply)) is None:
                return result_of(call, reply, self._server)
            await asyncio.sleep(pause)

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def _reply(self, call: ApiCall[Any]) -> Reply:
        _check_open(self._http)
        try:
            response = await self._http.request(**_request(call, self._server))
        except httpx.RequestError as error:
            return _no_reply(error, call, self._server)
        return Reply(response.status_code, response.headers, response.content)


def _settings(server: ServerAddress) -> dict[str, Any]:
    key = {} if server.api_key is None else {"Authorization": f"Bearer {server.api_key}"}
    return {"base_url": server.url, "headers": key, "limits": KEPT}


def _request(call: ApiCall[Any], server: ServerAddress) -> dict[str, Any]:
    headers = JSON if call.content is not None else {}
    seconds = _seconds(call, server)
    timeout = httpx.Timeout(seconds, connect=min(CONNECT_TIMEOUT, seconds))
    return {"method": call.method, "url": call.path, "content": call.content, "headers": headers, "timeout": timeout}


def _seconds(call: ApiCall[Any], server: ServerAddress) -> float:
    return max(server.timeout, WRITE_TIMEOUT) if call.is_write else server.timeout


def _no_reply(error: httpx.RequestError, call: ApiCall[Any], server: ServerAddress) -> Reply:
    """Return that no response came. After a timeout, the server may still be at work: the request is not repeated."""
    if isinstance(error, httpx.TimeoutException) and not isinstance(error, httpx.ConnectTimeout):
        return Reply(0, {}, b"", f"no answer within {_seconds(call, server):g} s")
    return Reply(0, {}, b"", f"no answer ({str(error) or type(error).__name__})", isinstance(error, BROKEN))


def _check_open(http: httpx.Client | httpx.AsyncClient) -> None:
    if http.is_closed:
        raise InputError("this client is closed; make another one")


def is_event_loop() -> bool:
    """Return whether this thread runs an event loop, which must not wait for a server."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
