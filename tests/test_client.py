"""Client and AsyncClient against servers that are real: what they send again, in which parts, and how they fail."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

import denslice as ds
from denslice import AsyncClient, Client, InputError, PartialWriteError, Query, UnavailableError
from denslice.options import SearchOptions, shown
from denslice.serve.limits import Access, Limits
from serving import KEY, Live, live
from waiting import wait_until

pytest.importorskip("httpx")
from denslice.client import server_replies
from denslice.client.questions import options_json, query_json
from denslice.client.server_replies import Attempts, Reply

DOCS = [{"id": str(at), "text": f"fox number{at}"} for at in range(30)]
BUSY = json.dumps({"error": {"code": "busy", "message": "too many requests"}}).encode()
SUGGESTED = json.dumps({"suggestions": ["fox"]}).encode()
WRITABLE = Access(api_key=KEY, writable=True)


# --- a server of canned responses: real HTTP, but not denslice


@dataclass
class Canned:
    """Responses that are sent one after the other, the last of them again and again; None breaks the connection."""

    responses: list[tuple[int, dict[str, str], bytes] | None]
    at: list[float] = field(default_factory=list)  # when each request came
    address: str = ""

    def next(self) -> tuple[int, dict[str, str], bytes] | None:
        self.at.append(time.monotonic())
        return self.responses[min(len(self.at), len(self.responses)) - 1]


@contextmanager
def canned(*responses: tuple[int, dict[str, str], bytes] | None) -> Iterator[Canned]:
    told = Canned(list(responses))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            response = told.next()
            if response is None:
                self.close_connection = True
                return
            status, headers, body = response
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *given: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield told
        finally:
            server.shutdown()
            thread.join()


def suggested(address: str, **settings: Any) -> list[str]:
    with Client(address, **settings) as client:
        return client.suggest("fo")


@pytest.fixture
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_replies, "FIRST_PAUSE", 0.01)


# --- sending again


@pytest.mark.usefixtures("_short_pauses")
@pytest.mark.parametrize("refused", [(503, {}, BUSY), (429, {}, b""), (502, {}, b"<html>"), None])
def test_a_request_that_may_succeed_later_is_sent_again(refused: Any) -> None:
    with canned(refused, refused, (200, {}, SUGGESTED)) as server:
        assert suggested(server.address) == ["fox"]
        assert len(server.at) == 3


@pytest.mark.usefixtures("_short_pauses")
@pytest.mark.parametrize("status", [400, 404, 413, 422, 500])
def test_a_request_that_would_fail_again_is_sent_once(status: int) -> None:
    with canned((status, {}, BUSY)) as server:
        with pytest.raises(UnavailableError if status == 500 else InputError, match="too many requests"):
            suggested(server.address)
        assert len(server.at) == 1


@pytest.mark.usefixtures("_short_pauses")
@pytest.mark.parametrize("retries", [0, 2])
def test_after_so_many_retries_the_error_tells_what_the_server_said(retries: int) -> None:
    with canned((503, {}, BUSY)) as server:
        with pytest.raises(UnavailableError, match=f"{server.address}: too many requests"):
            suggested(server.address, retries=retries)
        assert len(server.at) == retries + 1


@pytest.mark.usefixtures("_short_pauses")
@pytest.mark.parametrize("status", [429, 503])
def test_no_request_is_sent_before_the_time_in_retry_after(status: int) -> None:
    with canned((status, {"Retry-After": "1"}, BUSY), (200, {}, SUGGESTED)) as server:
        assert suggested(server.address) == ["fox"]
        first, second = server.at
        assert second - first >= 1.0


def test_a_server_that_asks_for_a_long_wait_is_not_waited_for() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    for asked in ("3600", later):
        with canned((503, {"Retry-After": asked}, BUSY)) as server:
            with pytest.raises(UnavailableError, match=r"asks to wait 3\d\d\d"):
                suggested(server.address)
            assert len(server.at) == 1


def test_pauses_grow_and_are_never_shorter_than_retry_after() -> None:
    attempts, refused = Attempts(3), Reply(503, {}, b"")
    first, second, third = (attempts.pause(refused) for _ in range(3))
    assert first is not None
    assert second is not None
    assert third is not None
    assert 0.1 <= first <= 0.2 <= second <= 0.4 <= third <= 0.8
    assert attempts.pause(refused) is None
    past = format_datetime(datetime.now(UTC) - timedelta(hours=1))
    for asked, least in (("2", 2.0), (past, 0.0), ("soon", 0.0), ("-1", 0.0)):
        reply = Reply(503, {"retry-after": asked}, b"")
        assert reply.wait == least
        assert least <= (Attempts(1).pause(reply) or -1)


@pytest.mark.usefixtures("_short_pauses")
def test_an_add_whose_answer_is_lost_is_sent_again_and_adds_each_document_once(tmp_path: Path) -> None:
    with _served(tmp_path) as served, _losing_answers(served.port, lost=1) as (address, count):
        with Client(address, KEY) as client:
            client.info()
            assert client.add([{"id": "new", "text": "owl"}]) == 1
            assert client.delete(["new"]) == 1
        assert count() == 4
        with Client(served.address, KEY) as client:
            assert (client.info().documents, client.generation) == (30, 4)


# --- servers that are not there, not denslice, or refuse


@pytest.mark.usefixtures("_short_pauses")
def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free = listener.getsockname()[1]
    with pytest.raises(UnavailableError, match=f"http://127.0.0.1:{free}: no answer"):
        suggested(f"http://127.0.0.1:{free}")


def test_a_server_that_says_nothing_times_out_and_is_not_asked_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(UnavailableError, match=r"no answer within 0\.2 s"):
            suggested(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=0.2)
        assert len(_waiting(listener)) == 1


@pytest.mark.parametrize(
    ("response", "told"),
    [
        ((200, {"Content-Type": "text/html"}, b"<html>hello</html>"), "it answered 200 with text/html"),
        ((200, {"Content-Type": "application/json"}, b'{"other": []}'), "it answered 200 with application/json"),
        ((200, {"Content-Type": "application/json"}, b"[1, 2]"), "not a server of denslice"),
        ((404, {"Content-Type": "text/html"}, b"<html>not found</html>"), "it answered 404"),
        ((301, {"Location": "https://elsewhere.example/"}, b""), "redirects to https://elsewhere.example/"),
    ],
)
def test_a_server_that_is_not_denslice_is_an_input_error_that_tells_what_came_back(response: Any, told: str) -> None:
    with canned(response) as server:
        with pytest.raises(InputError, match=told):
            suggested(server.address)
        with Client(server.address) as client, pytest.raises(InputError, match=server.address):
            client.search("fox")
        with Client(server.address) as client, pytest.raises(InputError, match=server.address):
            client.add(DOCS)


@pytest.mark.parametrize("url", ["localhost:8000", "", "ftp://x", "http://", "http://x:99999", None])
def test_an_address_that_is_none_is_an_input_error_before_anything_is_sent(url: Any) -> None:
    with pytest.raises(InputError, match="not the address of a server"):
        Client(url)


@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"retries": -1}, {"timeout": "long"}, {"api_key": "a\nb"}])
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Client("http://127.0.0.1:1", **wrong)


def test_a_key_is_asked_for_refused_and_never_shown(tmp_path: Path) -> None:
    with _served(tmp_path) as served:
        with Client(served.address) as client, pytest.raises(InputError, match="wants an API key; give api_key"):
            client.search("fox")
        with Client(served.address, "not-the-key-at-all") as client:
            with pytest.raises(InputError, match="does not accept this API key") as caught:
                client.add(DOCS)
            assert "not-the-key" not in repr(client) + str(caught.value) + repr(client._server)


def test_a_server_that_is_read_only_says_so(tmp_path: Path) -> None:
    with _served(tmp_path, access=Access(api_key=KEY)) as served, Client(served.address, KEY) as client:
        assert not client.info().writable
        with pytest.raises(InputError, match="read-only; start it with --writable"):
            client.add(DOCS)


def test_a_missing_shard_has_its_name(tmp_path: Path) -> None:
    lost = json.dumps({"error": {"code": "incomplete", "message": str(ds.MissingShardsError(["a/0", "a/1"]))}})
    with canned((503, {}, lost.encode())) as server:
        with Client(server.address, retries=0) as client, pytest.raises(ds.MissingShardsError) as caught:
            client.search("fox")
        assert caught.value.shards == ("a/0", "a/1")


def test_a_server_that_is_killed_in_the_middle_of_an_add_has_what_it_told_of(tmp_path: Path) -> None:
    ds.Index.create(tmp_path / "my.idx", "bm25").close()
    with _server_process(tmp_path / "my.idx") as (process, address):
        given = 0

        def docs() -> Iterator[dict[str, str]]:
            nonlocal given
            for at in range(3_500):
                given += 1
                if at == 2_100:  # the second request was answered, and the third is being filled
                    process.kill()
                    process.wait()
                yield {"id": str(at), "text": f"fox number{at}"}

        with Client(address, KEY, retries=1) as client, pytest.raises(PartialWriteError, match="no answer") as caught:
            client.add(docs())
    assert caught.value.documents == 2_000
    assert given < 3_500  # the rest was never read
    assert isinstance(caught.value.__cause__, UnavailableError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with ds.open_index(tmp_path / "my.idx") as index:
        index.verify()
        assert len(index) == 2_000


# --- adding


def test_an_add_reads_and_sends_documents_in_requests_of_bounded_size(tmp_path: Path) -> None:
    limits = Limits(max_documents=4, max_write_body=3_000)
    lengths = [10, 10, 10, 10, 10, 1_000, 2_000, 2_500, 10, 10]
    progress: list[int] = []
    ahead: list[int] = []

    def docs() -> Iterator[dict[str, str]]:
        for at, length in enumerate(lengths):
            ahead.append(at + 1 - sum(progress))
            yield {"id": f"n{at}", "text": "x" * length}

    with _served(tmp_path, limits=limits) as served, Client(served.address, KEY) as client:
        before = client.generation
        assert client.add(docs(), progress=progress.append) == 10
        assert progress == [4, 2, 1, 3]
        assert client.generation >= before + len(progress)
        assert max(ahead) <= 5  # those of one request, and the one that did not fit
        assert client.info().documents == 40


def test_a_document_that_is_too_large_is_named_and_those_before_it_stay(tmp_path: Path) -> None:
    with _served(tmp_path, limits=Limits(max_write_body=2_000)) as served, Client(served.address, KEY) as client:
        with pytest.raises(InputError, match=r"document 0 \(id 'a'\) has 5,041 bytes, and the server takes 1,900"):
            client.add([{"id": "a", "text": "x" * 5_000}])
        given = [{"id": "a", "text": "x" * 1_000}, {"id": "b", "text": "x" * 1_000}, {"id": "c", "text": "x" * 5_000}]
        with pytest.raises(PartialWriteError, match=r"after 1 documents .* document 2 \(id 'c'\)") as caught:
            client.add(given)
        assert caught.value.documents == 1
        assert (client.get("a") is not None, client.get("b")) == (True, None)


def test_an_error_of_the_callers_own_documents_is_theirs_with_a_note(tmp_path: Path) -> None:
    def docs() -> Iterator[dict[str, str]]:
        yield from DOCS[:3]
        raise OSError("the disk is gone")

    with _served(tmp_path, limits=Limits(max_documents=2)) as served, Client(served.address, KEY) as client:
        with pytest.raises(OSError, match="disk is gone") as caught:
            client.add(docs())
        assert caught.value.__notes__ == ["2 documents had been written before"]


def test_ids_are_deleted_in_requests_of_bounded_size(tmp_path: Path) -> None:
    with _served(tmp_path, limits=Limits(max_documents=8)) as served, Client(served.address, KEY) as client:
        assert client.delete([*map(str, range(20)), "none"]) == 20
        assert client.info().documents == 10
        assert client.generation >= 4  # three commits after the first


def test_limits_of_a_server_that_was_started_again_are_asked_for_again(tmp_path: Path) -> None:
    with ds.Index.create(tmp_path / "my.idx", "bm25") as index:
        with live(index, access=WRITABLE) as served:
            client = Client(served.address, KEY, retries=20)
            assert client.add(DOCS) == 30
        with _live_at(served.port, index, Limits(max_documents=7)):
            with pytest.raises(InputError, match="at most 7"):
                client.add(DOCS)
            assert client.add(DOCS) == 30
        client.close()


# --- rankings that ask later


def test_what_a_ranking_asks_after_a_commit_is_an_error_and_not_of_another_commit(tmp_path: Path) -> None:
    with _served(tmp_path) as served, Client(served.address, KEY) as client:
        hits = client.search("number7")
        kept = client.search("number7")
        assert kept.matching == 1
        client.add([{"id": "7", "text": "another text"}])
        for late in (lambda: hits.matching, lambda: hits.explain("7"), lambda: hits[0].highlights):
            with pytest.raises(InputError, match="the index has changed since this search; search again"):
                late()
        assert (hits[0].text, kept.matching) == ("fox number7", 1)  # what was there stays


def test_a_long_text_that_was_changed_since_the_search_is_an_error(tmp_path: Path) -> None:
    text = "fox " * 200
    with _served(tmp_path, limits=Limits(max_text=100)) as served, Client(served.address, KEY) as client:
        client.add([{"id": "long", "text": text, "title": "a b c " * 30}])
        assert client.search("fox", where={"id": "long"})[0].text == text
        hits = client.search("fox", where={"id": "long"})
        client.add([{"id": "long", "text": f"owl {text}"}])
        with pytest.raises(InputError, match="document 'long' is not as it was found"):
            hits[0]
        assert hits.ids == ("long",)


def test_dense_scores_come_back_as_an_index_has_them(tmp_path: Path) -> None:
    texts = ["Foxes sleep by day.", "The Rhine rises in Switzerland.", "# Dogs\n\nThey bark. " + "They run. " * 300]
    with ds.Index.create(tmp_path / "my.idx", "mini") as index:
        index.add({"id": str(at), "text": text} for at, text in enumerate(texts))
        with live(index) as served, Client(served.address) as client:
            for options in ({}, {"mode": "dense"}, {"lam": 3.0}, {"group": False}):
                found, expected = (one.search("when does a fox rest", **options) for one in (client, index))
                assert found == expected
                assert list(found) == list(expected)
                assert found.explanations() == expected.explanations()
            assert list(client.similar("0")) == list(index.similar("0"))
            assert client.info().lam == index.lam


def test_in_an_event_loop_a_ranking_does_not_make_the_loop_wait(tmp_path: Path) -> None:
    async def scenario(address: str) -> None:
        async with AsyncClient(address, KEY) as client:
            found = await asyncio.gather(*(client.search(f"number{at}", 1) for at in range(30)))
            assert [hits.ids for hits in found] == [(str(at),) for at in range(30)]
            hits = found[7]
            with pytest.raises(InputError, match="the event loop would wait"):
                _ = hits.matching
            assert await asyncio.to_thread(lambda: (hits.matching, len(hits[0].highlights))) == (1, 1)
            assert (await client.explain(hits, "7")).score == pytest.approx(hits.scores[0])
            assert (await client.explain(ds.open_index(tmp_path / "my.idx").search("fox"), "7")).id == "7"
        with pytest.raises(InputError, match="this client is closed"):
            await client.search("fox")

    with _served(tmp_path) as served:
        asyncio.run(scenario(served.address), debug=True)


# --- one client for all


def test_threads_share_a_client_and_its_connections(tmp_path: Path) -> None:
    with _served(tmp_path) as served, Client(served.address, KEY) as client, ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda at: client.search(f"number{at % 30}", 1).ids, range(120)))
        assert found == [(str(at % 30),) for at in range(120)]
        assert len(client._connections._http._transport._pool.connections) <= 8  # type: ignore[attr-defined]


def test_a_closed_client_says_so(tmp_path: Path) -> None:
    client = Client("http://127.0.0.1:1")
    client.close()
    client.close()
    with pytest.raises(InputError, match="this client is closed"):
        client.search("fox")


def test_without_httpx_the_error_names_what_to_install() -> None:
    script = "import sys; sys.modules['httpx'] = None; import denslice; denslice.Client('http://127.0.0.1:1')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "MissingExtraError: a client needs optional packages: pip install 'denslice[client]'" in done.stderr


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize(
    "name", ["search", "search_batch", "similar", "explain", "suggest", "get", "places", "add", "delete"]
)
def test_methods_take_what_those_of_an_index_take_but_for_the_wait_for_its_lock(kind: type, name: str) -> None:
    index, own = (dict(signature(getattr(one, name)).parameters) for one in (ds.Index, kind))
    index.pop("wait", None)
    assert {one: index[one].default for one in index} == {one: own[one].default for one in own}


def test_every_option_is_sent_if_it_is_not_the_default() -> None:
    chosen: dict[str, Any] = {
        "k": 3, "theta": 0.5, "candidates": 7, "mode": "hybrid", "lam": 2.0, "candidates_from": "lexical",
        "pruning": 0.2, "where": {"year": 1}, "fuzzy": False, "min_score": 0.0, "offset": 4, "cursor": "abc",
        "sort_by": "year", "group_by": "year", "per_group": 2, "facets": ["year"], "group": False,
    }  # fmt: skip
    assert {one.name for one in shown(SearchOptions)} == set(chosen)
    assert options_json(SearchOptions()) == {}
    for name, value in chosen.items():
        more = {"group_by": "year"} if name == "per_group" else {}
        assert options_json(SearchOptions(**{name: value, **more})) == {name: value, **more}
    with pytest.raises(InputError, match="theta is inf, which JSON cannot hold"):
        options_json(SearchOptions(theta=float("inf")))
    with pytest.raises(InputError, match="queries over HTTP are texts"):
        query_json(Query(vector={"fox": 1.0}))


# --- servers


@contextmanager
def _served(folder: Path, limits: Limits | None = None, access: Access = WRITABLE) -> Iterator[Live]:
    """A server in this process, of thirty documents."""
    with ds.Index.create(folder / "my.idx", "bm25") as index:
        index.add(DOCS)
        with live(index, limits, access) as served:
            yield served


@contextmanager
def _live_at(port: int, index: ds.Index, limits: Limits) -> Iterator[None]:
    """A server at a port that was used before."""
    from denslice.serve.http_app import make_app
    from denslice.serve.http_server import make_server

    running = make_server(make_app(index, limits, WRITABLE), limits)
    with socket.create_server(("127.0.0.1", port)) as listener:
        thread = threading.Thread(target=running.run, args=([listener],))
        thread.start()
        try:
            wait_until(lambda: Live(port).ask("/readyz").status == 200)
            yield
        finally:
            running.should_exit = True
            thread.join()


@contextmanager
def _server_process(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process of `denslice serve`, and its address."""
    command = [sys.executable, "-u", "-m", "denslice", "serve", str(folder), "--port", "0", "--writable"]
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = os.environ | {"PYTHONPATH": paths, "DENSLICE_API_KEY": KEY}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().split()[-1]
        finally:
            process.send_signal(signal.SIGKILL)


