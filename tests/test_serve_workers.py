"""`denslice serve --workers`: what several processes promise together, and what is lost when one of them dies."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from denslice import Index
from denslice.__main__ import app
from denslice.serve.limits import Limits
from denslice.serve.worker import share_of
from serve_process import asking, process
from serving import KEY, Live
from waiting import wait_until

AUTHORIZED = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
CONNECTIONS = 8  # each worker is given half of them
CLIENTS = 8
MOST = 24  # connections
Served = tuple[subprocess.Popen[str], Live, Path]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two workers over a small index. The tests leave it running with two workers."""
    path = tmp_path_factory.mktemp("workers") / "w.idx"
    docs = [{"id": str(n), "text": f"word{n % 10} word{n % 7}"} for n in range(500)]
    Index.create(path, "bm25").add([*docs, {"id": "all", "text": "word1 word7 word30 " * 3}])
    arguments = (path, "--workers", 2, "--writable", "--open", "--access-log", path.parent / "access.jsonl")
    limit = ("--limit", f"max_connections={MOST}")
    with process(*arguments, *limit, DENSLICE_API_KEY=KEY) as (running, live):
        _wait_for_both(running, live)
        yield running, live, path


class Kept:
    """A connection that is kept, and so always asks the same worker."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._connection.connect()

    def ask(self, path: str, body: Any = None, method: str = "POST") -> Any:
        self._connection.request(method, path, None if body is None else json.dumps(body), AUTHORIZED)
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        return json.loads(text) if path != "/metrics" else text.decode()

    def ids(self, query: str) -> list[str]:
        [result] = self.ask("/search", {"query": query, "fuzzy": False})["results"]
        return [hit["id"] for hit in result["hits"]]

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def kept(served: Served) -> Iterator[list[Kept]]:
    with ExitStack() as held:
        yield [held.enter_context(closing(Kept(served[1].port))) for _ in range(CONNECTIONS)]


def _workers(running: subprocess.Popen[str]) -> list[int]:
    """The process ids of the workers."""
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text(encoding="ascii").split()
    return [int(one) for one in children if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]


def _wait_for_both(running: subprocess.Popen[str], live: Live) -> None:
    """Waits until a search is answered by two different workers."""

    def both_answer() -> bool:
        with ExitStack() as held:
            some = [held.enter_context(closing(Kept(live.port))) for _ in range(4)]
            return all(one.ids("word1") for one in some) and len(_workers(running)) == 2

    wait_until(lambda: live.ask("/readyz").status == 200)
    wait_until(both_answer)


def test_a_search_after_an_acknowledged_write_sees_it_whichever_worker_answers(kept: list[Kept]) -> None:
    for number, writing in enumerate(kept):
        doc = {"id": f"new{number}", "text": f"unheard{number}"}
        generation = writing.ask("/documents", {"documents": [doc]})["generation"]
        assert [one.ids(f"unheard{number}") for one in kept] == [[f"new{number}"]] * CONNECTIONS
        assert {one.ask("/index", method="GET")["generation"] for one in kept} == {generation}
        assert {one.ask(f"/documents/new{number}", method="GET")["text"] for one in kept} == {f"unheard{number}"}
        writing.ask("/documents", {"ids": [f"new{number}"]}, "DELETE")
        assert [one.ids(f"unheard{number}") for one in kept] == [[]] * CONNECTIONS


def test_writes_through_all_workers_at_once_are_all_kept(kept: list[Kept]) -> None:
    def write(number: int) -> None:
        for turn in range(3):
            doc = {"id": f"at-once-{number}-{turn}", "text": f"together turn{turn}"}
            kept[number].ask("/documents", {"documents": [doc]})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    expected = {f"at-once-{number}-{turn}" for number in range(4) for turn in range(3)}
    for one in kept:
        [result] = one.ask("/search", {"query": "together", "k": 100})["results"]
        assert {hit["id"] for hit in result["hits"]} == expected


def test_a_commit_of_another_process_is_seen_by_the_next_search(served: Served, kept: list[Kept]) -> None:
    Index.open(served[2]).add([{"id": "outside", "text": "elsewhere"}])
    assert [one.ids("elsewhere") for one in kept] == [["outside"]] * CONNECTIONS


def test_metrics_are_those_of_all_workers(kept: list[Kept]) -> None:
    explained = 'denslice_requests_total{method="POST",route="/explain",status="200"} '  # which no other test asks for

    def counted(one: Kept) -> list[str]:
        shown = one.ask("/metrics", method="GET").splitlines()
        return [line.removeprefix(explained) for line in shown if line.startswith(explained)]

    assert [counted(one) for one in kept] == [[]] * CONNECTIONS
    for one in kept:
        one.ask("/explain", {"query": "word1", "id": "1"})
    wait_until(lambda: counted(kept[0]) == [f"{CONNECTIONS:.1f}"])  # a response is counted after it was sent
    assert [counted(one) for one in kept] == [[f"{CONNECTIONS:.1f}"]] * CONNECTIONS


def test_each_request_is_a_line_of_the_access_log_without_the_query(served: Served, kept: list[Kept]) -> None:
    log = served[2].parent / "access.jsonl"

    def searches() -> list[dict[str, Any]]:
        """What is logged of searches; a line is written after its response was sent, and may not be whole yet."""
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines(keepends=True) if "\n" in line]
        return [line for line in lines if line["path"] == "/search"]

    before = len(searches())
    for one in kept:
        one.ids("secretly")
    wait_until(lambda: len(searches()) >= before + CONNECTIONS)
    logged = searches()[before:]
    assert {line["worker"] for line in logged} == set(_workers(served[0]))
    assert logged[-1].keys() == {"time", "client", "method", "path", "status", "ms", "bytes", "worker"}
    assert (logged[-1]["client"], logged[-1]["method"], logged[-1]["status"]) == ("127.0.0.1", "POST", 200)
    assert "secretly" not in log.read_text(encoding="utf-8")


def test_one_connection_too_many_for_all_workers_is_told_to_come_back(served: Served) -> None:
    with ExitStack() as held:
        for _ in range(MOST):
            held.enter_context(closing(Kept(served[1].port)))
        wait_until(lambda: served[1].raw(b"").startswith(b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n"))
    wait_until(lambda: served[1].ask("/healthz").status == 200)


def test_a_worker_that_is_killed_takes_only_its_own_connections_and_is_replaced(
    served: Served, kept: list[Kept]
) -> None:
    running, live, _ = served
    for one in kept:
        one.ids("word1")
    killed = _workers(running)[0]  # the first that was started
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: killed not in _workers(running))
    fates = Counter(map(_fate, kept))
    assert fates == {"answered": CONNECTIONS // 2, "lost": CONNECTIONS // 2}
    _wait_for_both(running, live)
    assert killed not in _workers(running)


def _fate(one: Kept) -> str:
    try:
        return "answered" if one.ids("word1") else "empty"
    except (OSError, http.client.HTTPException):
        return "lost"


def test_a_reload_under_load_replaces_every_worker_and_loses_no_request(served: Served) -> None:
    running, live, _ = served
    before, counts = _workers(running), Counter[str]()
    with asking(live.port, counts, CLIENTS, k=1):
        wait_until(lambda: counts["answered"] > 2 * CLIENTS)
        running.send_signal(signal.SIGHUP)
        wait_until(lambda: len(_workers(running)) == 2 and not set(before) & set(_workers(running)))
        reached = counts["answered"]
        wait_until(lambda: counts["answered"] > reached + 2 * CLIENTS)
    assert {what: count for what, count in counts.items() if what.startswith("lost")} == {}
    assert counts["told to close"] >= CLIENTS // 2


def test_what_may_wait_is_shared_among_the_workers() -> None:
    shares = share_of(Limits(max_waiting=512, max_writes=8, max_queries=64), 3)
    assert (shares.max_waiting, shares.max_writes) == (171, 3)
    assert share_of(Limits(), 100).max_waiting == Limits().max_queries


def test_a_number_of_workers_that_is_none_is_told(served: Served) -> None:
    for arguments in (["--workers", "0"], ["--workers", "2", "--ray", "local"]):
        done = CliRunner().invoke(app, ["serve", str(served[2]), *arguments])
        assert (done.exit_code, done.stdout) == (2, "")
        assert f"--workers {arguments[1]}: expected 1 or more" in done.stderr


def test_a_stop_under_load_loses_no_request_and_leaves_no_process(served: Served) -> None:
    running, live, _ = served
    workers, counts = _workers(running), Counter[str]()
    with asking(live.port, counts, CLIENTS, k=1):
        wait_until(lambda: counts["answered"] > 2 * CLIENTS)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    assert {what: count for what, count in counts.items() if what.startswith("lost")} == {}
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert running.stderr is not None
    assert running.stderr.read() == "worker 0 ended with status -9; another one is started\n"  # a test has killed it
