"""The server under load, beside the same queries in process: throughput, latency, errors, memory.

Takes an index and a file of queries. The server is `denslice serve` in a process of its own; clients are connections of
this process, each of which asks its next query as soon as the last one is answered, so clients and server share the
machine's cores. In process is `Index.search_batch` over the same queries with the same k, without fetching documents,
run before and after the load. Answers over HTTP are checked to be those in process before anything is timed.
Appends a line to benchmarks/results/serve_load.jsonl.
"""

from __future__ import annotations

import argparse
import asyncio
import json
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
from typing import Any

import numpy as np

import journal
from denslice import Index
from denslice.corpus import read_queries

PACKAGES = ("numpy", "numba", "onnxruntime", "fastapi", "uvicorn", "uvloop", "httptools", "pydantic")
CHUNK = 256  # queries of one call in process
CHECKED = 64  # queries whose answers are compared before anything is timed


@dataclass(frozen=True)
class Configuration:
    """What is asked of what, and for how long; the names are the options' names."""

    index: str
    queries: str
    clients: int
    seconds: float
    k: int
    in_process_seconds: float


@dataclass
class Seen:
    """What the clients saw."""

    latencies: list[float] = field(default_factory=list)  # seconds, of answers with status 200
    statuses: Counter[int] = field(default_factory=Counter)
    memory: list[int] = field(default_factory=list)  # bytes the server holds, once a second


def main() -> None:
    """Verifies, times, prints and appends the JSON line."""
    configuration = _arguments()
    texts = [query.text for query in read_queries(configuration.queries)]
    index = Index.open(configuration.index)
    index.search_batch(texts[:CHECKED], configuration.k)
    with serving(configuration.index) as (server, port):
        verify(index, texts[:CHECKED], configuration.k, port)
        before = in_process(index, texts, configuration)
        seen = asyncio.run(load(texts, configuration, port, server.pid))
        after = in_process(index, texts, configuration)
    figures = summary(seen, before, after, configuration) | {
        "documents": len(index),
        "encoder": index.info()["encoder"],
    }
    place = journal.append("serve_load", PACKAGES, asdict(configuration), figures)
    print(f"{table([figures])}\n\nFrom {place}, commit {journal.commit()}.")


@contextmanager
def serving(folder: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """`denslice serve` on a free port, until the block ends."""
    command = [sys.executable, "-m", "denslice", "serve", folder, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().rstrip().rpartition(":")[2])
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
                break
            except OSError:
                time.sleep(0.1)
        yield server, port
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
            raise SystemExit(f"{text!r}: the server answers otherwise than the index; nothing is timed")


def in_process(index: Index, texts: list[str], configuration: Configuration) -> float:
    """Queries a second of `search_batch`."""
    queries, done, began = cycle(texts), 0, time.perf_counter()
    while (took := time.perf_counter() - began) < configuration.in_process_seconds:
        done += len(index.search_batch(list(islice(queries, CHUNK)), configuration.k))
    return done / took


# --- clients


class Client(asyncio.Protocol):
    """A connection that asks one query after the other until the time is over."""

    def __init__(self, requests: Iterator[bytes], seen: Seen, until: float) -> None:
        self._requests, self._seen, self._until = requests, seen, until
        self._buffer = bytearray()
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Asks the first query."""
        self._transport = transport
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Takes an answer, and asks the next query when it is whole."""
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = bytes(self._buffer[:head_end]).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(self._buffer) >= head_end + 4 + length:
            self._take(int(head[9:12]))

    def connection_lost(self, error: Exception | None) -> None:
        """Counts an answer that never came."""
        if not self.over.done():
            self._seen.statuses[0] += 1
            self.over.set_result(None)

    def _take(self, status: int) -> None:
        self._seen.statuses[status] += 1
        if status == 200:
            self._seen.latencies.append(time.perf_counter() - self._asked)
        self._buffer.clear()
        if time.perf_counter() < self._until:
            self._ask()
        else:
            self.over.set_result(None)
            self._transport.close()

    def _ask(self) -> None:
        self._asked = time.perf_counter()
        self._transport.write(next(self._requests))


async def load(texts: list[str], configuration: Configuration, port: int, server: int) -> Seen:
    """What so many clients see of the server within the time."""
    seen = Seen()
    requests = cycle([_request(text, configuration.k) for text in texts])
    until = time.perf_counter() + configuration.seconds
    loop = asyncio.get_running_loop()
    watching = asyncio.create_task(_watch(server, seen))
    made = [
        await loop.create_connection(lambda: Client(requests, seen, until), "127.0.0.1", port)
        for _ in range(configuration.clients)
    ]
    await asyncio.gather(*(client.over for _, client in made))
    watching.cancel()
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


# --- figures


def summary(seen: Seen, before: float, after: float, configuration: Configuration) -> dict[str, Any]:
    """The figures of a run."""
    rate = len(seen.latencies) / configuration.seconds
    p50, p95, p99 = np.percentile(1000 * np.array(seen.latencies), (50, 95, 99)).round(2).tolist()
    baseline = (before + after) / 2
    minutes = [int(np.mean(part)) for part in np.array_split(seen.memory, max(1, len(seen.memory) // 60))]
    return {
        "clients": configuration.clients,
        "seconds": configuration.seconds,
        "queries_per_s": round(rate, 1),
        "in_process_per_s": [round(before, 1), round(after, 1)],
        "share": round(rate / baseline, 3),
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "statuses": {str(status): count for status, count in sorted(seen.statuses.items())},
        "memory_by_minute": minutes,
    }


def table(lines: list[dict[str, Any]]) -> str:
    """The figures for people to read, as Markdown."""
    rows = [
        "| encoder, documents | clients | seconds | queries/s | in process, before and after | share | p50 ms | p99 ms "
        "| p99 / p50 | answers by status | memory, first and last minute |",
        f"|{' --- |' * 11}",
    ]
    for one in lines:
        inside = " and ".join(f"{rate:,.0f}" for rate in one["in_process_per_s"])
        statuses = ", ".join(f"{status}: {count:,}" for status, count in one["statuses"].items())
        memory = one["memory_by_minute"]
        held = f"{memory[0] / 1e6:,.0f} and {memory[-1] / 1e6:,.0f} MB"
        rows.append(
            f"| {one['encoder']}, {one['documents']:,} | {one['clients']} | {one['seconds']:g} "
            f"| {one['queries_per_s']:,.0f} | {inside} | {one['share']:.0%} | {one['p50_ms']:.1f} "
            f"| {one['p99_ms']:.1f} | {one['p99_ms'] / one['p50_ms']:.1f} | {statuses} | {held} |"
        )
    return "\n".join(rows)


def _arguments() -> Configuration:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", help="an index's folder")
    parser.add_argument("queries", help="TSV, JSONL or a BEIR folder")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("-k", type=int, default=10)
    parser.add_argument("--in-process-seconds", type=float, default=20.0)
    return Configuration(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
