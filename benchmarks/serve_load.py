"""Loads the server with queries and compares it with search in process: throughput, latency, errors and memory.

The server is `denslice serve` in a process of its own. Clients are connections of this process, and each sends its next
query as soon as the last one is answered, so clients and server share the machine's cores. The comparison is
`Index.search_batch` over the same queries with the same k, without fetching documents, for some seconds before and
after the load; its fastest window counts. CPU time per query is reported too, as it hardly depends on what else the
machine does. Nothing is timed unless the answers over HTTP equal those in process. Appends a line to
results/serve_load.jsonl.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import journal
from denslice import Index
from denslice.corpus.documents import read_queries
from denslice.reproduce.table_page import markdown

PACKAGES = ("numpy", "numba", "onnxruntime", "fastapi", "uvicorn", "uvloop", "httptools", "pydantic")
CHUNK = 256  # queries of one call in process
CHECKED = 64  # queries whose answers are compared before anything is timed


@dataclass(frozen=True)
class Configuration:
    """The options of the command line."""

    index: str
    queries: str
    clients: int
    seconds: float
    k: int
    pause: float  # seconds a client waits before its next query
    windows: int  # before the load, and as many after it
    window_seconds: float


@dataclass(frozen=True)
class Window:
    """Queries searched in process, and the wall-clock and CPU seconds they took."""

    queries: int
    seconds: float
    processor: float


@dataclass
class Seen:
    """What the clients measured."""

    latencies: list[float] = field(default_factory=list)  # seconds, of answers with status 200
    statuses: Counter[int] = field(default_factory=Counter)
    memory: list[int] = field(default_factory=list)  # resident bytes of the server, once a second
    server: float = 0.0  # CPU seconds
    clients: float = 0.0


def main() -> None:
    """Check, time, print and append the line."""
    configuration = _arguments()
    texts = [query.text for query in read_queries(configuration.queries)]
    index = Index.open(configuration.index)
    index.search_batch(texts[:CHECKED], configuration.k)
    with serving(configuration.index) as (server, port):
        verify(index, texts[:CHECKED], configuration.k, port)
        inside = in_process(index, texts, configuration)
        seen = asyncio.run(load(texts, configuration, port, server.pid))
        inside += in_process(index, texts, configuration)
    figures = summary(seen, inside, configuration) | {
        "documents": len(index),
        "encoder": index.info()["encoder"],
    }
    print(table([figures]))
    print(journal.append("serve_load", PACKAGES, asdict(configuration), figures))


@contextmanager
def serving(folder: str, *flags: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run `denslice serve` on a free port until the block ends."""
    command = [sys.executable, "-m", "denslice", "serve", folder, "--port", "0", *flags]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with ready(server) as port:
        yield server, port


@contextmanager
def ready(server: subprocess.Popen[str]) -> Iterator[int]:
    """Yield the port of a server that was started, once it is ready, and stop it when the block ends."""
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().rstrip().rpartition(":")[2])
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
                break
            except OSError:
                time.sleep(0.1)
        yield port
    finally:
        server.terminate()
        if server.wait(60):
            raise SystemExit(f"the server ended with status {server.returncode}")


