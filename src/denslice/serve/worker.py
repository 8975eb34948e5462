"""A worker process: it opens the index and serves the connections that the supervisor hands to it."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from starlette.types import ASGIApp

from denslice.index.index import Index
from denslice.index.indexes import Indexes, open_indexes
from denslice.options import OpenOptions
from denslice.serve.deepening_task import DeepeningTask
from denslice.serve.http_app import make_app
from denslice.serve.http_server import SIGNALS, Server, server_config, spare_collector
from denslice.serve.limits import Access, Limits
from denslice.serve.request_log import LogOptions

READY, CLOSED = b"r", b"c"  # what a worker tells the supervisor: it is ready, a connection has ended


@dataclass(frozen=True)
class WorkerSettings:
    """What every worker of a server is started with."""

    folders: tuple[Path, ...]
    on: OpenOptions
    limits: Limits
    access: Access
    workers: int
    deepen: float | None  # the share of a core's time for deepening, which the first worker does
    logs: LogOptions


def run_worker(settings: WorkerSettings, number: int, channel: socket.socket) -> None:
    """Serve connections from the channel until it ends. Signals are for the supervisor."""
    for one in (*SIGNALS, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    limits = share_of(settings.limits, settings.workers)
    with _opened(settings) as index:
        deepening = _deepening(index, settings.deepen if number == 0 else None)
        line = Channel(channel)

        def ready() -> None:
            spare_collector()
            line.tell(READY)

        app = make_app(index, limits, settings.access, deepening, ready, settings.logs)
        HandedServer(app, limits, line).run()


def _opened(settings: WorkerSettings) -> Index | Indexes:
    if len(settings.folders) > 1:
        return open_indexes(settings.folders, **vars(settings.on))
    return Index.open(settings.folders[0], **vars(settings.on))


def _deepening(index: Index | Indexes, share: float | None) -> DeepeningTask | None:
    return DeepeningTask(index, share) if share and isinstance(index, Index) else None


def share_of(limits: Limits, workers: int) -> Limits:
    """Return the limits of one worker: its share of what may wait, as each has as many connections as the others."""
    waiting = max(limits.max_queries, ceil(limits.max_waiting / workers))
    return replace(limits, max_waiting=waiting, max_writes=ceil(limits.max_writes / workers))


class Channel:
    """A worker's end of the channel to the supervisor."""

    def __init__(self, socket: socket.socket) -> None:
        self.socket, self.has_ended = socket, False
        socket.setblocking(False)

    def tell(self, what: bytes) -> None:
        """Send a byte to the supervisor."""
        with suppress(OSError):  # it has ended, and so will this process
            self.socket.send(what)

    def connections(self) -> Iterator[socket.socket]:
        """Yield the connections that have arrived."""
        while not self.has_ended:
            try:
                told, handles, *_ = socket.recv_fds(self.socket, 1, 1)
            except BlockingIOError:
                return
            except OSError:
                told, handles = b"", []
            self.has_ended = not told
            for handle in handles:
                connection = socket.socket(fileno=handle)
                connection.setblocking(False)
                yield connection


class HandedServer(Server):
    """A server without a listening socket. It stops when its channel ends."""

    def __init__(self, app: ASGIApp, limits: Limits, channel: Channel) -> None:
        super().__init__(server_config(app, limits, lambda: channel.tell(CLOSED)))
        self._channel = channel

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the app, and read the channel from then on."""
        await super().startup(sockets=[])
        asyncio.get_running_loop().add_reader(self._channel.socket, self._receive)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    def _receive(self) -> None:
        """Serve the connections that have arrived, and stop if the channel has ended."""
        for connection in self._channel.connections():
            task = asyncio.create_task(self._adopt(connection))
            self.server_state.tasks.add(task)
            task.add_done_callback(self.server_state.tasks.discard)
        if self._channel.has_ended:
            asyncio.get_running_loop().remove_reader(self._channel.socket)
            self.should_exit = True

    async def _adopt(self, connection: socket.socket) -> None:
        loop, config = asyncio.get_running_loop(), self.config

        def protocol() -> asyncio.Protocol:
            made: asyncio.Protocol = config.http_protocol_class(  # type: ignore[call-arg]
                config=config, server_state=self.server_state, app_state=self.lifespan.state, _loop=loop
            )
            return made

        try:
            await loop.connect_accepted_socket(protocol, connection)
        except OSError:  # the client has gone
            connection.close()
            self._channel.tell(CLOSED)
