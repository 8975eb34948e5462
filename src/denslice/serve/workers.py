"""The worker processes of one server: they are started with the same settings, and share a folder of metrics."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from tempfile import TemporaryDirectory

from prometheus_client.multiprocess import mark_process_dead

from denslice.serve.metrics import METRICS_FOLDER
from denslice.serve.supervisor import Supervisor
from denslice.serve.worker import WorkerSettings, run_worker


def serve_with_workers(settings: WorkerSettings, listener: socket.socket) -> None:
    """Serve connections to the listener until a signal stops the server."""
    with _metrics_folder() as folder:
        ended = partial(mark_process_dead, path=folder)
        start, most = partial(_started, settings), settings.limits.max_connections
        Supervisor(listener, start, settings.workers, most, ended).run()


def _started(settings: WorkerSettings, number: int, channel: socket.socket) -> BaseProcess:
    """Return a new worker. It is spawned: a fork would copy locks that threads of this process may hold."""
    process = get_context("spawn").Process(target=run_worker, args=(settings, number, channel))
    process.start()
    return process


@contextmanager
def _metrics_folder() -> Iterator[str]:
    """Make the folder in which workers keep their metrics, and name it in their environment."""
    with TemporaryDirectory(prefix="denslice-metrics-") as folder:
        os.environ[METRICS_FOLDER] = folder
        try:
            yield folder
        finally:
            del os.environ[METRICS_FOLDER]
