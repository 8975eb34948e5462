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

from denslice.cores import CPU_COUNT, cores
from denslice.serve.metrics import METRICS_FOLDER
from denslice.serve.supervisor import Supervisor
from denslice.serve.worker import WorkerSettings, run_worker


def serve_with_workers(settings: WorkerSettings, listener: socket.socket) -> None:
    """Serve connections to the listener until a signal stops the server."""
    share = max(1, cores() // settings.workers)
    with TemporaryDirectory(prefix="denslice-metrics-") as folder, _environment(folder, share):
        ended = partial(mark_process_dead, path=folder)
        start, most = partial(_started, settings), settings.limits.max_connections
        Supervisor(listener, start, settings.workers, most, ended).run()


def _started(settings: WorkerSettings, number: int, channel: socket.socket) -> BaseProcess:
    """Return a new worker. It is spawned: a fork would copy locks that threads of this process may hold."""
    process = get_context("spawn").Process(target=run_worker, args=(settings, number, channel))
    process.start()
    return process


@contextmanager
def _environment(folder: str, share: int) -> Iterator[None]:
    """Tell workers where to keep their metrics and how many cores each may use: together, as many as there are."""
    told = {METRICS_FOLDER: folder, CPU_COUNT: str(share)}
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
