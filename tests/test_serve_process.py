"""`denslice serve` as a process: how it starts, how it refuses to, and how it stops without losing a request."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from denslice import Index
from denslice.__main__ import app
from serve_process import DENSLICE, asking, process
from serving import KEY
from waiting import wait_until

CLIENTS = 16


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("process") / "p.idx"
    words = [f"word{number}" for number in range(50)]
    docs = ({"id": str(n), "text": " ".join(words[(n * step) % 50] for step in range(1, 20))} for n in range(2_000))
    Index.create(path, "bm25").add(docs)
    return path


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_stop_under_load_loses_no_request(folder: Path, name: str) -> None:
    counts: Counter[str] = Counter()
    with process(folder) as (running, served):
        with asking(served.port, counts, CLIENTS):
            wait_until(lambda: counts["answered"] > 10 * CLIENTS)
            running.send_signal(signal.Signals[name])
            assert running.wait(30) == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""
    assert {what: count for what, count in counts.items() if what.startswith("lost")} == {}
    assert counts["told to close"] == CLIENTS  # each was under way, or asked once more, and was answered


def test_an_idle_server_stops_at_once_and_a_request_on_its_way_is_answered(folder: Path) -> None:
    with process(folder) as (running, served):
        kept = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
        kept.request("GET", "/healthz")
        assert kept.getresponse().read() == b'{"status":"ok"}'
        running.send_signal(signal.SIGTERM)
        time.sleep(0.25)
        kept.request("GET", "/healthz")
        assert kept.getresponse().status == 200
        assert running.wait(10) == 0
        kept.close()


def test_commits_of_another_process_are_picked_up(tmp_path: Path, folder: Path) -> None:
    index = tmp_path / "new.idx"
    Index.create(index, "bm25").add([{"id": "old", "text": "old words"}])
    more = tmp_path / "more.jsonl"
    more.write_text('{"id": "owl", "text": "owls hoot"}\n')
    with process(index) as (_, served):
        subprocess.run([*DENSLICE, "index", str(more), "--to", str(index)], check=True, capture_output=True)
        wait_until(lambda: served.search("owls").json()["results"][0]["hits"])


def test_the_key_can_come_from_the_environment(folder: Path) -> None:
    with process(folder, "--writable", DENSLICE_API_KEY=KEY) as (_, served):
        body = {"ids": ["no such document"]}
        assert served.ask("/documents", body, "DELETE").status == 401
        assert served.ask("/documents", body, "DELETE", Authorization=f"Bearer {KEY}").json()["documents"] == 0


def test_a_start_that_cannot_be_is_told_in_one_line(folder: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for arguments, told in (
            ([folder, "--port", port], "cannot listen on 127.0.0.1"),
            ([folder, "--host", "0.0.0.0"], "--api-key, or --open"),
            ([folder, "--writable"], "needs an API key"),
            ([tmp_path / "none.idx"], "none.idx"),
            ([folder, "--limit", "max_kk=1"], "there is no limit 'max_kk'"),
            ([folder, "--limit", "max_k=many"], "is not a number"),
            ([folder, "--port", "99999"], "expected a number from 0 to 65535"),
        ):
            done = CliRunner().invoke(app, ["serve", *map(str, arguments)])
            assert done.exit_code == 2
            assert told in done.stderr
            assert done.stderr.count("\n") == 1
            assert done.stdout == ""


def test_without_the_extra_its_name_is_told(folder: Path) -> None:
    code = "import sys; sys.modules['fastapi'] = None; from denslice.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "serve", str(folder)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: the server needs optional packages: pip install 'denslice[serve]'\n"
