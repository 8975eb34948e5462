"""Several worker processes behind one socket: this process accepts connections and hands each to a worker.

A worker has one channel to this process. Connections travel down it; a worker sends a byte up it when it is ready and
whenever a connection has ended. The end of the channel tells a worker to finish, and this process that one has ended.
"""

from __future__ import annotations

import logging
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess

from denslice.serve.http_server import SIGNALS, TOO_MANY_CONNECTIONS
from denslice.serve.worker import CLOSED, READY

log = logging.getLogger("denslice.serve")
RESTART_SECONDS = 1.0  # between the end of a worker and the start of the next one
RELOAD = signal.SIGHUP
StartWorker = Callable[[int, socket.socket], BaseProcess]  # takes the number of a worker and its end of the channel


@dataclass(eq=False)
class WorkerProcess:
    """A process that serves connections."""

    number: int
    process: BaseProcess
    channel: socket.socket
    connections: int = 0
    is_ready: bool = False
    is_outdated: bool = False  # it is to be replaced
    is_ending: bool = False

    def end(self) -> None:
        """Let the worker answer the requests that it has, and exit."""
        if not self.is_ending:
            self.is_ending = True
            with suppress(OSError):  # it has ended already
                self.channel.shutdown(socket.SHUT_WR)

    def takes(self, connection: socket.socket) -> bool:
        """Hand a connection over; return whether the worker can be reached."""
        try:
            socket.send_fds(self.channel, [b"+"], [connection.fileno()])
        except OSError:
            return False
        self.connections += 1
        return True


class Supervisor:
    """Starts workers, starts others in place of those that end, and replaces all of them one by one on SIGHUP."""

    def __init__(
        self,
        listener: socket.socket,
        start: StartWorker,
        count: int,
        max_connections: int,
        ended: Callable[[int], None] = lambda process: None,
    ) -> None:
        """Make the supervisor of `count` workers; `ended` is called with the process id of each that has ended."""
        self._listener, self._start, self._count, self._most, self._ended = (
            listener, start, count, max_connections, ended,
        )  # fmt: skip
        self._workers: list[WorkerProcess] = []
        self._waiting: deque[socket.socket] = deque()  # connections that no worker has taken yet
        self._due: dict[int, float] = dict.fromkeys(range(count), 0.0)  # when to start which worker
        self._is_stopping = False
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)

    def run(self) -> None:
        """Serve until a signal stops it and every worker has ended."""
        with _received_signals() as signals, self._selector:
            self._selector.register(signals, selectors.EVENT_READ, None)
            self._selector.register(self._listener, selectors.EVENT_READ, None)
            try:
                while self._workers or not self._is_stopping:
                    self._step(signals)
            finally:
                for worker in self._workers:
                    worker.channel.close()
                for connection in self._waiting:
                    connection.close()

    def _step(self, signals: socket.socket) -> None:
        self._start_due()
        self._replace_outdated()
        for key, _ in self._selector.select(self._patience()):
            if key.fileobj is signals:
                self._obey(signals.recv(64))
            elif key.fileobj is self._listener:
                self._accept()
            else:
                self._hear(key.data)
        self._hand_out()

    def _patience(self) -> float | None:
        """Return the seconds until the next worker is to be started."""
        return max(0.0, min(self._due.values()) - time.monotonic()) if self._due else None

    # --- signals

    def _obey(self, numbers: bytes) -> None:
        for number in numbers:
            if number == RELOAD:
                for worker in self._workers:
                    worker.is_outdated = True
            elif self._is_stopping:
                for worker in self._workers:
                    worker.process.kill()
            elif number in SIGNALS:
                self._stop()

    def _stop(self) -> None:
        """Accept no more connections, and let the workers finish with those that were made."""
        self._is_stopping = True
        self._due.clear()
        self._accept()
        self._hand_out()
        self._selector.unregister(self._listener)
        self._listener.close()
        for worker in self._workers:
            worker.end()

    # --- connections

    def _accept(self) -> None:
        """Take every connection that clients have made."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # there is none, or it has been given up
                return
            if sum(worker.connections for worker in self._workers) + len(self._waiting) < self._most:
                self._waiting.append(connection)
                continue
            with connection, suppress(OSError):
                connection.send(TOO_MANY_CONNECTIONS)

    def _hand_out(self) -> None:
        """Give each connection to the worker with the fewest: to one that is ready, if any is."""
        while self._waiting and (able := [worker for worker in self._workers if not worker.is_ending]):
            order = sorted(able, key=lambda worker: (not worker.is_ready, worker.is_outdated, worker.connections))
            if not any(worker.takes(self._waiting[0]) for worker in order):
                return
            self._waiting.popleft().close()  # the worker has it

    # --- workers

    def _start_due(self) -> None:
        for number in [number for number, at in self._due.items() if at <= time.monotonic()]:
            del self._due[number]
            self._start_worker(number)

    def _start_worker(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            worker = WorkerProcess(number, self._start(number, theirs), ours)
        ours.setblocking(False)
        self._workers.append(worker)
        self._selector.register(ours, selectors.EVENT_READ, worker)

    def _hear(self, worker: WorkerProcess) -> None:
        try:
            told = worker.channel.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            told = b""
        worker.connections -= told.count(CLOSED)
        worker.is_ready |= READY in told
        if not told:
            self._bury(worker)

    def _bury(self, worker: WorkerProcess) -> None:
        """Forget a worker that has ended, and start another one unless it was meant to end."""
        self._selector.unregister(worker.channel)
        worker.channel.close()
        self._workers.remove(worker)
        worker.process.join()
        self._ended(worker.process.pid or 0)
        if self._is_stopping or worker.is_ending:
            return
        log.error("worker %d ended with status %s; another one is started", worker.number, worker.process.exitcode)
        self._due[worker.number] = time.monotonic() + (0.0 if worker.is_ready else RESTART_SECONDS)

    def _replace_outdated(self) -> None:
        """Start one worker more while any is outdated, and end an outdated one for each that is ready."""
        outdated = [worker for worker in self._workers if worker.is_outdated and not worker.is_ending]
        fresh = [worker for worker in self._workers if not worker.is_outdated]
        if self._is_stopping or not outdated or self._due:
            return
        if all(worker.is_ready for worker in fresh):
            numbers = {worker.number for worker in fresh}
            ready = next((worker for worker in outdated if worker.number in numbers), None)
            if ready is None:
                return self._start_worker(outdated[0].number)
            ready.end()
        return None


@contextmanager
def _received_signals() -> Iterator[socket.socket]:
    """Yield a socket that receives the number of each signal."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        caught = (*SIGNALS, RELOAD)
        before = [signal.signal(one, lambda *_: None) for one in caught]
        old = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield ours
        finally:
            signal.set_wakeup_fd(old)
            for one, handler in zip(caught, before, strict=True):
                signal.signal(one, handler)