@contextmanager
def _losing_answers(port: int, lost: int) -> Iterator[tuple[str, Any]]:
    """A relay to a server that passes every request on, and loses the answers to the first so many writes."""
    sent: list[bytes] = []

    def relay(client: socket.socket) -> None:
        with client:
            request = _whole_message(client)
            with socket.create_connection(("127.0.0.1", port)) as server:
                server.sendall(request)
                answer = _whole_message(server)
            sent.append(request)
            writes = [one for one in sent if b"/documents" in one.partition(b"\r\n")[0]]
            if request not in writes or len(writes) > lost:
                client.sendall(answer.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        stopped = threading.Event()

        def accept() -> None:
            listener.settimeout(0.05)
            while not stopped.is_set():
                try:
                    relay(listener.accept()[0])
                except TimeoutError:
                    continue

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", lambda: len(sent)
        finally:
            stopped.set()
            thread.join()


def _whole_message(connection: socket.socket) -> bytes:
    """The headers of an HTTP message, and its body by content-length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")]
    while len(body) < sum(lengths):
        body += connection.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def _waiting(listener: socket.socket) -> Sequence[socket.socket]:
    """The connections that nobody has accepted yet."""
    found: list[socket.socket] = []
    listener.settimeout(0.05)
    try:
        while True:
            found.append(listener.accept()[0])
    except TimeoutError:
        return found
    finally:
        for one in found:
            one.close()
