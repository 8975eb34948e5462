"""uvicorn with timeouts for slow clients, a limit on connections, and a graceful shutdown that loses no request."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from denslice.serve.http_errors import RETRY_AFTER
from denslice.serve.limits import Limits

MAX_HEADER_BYTES = 64 << 10
LINGER_SECONDS = 0.5  # at shutdown, an idle connection accepts requests for this long
COLLECT_AFTER = 10_000  # new objects; Python's own default is 700
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def refusal(status: str) -> bytes:
    """Return a response without a body after which the connection is closed."""
    return f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()


TOO_MANY_CONNECTIONS = refusal(f"503 Service Unavailable\r\nretry-after: {RETRY_AFTER}")


class Connection(HttpToolsProtocol):
    """A uvicorn connection with timeouts for sending headers and for receiving a response."""

    limits = Limits()
    ended: Callable[[], None] = staticmethod(lambda: None)  # is called when a connection has ended

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._head_timer, self._send_timer = Timer(self.loop), Timer(self.loop)
        self._head_bytes = 0
        self._ending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the header timeout, or close the connection if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections:
            return self._refuse(TOO_MANY_CONNECTIONS)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Parse data, unless the headers are too large."""
        if self._head_timer or self._idle:
            head, _, _ = data.partition(b"\r\n\r\n")
            self._head_bytes += len(head)
            if self._head_bytes > MAX_HEADER_BYTES:
                return self._refuse(refusal("431 Request Header Fields Too Large"))
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Start the header timeout of a new request."""
        super().on_message_begin()
        self._await_head()

    def on_headers_complete(self) -> None:
        """Stop the header timeout. During shutdown, close the connection after this request."""
        self._head_timer.cancel()
        self._head_bytes = 0
        super().on_headers_complete()
        if self._ending and self.cycle is not None:
            self.cycle.keep_alive = False

    def pause_writing(self) -> None:
        """Start the send timeout: the client does not read the response."""
        super().pause_writing()
        self._send_timer.set(self.limits.send_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the send timeout: the client reads again."""
        self._send_timer.cancel()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeouts."""
        self._head_timer.cancel()
        self._send_timer.cancel()
        super().connection_lost(exc)
        self.ended()

    def shutdown(self) -> None:
        """Close the connection after the current request; if it is idle, after LINGER_SECONDS."""
        self._ending = True
        if self._idle:
            self.loop.call_later(LINGER_SECONDS, self._end)
        else:
            super().shutdown()

    @property
    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _end(self) -> None:
        if not self.transport.is_closing():
            super().shutdown()

    def _await_head(self) -> None:
        self._head_timer.set(self.limits.header_timeout, self._refuse, refusal("408 Request Timeout"))

    def _refuse(self, response: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(response)
            self.transport.close()


class Server(uvicorn.Server):
    """A uvicorn server that a signal stops; the process then exits with status 0."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals while the server runs. The second signal stops it without waiting for requests."""
        if threading.current_thread() is not threading.main_thread():  # only the main thread receives signals
            yield
            return
        loop = asyncio.get_running_loop()
        for one in SIGNALS:
            loop.add_signal_handler(one, self._stop)
        try:
            yield
        finally:
            for one in SIGNALS:
                loop.remove_signal_handler(one)

    def _stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def make_server(app: Any, limits: Limits) -> Server:
    """Return a server for the app with these limits."""
    return Server(server_config(app, limits))


def server_config(app: Any, limits: Limits, ended: Callable[[], None] = lambda: None) -> uvicorn.Config:
    """Return the settings of a server; `ended` is called when a connection has ended."""
    connection = type("LimitedConnection", (Connection,), {"limits": limits, "ended": staticmethod(ended)})
    return uvicorn.Config(
        app,
        http=connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=int(2 * limits.timeout + limits.body_timeout + limits.send_timeout),
    )


def spare_collector() -> None:
    """Let Python's garbage collector look at new objects only, and less often.

    A full collection of what is loaded takes a tenth of a second, and answers wait for it. The process only serves.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)


class Timer:
    """A delayed call that can be cancelled. `set` replaces the previous call."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        return self._handle is not None

    def set(self, seconds: float, call: Callable[..., None], *given: Any) -> None:
        """Schedule the call."""
        self.cancel()
        self._handle = self._loop.call_later(seconds, call, *given)

    def cancel(self) -> None:
        """Cancel the call."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