def verify(index: Index, texts: list[str], k: int, port: int) -> None:
    """Stops the benchmark where the server does not answer as the index does."""
    expected = index.search_batch(texts, k)
    body = json.dumps({"queries": texts, "k": k}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/search", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        results = json.load(answer)["results"]
    for text, ranking, result in zip(texts, expected, results, strict=True):
        found = [(hit["id"], hit["score"]) for hit in result["hits"]]
        if found != list(zip(ranking.ids, ranking.scores, strict=True)):
            raise SystemExit(f"{text!r}: the server and the index give different answers; nothing is timed")


def in_process(index: Index, texts: list[str], configuration: Configuration) -> list[Window]:
    """Return what `search_batch` reaches in each window of time."""
    queries = cycle(texts)
    windows = []
    for _ in range(configuration.windows):
        done, began, spent = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - began < configuration.window_seconds:
            done += len(index.search_batch(list(islice(queries, CHUNK)), configuration.k))
        windows.append(Window(done, time.perf_counter() - began, time.process_time() - spent))
    return windows


# --- clients


class Client(asyncio.Protocol):
    """A connection that sends one query after the other until the time is over."""

    def __init__(self, requests: Iterator[bytes], seen: Seen, until: float, pause: float) -> None:
        self._requests, self._seen, self._until, self._pause = requests, seen, until, pause
        self._buffer = bytearray()
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Send the first query."""
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Collect an answer, and send the next query when it is complete."""
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = bytes(self._buffer[:head_end]).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(self._buffer) >= head_end + 4 + length:
            self._take(int(head[9:12]))

    def connection_lost(self, error: Exception | None) -> None:
        """Count an answer that never came."""
        if not self.over.done():
            self._seen.statuses[0] += 1
            self.over.set_result(None)

    def _take(self, status: int) -> None:
        self._seen.statuses[status] += 1
        if status == 200:
            self._seen.latencies.append(time.perf_counter() - self._asked)
        self._buffer.clear()
        if time.perf_counter() + self._pause < self._until:
            asyncio.get_running_loop().call_later(self._pause, self._ask)
        else:
            self.over.set_result(None)
            self._transport.close()

    def _ask(self) -> None:
        self._asked = time.perf_counter()
        self._transport.write(next(self._requests))


async def load(texts: list[str], configuration: Configuration, port: int, server: int) -> Seen:
    """Return what the clients measure within the time."""
    seen = Seen()
    requests = cycle([_request(text, configuration.k) for text in texts])
    until = time.perf_counter() + configuration.seconds
    loop = asyncio.get_running_loop()
    watching = asyncio.create_task(_watch(server, seen))
    spent, of_server = time.process_time(), _processor(server)
    made = [
        await loop.create_connection(lambda: Client(requests, seen, until, configuration.pause), "127.0.0.1", port)
        for _ in range(configuration.clients)
    ]
    await asyncio.gather(*(client.over for _, client in made))
    watching.cancel()
    seen.clients, seen.server = time.process_time() - spent, _processor(server) - of_server
    return seen


def _request(text: str, k: int) -> bytes:
    body = json.dumps({"query": text, "k": k}).encode()
    head = f"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


async def _watch(server: int, seen: Seen) -> None:
    while True:
        status = Path(f"/proc/{server}/status").read_text(encoding="utf-8")
        seen.memory.append(1024 * int(status.partition("VmRSS:")[2].split()[0]))
        await asyncio.sleep(1)


def _processor(process: int) -> float:
    """Return the CPU seconds a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- figures


def summary(seen: Seen, inside: list[Window], configuration: Configuration) -> dict[str, Any]:
    """Return the figures of a run."""
    answered = len(seen.latencies)
    rate = answered / configuration.seconds
    rates = [window.queries / window.seconds for window in inside]
    p50, p95, p99 = np.percentile(1000 * np.array(seen.latencies), (50, 95, 99)).round(2).tolist()
    minutes = [int(np.mean(part)) for part in np.array_split(seen.memory, max(1, len(seen.memory) // 60))]
    processor = {"server": seen.server / answered, "clients": seen.clients / answered}
    if inside:
        processor["in_process"] = sum(one.processor for one in inside) / sum(one.queries for one in inside)
    return {
        "clients": configuration.clients,
        "seconds": configuration.seconds,
        "pause": configuration.pause,
        "queries_per_s": round(rate, 1),
        "in_process_per_s": [round(one, 1) for one in rates],
        "share_of_fastest": round(rate / max(rates), 3) if rates else None,
        "processor_ms": {name: round(1000 * spent, 2) for name, spent in processor.items()},
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "statuses": {str(status): count for status, count in sorted(seen.statuses.items())},
        "memory_by_minute": minutes,
    }


HEAD = (
    "encoder, documents", "clients", "queries/s", "in process, fastest (median)", "share of the fastest",
    "CPU ms a query: server, clients (in process)", "p50 ms", "p99 ms", "p99 / p50", "answers by status",
    "memory, first and last minute",
)  # fmt: skip


def table(lines: list[dict[str, Any]]) -> str:
    """Return the figures as Markdown."""
    return markdown(HEAD, [_row(line) for line in lines])


def _row(one: dict[str, Any]) -> list[str]:
    rates, spent, memory = one["in_process_per_s"], one["processor_ms"], one["memory_by_minute"]
    pausing = f", each pausing {one['pause']:g} s" if one.get("pause") else ""
    return [
        f"{one['encoder']}, {one['documents']:,}",
        f"{one['clients']} for {one['seconds']:g} s{pausing}",
        f"{one['queries_per_s']:,.0f}",
        f"{max(rates):,.0f} ({median(rates):,.0f})" if rates else "",
        f"{one['share_of_fastest']:.0%}" if rates else "",
        f"{spent['server']:.2f}, {spent['clients']:.2f}" + (f" ({spent['in_process']:.2f})" if rates else ""),
        f"{one['p50_ms']:.0f}",
        f"{one['p99_ms']:.0f}",
        f"{one['p99_ms'] / one['p50_ms']:.1f}",
        ", ".join(f"{status}: {count:,}" for status, count in one["statuses"].items()),
        f"{memory[0] / 1e6:,.0f} and {memory[-1] / 1e6:,.0f} MB",
    ]


def _arguments() -> Configuration:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", help="an index's folder")
    parser.add_argument("queries", help="TSV, JSONL or a BEIR folder")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--window-seconds", type=float, default=5.0)
    return Configuration(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
