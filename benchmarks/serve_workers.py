"""Compares the server with workers to that of an earlier checkout under load: throughput, latency, CPU time and errors.

Both serve the same index on the same cores, one after the other in each round, and wrk sends distinct queries over
64 connections, each of which sends its next query as soon as the last is answered. Nothing is timed unless the answers
over HTTP equal those in process. In the end the workers are replaced (SIGHUP) under the same load, and requests without
an answer are counted. Appends a line to results/serve_workers.jsonl. wrk is a package of Debian and Homebrew.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

import journal
from denslice import Index
from denslice.corpus.documents import read_queries
from denslice.reproduce.table_page import markdown
from serve_load import CHECKED, PACKAGES, ready, verify

WARM_SECONDS = 5
SCRIPT = """
local bodies, at = {{}}, {first}
for line in io.lines("{bodies}") do bodies[#bodies + 1] = line end
local head = {{["Content-Type"] = "application/json", ["Host"] = "localhost"}}
request = function()
  at = at % #bodies + 1
  return wrk.format("POST", "/search", head, bodies[at])
end
"""
UNITS = {"us": 0.001, "ms": 1.0, "s": 1000.0}  # milliseconds


@dataclass(frozen=True)
class Configuration:
    """The options of the command line."""

    index: str
    queries: str
    before: str
    workers: int
    clients: int
    seconds: int
    rounds: int
    k: int


@dataclass(frozen=True)
class Load:
    """What wrk measured, and the CPU seconds that it and the server took."""

    answered: int
    seconds: float
    p50_ms: float
    p99_ms: float
    errors: int
    server: float
    client: float

    def figures(self) -> dict[str, Any]:
        """Return the figures of a line."""
        return {
            "queries_per_s": round(self.answered / self.seconds, 1),
            "p50_ms": self.p50_ms,
            "p99_ms": self.p99_ms,
            "errors": self.errors,
            "processor_ms": {
                "server": round(1000 * self.server / self.answered, 3),
                "clients": round(1000 * self.client / self.answered, 3),
            },
        }


def main() -> None:
    """Check, time, print and append the line."""
    configuration = _arguments()
    index = Index.open(configuration.index)
    texts = [query.text for query in read_queries(configuration.queries)]
    here, workers = str(Path(__file__).parents[1]), ("--workers", str(configuration.workers))
    contenders = {"before": (configuration.before, ()), "one process": (here, ()), "workers": (here, workers)}
    loads: dict[str, list[Load]] = {name: [] for name in contenders}
    with TemporaryDirectory() as folder:
        bodies = Path(folder) / "bodies.jsonl"
        bodies.write_text("".join(json.dumps({"query": one, "k": configuration.k}) + "\n" for one in texts))
        for number in range(configuration.rounds):
            for name, (tree, flags) in contenders.items():
                with serving(tree, configuration.index, *flags) as (server, port):
                    verify(index, texts[:CHECKED], configuration.k, port)
                    wrk(bodies, 0, WARM_SECONDS, configuration, port, server)
                    first = (2 * number + 1) * len(texts) // (2 * configuration.rounds)
                    loads[name].append(wrk(bodies, first, configuration.seconds, configuration, port, server))
                    print(name, loads[name][-1].figures(), flush=True)
        with serving(here, configuration.index, *workers) as (server, port):
            threading.Timer(2, server.send_signal, [signal.SIGHUP]).start()
            reload = wrk(bodies, 0, 2 * configuration.seconds, configuration, port, server)
    figures = summary(loads) | {
        "reload": reload.figures(),
        "documents": len(index),
        "encoder": index.info()["encoder"],
    }
    print(table([figures]))
    print(journal.append("serve_workers", (*PACKAGES, "orjson"), asdict(configuration), figures))


@contextmanager
def serving(tree: str, folder: str, *flags: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run `denslice serve` of a checkout on a free port until the block ends."""
    command = [sys.executable, "-m", "denslice", "serve", folder, "--port", "0", *flags]
    source = os.environ | {"PYTHONPATH": f"{tree}/src"}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=source)
    with ready(server) as port:
        yield server, port


def wrk(
    bodies: Path, first: int, seconds: int, configuration: Configuration, port: int, server: subprocess.Popen[str]
) -> Load:
    """Return what wrk measures in so many seconds, from the body with this number on."""
    script = bodies.with_suffix(".lua")
    script.write_text(SCRIPT.format(bodies=bodies, first=first))
    options = ["-t1", f"-c{configuration.clients}", f"-d{seconds}s", "--timeout", "20s", "--latency", "-s", str(script)]
    spent, began = processor(server.pid), time.perf_counter()
    running = subprocess.Popen(["wrk", *options, f"http://127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    told = running.stdout.read()
    _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    took = time.perf_counter() - began
    return read(told, min(took, seconds), processor(server.pid) - spent, used.ru_utime + used.ru_stime)


def read(told: str, seconds: float, server: float, client: float) -> Load:
    """Return the figures in the output of wrk."""
    p50, p99 = (_milliseconds(told, share) for share in ("50", "99"))
    answered = int(re.findall(r"(\d+) requests in", told)[0])
    errors = sum(map(int, re.findall(r"(?:connect|read|write|timeout) (\d+)", told)))
    refused = sum(map(int, re.findall(r"Non-2xx or 3xx responses: (\d+)", told)))
    return Load(answered - refused, seconds, p50, p99, errors + refused, server, client)


def _milliseconds(told: str, share: str) -> float:
    value, unit = re.findall(rf"{share}%\s+([\d.]+)(us|ms|s)\b", told)[0]
    return round(float(value) * UNITS[unit], 2)


def processor(process: int) -> float:
    """Return the CPU seconds that a process and its children have used."""
    path = Path(f"/proc/{process}")
    fields = (path / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # with those of children that have ended
    children = (path / "task" / str(process) / "children").read_text(encoding="utf-8").split()
    return own + sum(processor(int(one)) for one in children)


def summary(loads: dict[str, list[Load]]) -> dict[str, Any]:
    """Return the figures of each contender: of its rounds, and the throughput relative to the one before."""
    rates = {name: mean(one.answered / one.seconds for one in some) for name, some in loads.items()}
    return {
        "rounds": {name: [one.figures() for one in some] for name, some in loads.items()},
        "queries_per_s": {name: round(rate, 1) for name, rate in rates.items()},
        "times": {name: round(rate / rates["before"], 2) for name, rate in rates.items()},
    }


HEAD = ("encoder, documents", "server", "queries/s", "× before", "p50 ms", "p99 ms", "CPU ms a query: server, clients")


def table(lines: list[dict[str, Any]]) -> str:
    """Return the figures as Markdown."""
    return markdown(HEAD, [row for line in lines for row in _rows(line)])


def _rows(one: dict[str, Any]) -> Iterator[list[str]]:
    for name, rate in one["queries_per_s"].items():
        rounds = one["rounds"][name]
        spent = [mean(each["processor_ms"][side] for each in rounds) for side in ("server", "clients")]
        yield [
            f"{one['encoder']}, {one['documents']:,}",
            name,
            f"{rate:,.0f}",
            f"{one['times'][name]:.1f}",
            f"{mean(each['p50_ms'] for each in rounds):.1f}",
            f"{mean(each['p99_ms'] for each in rounds):.1f}",
            f"{spent[0]:.2f}, {spent[1]:.3f}",
        ]


def _arguments() -> Configuration:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", help="an index's folder")
    parser.add_argument("queries", help="TSV, JSONL or a BEIR folder")
    parser.add_argument("--before", required=True, help="the folder of an earlier checkout")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("-k", type=int, default=10)
    return Configuration(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
