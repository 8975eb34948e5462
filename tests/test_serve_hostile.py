"""The server and those who mean no good or know no better: each is answered or let go, and nobody else waits."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from denslice import Index
from denslice.serve.limits import Access, Limits
from serving import KEY, Live, live, received
from waiting import wait_until

TRICKS = (
    "'; DROP TABLE docs; --",
    '" OR "1"="1',
    "1) UNION SELECT id, text FROM docs --",
    "../../../../etc/passwd",
    "..\\..\\manifest.json",
    "file:///etc/passwd",
    "$(reboot) `reboot` {{7*7}} ${jndi:ldap://x}",
    "<script>alert(1)</script>",
    "\x00",
    "cats\x00dogs",
    "\ud800",
    "\u202e\ufeff\u0301",
    "a" * 999,
)
SHORT = Limits(header_timeout=0.4, body_timeout=0.4, send_timeout=0.4, max_body=200_000, max_connections=40)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    made = Index.create(tmp_path_factory.mktemp("hostile") / "h.idx", "bm25", filterable=["year"])
    made.add([{"id": "cats", "text": "cats sleep", "year": 2020, "who": "x"}, {"id": "dogs", "text": "dogs run"}])
    return made


@pytest.fixture(scope="module")
def served(index: Index) -> Iterator[Live]:
    """A server that has to be well, and its index whole, after everything."""
    with live(Index.open(index.path), SHORT, Access(api_key=KEY, writable=True, open=True)) as running:
        yield running
        assert running.search("cats").json()["results"][0]["hits"][0]["id"] == "cats"
    Index.open(index.path).verify()
    assert sorted(doc.id for doc in Index.open(index.path).docs()) == ["cats", "dogs"]


def post(body: bytes, *headers: str, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = ("POST /search HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {size}")
    return "\r\n".join((*head, *headers, "", "")).encode() + body


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# --- bodies


def test_a_body_too_large_is_refused_before_it_is_sent(served: Live) -> None:
    for length in (200_001, 10**19, 10**40):
        assert status(served.raw(post(b"", length=length))) in (400, 413)


def test_a_body_too_large_is_refused_when_its_length_was_not_told(served: Live) -> None:
    head = post(b"", "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
    chunk = b"2000\r\n" + b" " * 0x2000 + b"\r\n"
    assert status(served.raw(head + 30 * chunk)) == 413


def test_without_the_key_a_write_may_not_be_larger_than_a_search(served: Live) -> None:
    body = {"documents": [{"id": "x", "text": "x" * 250_000}]}
    assert served.ask("/documents", body).status == 413


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"query"',
        b"\xff\xfe\xfd",
        b'{"query": "\xc3\x28"}',
        b'{"query": "\\ud800"}',
        b'{"query": NaN}',
        b'{"query": "x", "theta": NaN}',
        b'{"query": "x", "theta": Infinity}',
        b'{"query": "x", "lam": 1e400}',
        b'{"query": "x", "lam": -1}',
        b'{"query": "x", "k": 1e9}',
        b'{"query": "x", "k": 1.5}',
        b'{"query": "x", "k": true}',
        b'{"query": "x", "k": "10"}',
        b'{"query": "x", "k": ' + b"9" * 5_000 + b"}",
        b'{"query": 7}',
        b'{"query": ["x"]}',
        b'{"query": {"$gt": ""}}',
        b'{"queries": "x"}',
        b'{"queries": [null]}',
        b'{"query": "x", "explain": 1}',
        b'{"query": "x", "mode": null, "unknown": 1}',
        b'{"query": "x", "__proto__": {}}',
        b'{"query": "x", "\\ud800": 1}',
        b'{"query": "x", "where": []}',
        b'{"query": "x", "where": {"year": NaN}}',
        b'{"query": "x", "where": {"a": {"regex": "(a+)+"}}}',
        b"[" * 100_000,
        b'{"query": "x", "where": ' + b'{"not": ' * 5_000 + b"{}" + b"}" * 5_001,
        b'{"query": "x", "where": {"and": ' + b'[{"and": ' * 40 + b"[]" + b"}]" * 40 + b"}}",
        b'{"query": "x", "where": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
    ],
    ids=range(34),
)
def test_a_body_that_is_no_search_is_told_so(served: Live, body: bytes) -> None:
    answer = served.ask("/search", body)
    assert 400 <= answer.status < 500
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("levels", [70, 500, 956, 985, 9_000])
def test_nesting_that_no_step_could_follow_is_refused_with_a_reason(served: Live, levels: int) -> None:
    lists = b"[" * levels + b"]" * levels
    objects = b'{"a": ' * levels + b"1" + b"}" * levels
    filters = b'{"not": ' * levels + b"{}" + b"}" * levels
    bodies = [(b'{"query": "cats", "where": %b}' % where) for where in (filters, objects, b'{"a": %b}' % lists)]
    bodies += [b'{"query": "cats", "where": {"a": {"exists": %b}}}' % lists, b'{"query": %b}' % lists]
    answers = [served.ask("/search", body) for body in bodies]
    for fields in (
        b'"meta": {"a": %b}' % lists,
        b'"a": %b' % objects,
        b'"metadata": %b' % objects,
        b'"text": %b' % lists,
    ):
        body = b'{"documents": [{"id": "z", %b}]}' % fields
        answers.append(served.ask("/documents", body, Authorization=f"Bearer {KEY}"))
    answers.append(served.ask("/documents", b'{"ids": [%b]}' % lists, "DELETE", Authorization=f"Bearer {KEY}"))
    assert [answer.status for answer in answers] == [422] * 10
    assert all("nested deeper" in answer.json()["error"]["message"] for answer in answers)


def test_a_refusal_names_the_field_and_what_it_should_be(served: Live) -> None:
    for body, message in (
        (b"{", "the body is not valid JSON"),
        (b'{"query": 1}', "query: Input should be a valid string"),
        (b'{"queries": ["a", 2]}', "queries.1: Input should be a valid string"),
        (b'{"query": "x", "k": 0, "kk": 1}', "k: Input should be greater than or equal to 1; kk: Extra inputs are not"),
    ):
        assert served.ask("/search", body).json()["error"]["message"].startswith(message)


def test_a_repeated_or_odd_but_lawful_body_is_answered(served: Live) -> None:
    for body in (
        b'{"query": "dogs", "query": "cats"}',
        json.dumps({"query": "cats"}).encode("utf-16"),
        b'{"query": "cats\\u0000"}',
        b'{"query": "cats", "where": {}}',
        b'{"query": "cats", "where": {"year": {"gte": 1e308}}}',
        b'{"query": "cats", "where": {"year": ' + b"9" * 400 + b"}}",
        b'{"query": "cats", "where": {"' + b"y" * 9_000 + b'": 1}}',
    ):
        assert served.ask("/search", body).status == 200


# --- tricks


@pytest.mark.parametrize("trick", TRICKS, ids=range(len(TRICKS)))
def test_tricks_in_queries_filters_and_ids_are_plain_text(served: Live, trick: str) -> None:
    answers: list[Any] = [served.search(trick), served.search("cats", where={trick: trick})]
    for where in ({"year": trick}, {"year": {"in": [trick]}}, {"who": {"gt": trick}}, {"year": {"lte": trick}}):
        answers.append(served.search("cats", where=where))
    escaped = "".join(f"%{byte:02x}" for byte in trick.encode("utf-8", "surrogatepass"))
    answers += [served.ask(f"/documents/{escaped}"), served.ask(f"/{escaped}")]
    answers.append(served.ask("/documents", {"ids": [trick]}, "DELETE", Authorization=f"Bearer {KEY}"))
    for answer in answers:
        assert answer.status < 500
        for leak in (b"root:", b"sqlite", b"Traceback", b'File "', b"SELECT row", b"h.idx"):
            assert leak not in answer.body


def test_metadata_of_any_shape_is_kept_or_refused(served: Live) -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    for fields in ({"deep": deep}, {"\ud800": 1}, {"a": "\ud800"}, {"text": "\ud800"}, {"year": 10**30}):
        body = {"documents": [{"id": "z", **fields}]}
        assert served.ask("/documents", body, Authorization=f"Bearer {KEY}").status == 422
    for fields in ({"": None, "deep": [[[{"x": [[]]}]]]}, {"text": "nul \x00 nul"}, {"a\x00b": {"c": [1.5, None]}}):
        body = {"documents": [{"id": "z", **fields}]}
        assert served.ask("/documents", body, Authorization=f"Bearer {KEY}").status == 200
        assert served.ask("/documents/z").status == 200
        assert served.search("nul", where={"deep": [[[]]], "a": {"exists": False}}).status == 200
    assert served.ask("/documents", {"ids": ["z"]}, "DELETE", Authorization=f"Bearer {KEY}").json()["documents"] == 1


# --- not quite HTTP


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"HELLO\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET \xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n",
        b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /search HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"POST /search HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
    ids=range(11),
)
def test_what_is_not_http_is_refused_or_cut_off(served: Live, sent: bytes) -> None:
    try:
        answer = served.raw(sent.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
    except ConnectionError:  # closed while we were still sending
        return
    assert answer == b"" or 400 <= status(answer) < 500


def test_methods_nobody_offers_are_refused(served: Live) -> None:
    for method in ("PUT", "PATCH", "TRACE", "OPTIONS"):
        assert served.ask("/search", method=method).status == 405
    assert served.ask("/search").status == 405


def test_two_requests_sent_at_once_are_answered_one_after_the_other(served: Live) -> None:
    one, two = b'{"query": "cats"}', b'{"query": "dogs"}'
    answer = served.raw(post(one) + post(two, "Connection: close"))
    assert answer.count(b"HTTP/1.1 200") == 2
    assert answer.index(b'"query":"cats"') < answer.index(b'"query":"dogs"')


# --- slow


def test_a_client_that_never_ends_its_head_is_let_go(served: Live) -> None:
    for sent in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-One: 1\r\n"):
        began = time.monotonic()
        answer = served.raw(sent)
        assert status(answer) == 408
        assert time.monotonic() - began < 5


def test_a_head_that_drips_in_is_let_go_in_the_same_time(served: Live) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
        began = time.monotonic()
        try:
            for byte in b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Drip: " + b"x" * 1_000:
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
        except ConnectionError:
            pass
        assert time.monotonic() - began < 5


def test_a_second_head_on_a_kept_connection_may_not_hang_either(served: Live) -> None:
    answer = served.raw(post(b'{"query": "cats"}') + b"GET /healthz HT")
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in answer


def test_a_body_that_does_not_come_is_told_and_let_go(served: Live) -> None:
    answer = served.raw(post(b'{"query"', length=50))
    assert status(answer) == 408
    assert b"body_too_slow" in answer


def test_many_slow_clients_keep_nobody_from_being_answered(served: Live) -> None:
    slow = [socket.create_connection(("127.0.0.1", served.port), timeout=10) for _ in range(30)]
    try:
        for connection in slow:
            connection.sendall(post(b"{", length=100))
        began = time.monotonic()
        assert served.search("cats").status == 200
        assert time.monotonic() - began < 2
        assert all(status(received(connection)) == 408 for connection in slow)
    finally:
        for connection in slow:
            connection.close()


def test_one_connection_too_many_is_told_to_come_back(served: Live) -> None:
    held = [socket.create_connection(("127.0.0.1", served.port), timeout=10) for _ in range(40)]
    try:
        answer = served.raw(b"")
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"retry-after" in answer
    finally:
        for connection in held:
            connection.close()
    wait_until(lambda: served.search("cats").status == 200)


def test_a_client_that_does_not_take_its_answer_is_let_go(tmp_path: Any) -> None:
    large = Index.create(tmp_path / "large.idx", "bm25")
    large.add({"id": str(number), "text": "cats " + "x" * 1_500_000} for number in range(10))
    with live(large, replace(SHORT, max_text=2_000_000)) as running, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", running.port))
        connection.sendall(post(b'{"query": "cats"}'))
        time.sleep(1.5)
        assert running.ask("/healthz").status == 200
        connection.settimeout(10)
        with suppress(ConnectionError):
            answer = received(connection)
        assert 0 < len(answer) < 10_000_000  # of some 15 MB
