"""A server in this process, on a port of its own, and ways to ask it: for tests of `denslice serve`."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from denslice.serve.deepening_task import DeepeningTask
from denslice.serve.http_app import make_app
from denslice.serve.http_server import make_server
from denslice.serve.limits import Access, Limits
from denslice.serve.searchable import Searchable
from waiting import wait_until

KEY = "a-key-for-tests-only"
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The word that says why not."""
        return str(self.json()["error"]["code"])


@dataclass(frozen=True)
class Live:
    """A running server."""

    port: int

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, body: Any = None, method: str | None = None, **headers: str) -> Answer:
        """The answer to one request; a body that is not bytes is sent as JSON. `a_b` in a header's name is `A-B`."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = (JSON if data is not None else {}) | {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.address + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return Answer(answer.status, _lower(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, _lower(error.headers), error.read())

    def search(self, query: str, **settings: Any) -> Answer:
        """The answer to one query."""
        return self.ask("/search", {"query": query, **settings})

    def raw(self, sent: bytes, wait: float = 10.0) -> bytes:
        """All that comes back until the server closes, for bytes sent as they are."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as connection:
            connection.sendall(sent)
            return received(connection)

    def metric(self, line: str) -> float:
        """The value of one line of the metrics."""
        found = [one for one in self.ask("/metrics").body.decode().splitlines() if one.startswith(line + " ")]
        return float(found[0].rpartition(" ")[2])


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def received(connection: socket.socket) -> bytes:
    """Everything until the other side closes."""
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


@contextmanager
def live(
    searchable: Searchable,
    limits: Limits | None = None,
    access: Access | None = None,
    deepening: DeepeningTask | None = None,
) -> Iterator[Live]:
    """A server for the block; ready when it begins, and stopped as by a signal when it ends."""
    limits = limits or Limits()
    running = make_server(make_app(searchable, limits, access or Access(), deepening), limits)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=running.run, args=([listener],))
        thread.start()
        try:
            asked = Live(port)
            wait_until(lambda: asked.ask("/readyz").status == 200)
            yield asked
        finally:
            running.should_exit = True
            thread.join()
