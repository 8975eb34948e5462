"""`denslice serve` as a process, and clients that ask it without pause."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from serving import Live
from waiting import wait_until

DENSLICE = [sys.executable, "-m", "denslice"]


@contextmanager
def process(*arguments: object, **environment: str) -> Iterator[tuple[subprocess.Popen[str], Live]]:
    """A server in a process of its own, ready."""
    command = [*DENSLICE, "serve", *map(str, arguments), "--port", "0"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = subprocess.Popen(command, env=os.environ | environment, **pipes)
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert " on http://127.0.0.1:" in line
        served = Live(int(line.rpartition(":")[2]))
        wait_until(lambda: served.ask("/readyz").status == 200)
        yield running, served
    finally:
        running.kill()
        running.communicate()


class Client(threading.Thread):
    """Asks on one connection for as long as the server lets it, and counts what became of each request."""

    def __init__(self, port: int, counts: Counter[str], k: int = 100) -> None:
        super().__init__()
        self._port, self._counts, self._k = port, counts, k
        self.stopping = False

    def run(self) -> None:
        body = json.dumps({"query": "word1 word7 word30", "k": self._k})
        while not self.stopping:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
            try:
                connection.connect()
            except ConnectionError:
                return  # nobody listens any more: nothing was asked
            try:
                self._ask_on(connection, body)
            except (OSError, http.client.HTTPException) as error:
                self._counts[f"lost: {type(error).__name__}"] += 1
                return
            finally:
                connection.close()

    def _ask_on(self, connection: http.client.HTTPConnection, body: str) -> None:
        while not self.stopping:
            connection.request("POST", "/search", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            whole = len(json.loads(answer.read())["results"][0]["hits"]) == self._k
            self._counts["answered" if whole else "lost: half an answer"] += 1
            if answer.will_close:
                self._counts["told to close"] += 1
                return


@contextmanager
def asking(port: int, counts: Counter[str], clients: int, k: int = 100) -> Iterator[None]:
    """So many clients ask while the block runs."""
    threads = [Client(port, counts, k) for _ in range(clients)]
    for one in threads:
        one.start()
    try:
        yield
    finally:
        for one in threads:
            one.stopping = True
        for one in threads:
            one.join()
