"""The server: the same answers as the index, limits and keys, and what it says of itself."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from denslice import Index, IndexFormatError, InputError
from denslice.index.index_info import IndexInfo
from denslice.queries import Query
from denslice.rankings import Ranking
from denslice.serve.background import Background
from denslice.serve.http_app import make_app
from denslice.serve.http_server import make_server
from denslice.serve.limits import Access, Limits
from denslice.serve.metrics import Metrics
from serving import KEY, Live, live
from waiting import wait_until

DOCS: list[dict[str, Any]] = [
    {"id": "cats", "title": "On cats", "text": "The cats sat on the mat, easily.", "year": 2020, "lang": "en"},
    {"id": "dogs", "text": "Dogs chase cats.", "year": 2021},
    {"id": "a/b c", "text": "An id with a slash; naïve 😀 cats sleeping.", "tags": ["odd"]},
    {"id": "trees", "text": "A tree grows by the stone.", "year": 2021},
]
SCRIPTS = ("page", "results", "passages", "reader", "elements")
WRITER = Access(api_key=KEY, writable=True, open=True)
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    made = Index.create(tmp_path_factory.mktemp("serve") / "words.idx", "bm25", filterable=["year"])
    made.add(DOCS)
    return made


@pytest.fixture(scope="module")
def served(index: Index) -> Iterator[Live]:
    limits = Limits(max_query_length=50, max_k=20, max_queries=4, max_explained=10, max_conditions=5, max_body=5_000)
    with live(index, limits) as running:
        yield running


@pytest.fixture
def writable(tmp_path: Path) -> Iterator[tuple[Live, Path]]:
    folder = tmp_path / "w.idx"
    Index.create(folder, "bm25", filterable=["year"]).add(DOCS)
    with live(Index.open(folder), Limits(refresh_seconds=0.05, max_documents=3), WRITER) as running:
        yield running, folder


# --- answers


def test_answers_are_those_of_the_index(served: Live, index: Index) -> None:
    for settings in ({}, {"k": 1}, {"mode": "lexical"}, {"theta": 0.5}, {"where": {"year": {"gte": 2021}}}):
        [result] = served.search("sleeping cats", **settings).json()["results"]
        expected = index.search("sleeping cats", **settings)
        found = [(hit["id"], hit["score"], hit["text"], hit["title"], hit["meta"]) for hit in result["hits"]]
        assert found == [(hit.id, hit.score, hit.text, hit.title, dict(hit.meta)) for hit in expected]
        assert all(hit["explanation"] is None for hit in result["hits"])


def test_many_queries_are_answered_in_their_order(served: Live, index: Index) -> None:
    texts = ["trees", "dogs", "nothing known", "cats"]
    answer = served.ask("/search", {"queries": texts, "k": 2}).json()
    assert [result["query"] for result in answer["results"]] == texts
    expected = [list(ranking.ids) for ranking in index.search_batch(texts, 2)]
    assert [[hit["id"] for hit in result["hits"]] for result in answer["results"]] == expected
    assert answer["generation"] == index.generation
    assert answer["took_ms"].keys() >= {"queue", "encode", "search", "total"}


def test_an_explanation_sums_to_the_score_and_tells_where_the_words_are(served: Live) -> None:
    hits = served.search("sleep cat", explain=True).json()["results"][0]["hits"]
    for hit in hits:
        why = hit["explanation"]
        assert sum(term["contribution"] for term in why["terms"]) + why["dense"] == pytest.approx(hit["score"])
    odd = next(hit for hit in hits if hit["id"] == "a/b c")
    marked = [(odd["text"][match["start"] : match["end"]], match["token"]) for match in odd["explanation"]["matches"]]
    assert marked == [("cats", "cat"), ("sleeping", "sleep")]
    titled = next(hit for hit in hits if hit["id"] == "cats")
    assert {match["field"] for match in titled["explanation"]["matches"]} == {"title", "text"}


def test_a_document_is_found_by_its_id_whatever_is_in_it(served: Live) -> None:
    assert served.ask("/documents/a%2Fb%20c").json()["text"] == DOCS[2]["text"]
    assert served.ask("/documents/a/b%20c").json()["meta"] == {"tags": ["odd"]}
    assert served.ask("/documents/none").code == "no_document"


def test_queries_that_come_together_are_searched_together(index: Index) -> None:
    slow = Slow(index.path)
    with live(slow) as running, ThreadPoolExecutor(12) as pool:
        slow.seconds = 0.3
        answers = list(pool.map(lambda _: running.search("cats", k=3).json(), range(12)))
    assert max(answer["batch"] for answer in answers) > 1
    expected = [hit.id for hit in index.search("cats", 3)]
    assert [[hit["id"] for hit in answer["results"][0]["hits"]] for answer in answers] == [expected] * 12


# --- long texts


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Documents around the bound of 1,000 characters, one of them far beyond it."""
    index = Index.create(tmp_path_factory.mktemp("library") / "l.idx", "bm25")
    book = "moss 😀 fern. " * 1_000 + "badgers dig at dusk. " + "stone " * 300_000
    index.add([{"id": "book", "title": "badgers " * 500, "text": book, "year": 1900}])
    index.add([{"id": "short", "title": "a title", "text": "badgers ".ljust(1_000, "x")}])
    with live(index, Limits(max_text=1_000, max_body=10_000_000), Access(api_key=KEY, open=True, writable=True)) as run:
        yield run


def test_a_text_below_the_bound_comes_whole(library: Live) -> None:
    for explain in (True, False):
        hits = library.search("badgers", explain=explain).json()["results"][0]["hits"]
        short = next(hit for hit in hits if hit["id"] == "short")
        assert (short["text"], short["title"], short["cut"]) == ("badgers ".ljust(1_000, "x"), "a title", None)


def test_of_a_long_text_the_part_with_the_most_words_of_the_query_comes(library: Live) -> None:
    whole = library.ask("/documents/book").json()
    hits = library.search("when do badgers dig at dusk", explain=True).json()["results"][0]["hits"]
    hit = next(hit for hit in hits if hit["id"] == "book")
    part, title = hit["cut"]["text"], hit["cut"]["title"]
    assert part["length"] == len(whole["text"])
    assert (title["start"], title["length"]) == (0, len(whole["title"]))
    assert 500 <= len(hit["text"]) <= 1_000
    assert hit["text"] == whole["text"][part["start"] : part["start"] + len(hit["text"])]
    assert hit["title"] == whole["title"][: len(hit["title"])]
    marks = [match for match in hit["explanation"]["matches"] if match["field"] == "text"]
    assert [hit["text"][match["start"] : match["end"]] for match in marks] == ["badgers", "dig", "dusk"]


def test_without_an_explanation_a_long_text_is_shown_at_its_best_passage(library: Live) -> None:
    [hit] = library.search("dusk", k=1).json()["results"][0]["hits"]
    start, whole = hit["cut"]["text"]["start"], library.ask("/documents/book").json()["text"]
    assert "badgers dig at dusk" in hit["text"]
    assert hit["text"] == whole[start : start + len(hit["text"])]


def test_a_hit_that_was_cut_is_not_taken_for_the_document(library: Live) -> None:
    [hit] = library.search("dusk", k=1).json()["results"][0]["hits"]
    answer = library.ask("/documents", {"documents": [hit]}, **AUTHORIZED)
    assert (answer.status, answer.code) == (422, "invalid")
    assert "only a part of this document" in answer.json()["error"]["message"]


# --- limits


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"query": "x" * 51}, 422, "query_too_long"),
        ({"query": "x", "k": 21}, 422, "k_too_large"),
        ({"queries": ["x"] * 5}, 422, "too_many_queries"),
        ({"query": "x", "k": 11, "explain": True}, 422, "too_many_explained"),
        ({"query": "x", "candidates": 10**9}, 422, "candidates_too_large"),
        ({"query": "x", "where": {"year": {"in": [1, 2, 3, 4, 5, 6]}}}, 422, "filter_too_large"),
        ({"query": "x", "where": {"year": {"like": 1}}}, 422, "bad_filter"),
        ({"query": "x", "mode": "dense"}, 422, "invalid"),
        ({"query": "x", "mode": "sideways"}, 422, "invalid"),
        ({"query": "x", "queries": ["x"]}, 422, "invalid"),
        ({"queries": []}, 422, "invalid"),
        ({}, 422, "invalid"),
        ({"query": "x", "where": {"a": "x" * 6_000}}, 413, "body_too_large"),
    ],
)
def test_each_limit_has_its_own_refusal(served: Live, body: Any, status: int, code: str) -> None:
    answer = served.ask("/search", body)
    assert (answer.status, answer.code) == (status, code)
    assert answer.json()["error"]["message"]


class Slow(Index):
    """An index that takes its time."""

    seconds = 0.0

    def __init__(self, path: Path) -> None:
        super().__init__(Index.open(path).reader)

    def search_batch(self, texts: Sequence[str | Query], k: int = 10, **settings: Any) -> list[Ranking]:
        time.sleep(self.seconds)
        return super().search_batch(texts, k, **settings)


def test_a_query_that_takes_too_long_is_answered(index: Index) -> None:
    slow = Slow(index.path)
    with live(slow, Limits(timeout=0.2)) as running:
        slow.seconds = 1.0
        began = time.monotonic()
        answer = running.search("cats")
        assert time.monotonic() - began < 0.9
        assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "timeout", "1")
        slow.seconds = 0.0
        wait_until(lambda: running.search("cats").status == 200)


def test_more_than_can_wait_is_refused_and_the_rest_answered(index: Index) -> None:
    slow = Slow(index.path)
    with live(slow, Limits(max_waiting=4, max_queries=4, max_batch=1)) as running, ThreadPoolExecutor(20) as pool:
        slow.seconds = 0.2
        answers = list(pool.map(lambda _: running.search("cats"), range(20)))
    refused = [answer for answer in answers if answer.status != 200]
    assert {(answer.status, answer.code, answer.headers["retry-after"]) for answer in refused} == {(503, "busy", "1")}
    assert 4 <= len(answers) - len(refused) < 20


def test_one_query_that_fails_does_not_fail_those_beside_it(index: Index) -> None:
    class Picky(Slow):
        def search_batch(self, texts: Sequence[str | Query], k: int = 10, **settings: Any) -> list[Ranking]:
            if "poison" in texts:
                raise RuntimeError("no")
            return super().search_batch(texts, k, **settings)

    picky = Picky(index.path)
    with live(picky) as running, ThreadPoolExecutor(9) as pool:
        picky.seconds = 0.2
        blocked = [pool.submit(running.search, "cats", k=k) for k in (1, 2)]  # both workers are busy with these
        time.sleep(0.1)
        texts = ["cats", "poison", "dogs"]
        statuses = [answer.status for answer in pool.map(running.search, texts)]
        assert statuses == [200, 500, 200]
        assert [one.result().status for one in blocked] == [200, 200]


# --- who may ask


def test_a_server_that_others_can_reach_needs_a_key_or_open() -> None:
    with pytest.raises(InputError, match="can be reached from other machines"):
        Access(host="0.0.0.0")
    assert Access(host="0.0.0.0", api_key=KEY).key_for_reads
    assert not Access(host="0.0.0.0", open=True).key_for_reads
    assert Access(host="::1", api_key=KEY).key_for_reads
    assert not Access(host="::1", api_key=KEY, open=True).key_for_reads
    assert not Access(host="::1").key_for_reads
    with pytest.raises(InputError, match="needs an API key"):
        Access(writable=True)
    with pytest.raises(InputError, match="16 ASCII characters"):
        Access(api_key="short")
    with pytest.raises(InputError, match="is not an address or name of this machine"):
        Access(host="no such host")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("writable", [True, False])
def test_a_key_guards_everything_but_the_health_checks_and_the_page(index: Index, host: str, writable: bool) -> None:
    with live(index, access=Access(host=host, api_key=KEY, writable=writable)) as running:
        page = {"/", "/page.css", "/icon.svg", *(f"/{name}.js" for name in SCRIPTS)}
        assert {running.ask(path).status for path in (*page, "/healthz", "/readyz")} == {200}
        described = running.ask("/openapi.json", **AUTHORIZED).json()["paths"]
        for path in (*described, "/openapi.json", "/documents/cats", "/nowhere", "/healthz/", "//", "/page.js/"):
            if path in ("/healthz", "/readyz"):
                continue
            for method in ("GET", "POST", "DELETE", "HEAD"):
                assert running.ask(path, method=method).status == 401, (method, path)
                assert running.ask(path, method=method, Authorization=f"Bearer {KEY}x").status == 401
                assert running.ask(path, method=method, **AUTHORIZED).status != 401
        for path in ("/index", "/documents/cats", "/metrics", "/openapi.json"):
            assert running.ask(path, **AUTHORIZED).status == 200
        assert running.search("cats").code == "key_needed"
        assert running.ask("/search", {"query": "cats"}, **AUTHORIZED).status == 200


def test_without_the_key_a_body_is_not_even_read(index: Index) -> None:
    with live(index, access=Access(api_key=KEY)) as running:
        head = f"POST /search HTTP/1.1\r\nHost: localhost:{running.port}\r\nContent-Type: application/json\r\n"
        assert running.raw(f"{head}Content-Length: 1000000\r\n\r\n".encode()).startswith(b"HTTP/1.1 401")


def test_open_leaves_reading_to_everyone_and_writing_to_the_key(index: Index) -> None:
    with live(index, access=Access(api_key=KEY, open=True)) as running:
        assert {running.ask(path).status for path in ("/index", "/documents/cats", "/metrics", "/openapi.json")} == {
            200
        }
        assert running.search("cats").status == 200
        assert running.ask("/documents", {"ids": ["cats"]}, "DELETE", **AUTHORIZED).code == "read_only"


def test_another_sites_name_for_loopback_is_refused(served: Live, index: Index) -> None:
    for host in ("evil.example", "evil.example:80", "", "[::2]:1"):
        assert served.ask("/index", Host=host).code == "unknown_host"
    for host in ("localhost", f"LOCALHOST:{served.port}", "127.0.0.1", "[::1]:9"):
        assert served.ask("/index", Host=host).status == 200
    with live(index, access=Access(hosts=("search.example",))) as running:
        assert running.ask("/index", Host="search.example").status == 200


def test_only_json_is_read_so_that_no_form_of_another_site_can_ask(served: Live) -> None:
    assert served.ask("/search", b'{"query": "x"}', Content_Type="text/plain").code == "not_json"


# --- writing


def test_writing_needs_the_flag_and_the_key(served: Live, writable: tuple[Live, Path]) -> None:
    body = {"documents": [{"id": "new", "text": "birds"}]}
    assert served.ask("/documents", body, **AUTHORIZED).code == "read_only"
    running, _ = writable
    assert running.ask("/documents", body).code == "key_needed"
    assert running.ask("/documents", {"ids": ["cats"]}, "DELETE").code == "key_needed"
    assert running.ask("/documents", body, Authorization="Basic " + KEY).code == "key_needed"


def test_documents_are_added_replaced_and_deleted(writable: tuple[Live, Path]) -> None:
    running, folder = writable
    body = {"documents": [{"id": "new", "text": "birds sing", "year": 2022}, {"id": "cats", "text": "replaced"}]}
    added = running.ask("/documents", body, **AUTHORIZED).json()
    assert added["documents"] == 2
    [hit] = running.search("birds").json()["results"][0]["hits"]
    assert (hit["id"], hit["meta"]) == ("new", {"year": 2022})
    assert running.ask("/documents/cats").json()["text"] == "replaced"
    gone = running.ask("/documents", {"ids": ["new", "never was"]}, "DELETE", **AUTHORIZED).json()
    assert gone["documents"] == 1
    assert gone["generation"] > added["generation"]
    assert running.search("birds").json()["results"][0]["hits"] == []
    assert sorted(doc.id for doc in Index.open(folder).docs()) == ["a/b c", "cats", "dogs", "trees"]


def test_bad_documents_are_refused_and_nothing_is_written(writable: tuple[Live, Path]) -> None:
    running, folder = writable
    before = Index.open(folder).generation
    for documents in ([], [{"text": "no id"}], [{"id": 1}], [{"id": "a"}] * 4, [{"id": "a\u0000"}], [{"id": " "}]):
        answer = running.ask("/documents", {"documents": documents}, **AUTHORIZED)
        assert answer.status == 422, documents
    for wrong in ({"text": 1}, {"metadata": "not an object"}, {"year": 2**70}):
        answer = running.ask("/documents", {"documents": [{"id": "a", **wrong}]}, **AUTHORIZED)
        assert answer.status == 422, wrong
    assert Index.open(folder).generation == before


def test_a_write_while_another_process_writes_is_told_to_come_back(writable: tuple[Live, Path]) -> None:
    from denslice.store import lock

    running, folder = writable
    with lock.writing(folder):
        answer = running.ask("/documents", {"ids": ["cats"]}, "DELETE", **AUTHORIZED)
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "busy", "1")


def test_commits_from_elsewhere_are_picked_up(writable: tuple[Live, Path]) -> None:
    running, folder = writable
    Index.open(folder).add([{"id": "late", "text": "owls hoot"}])
    wait_until(lambda: running.search("owls").json()["results"][0]["hits"])
    generation = Index.open(folder).generation
    assert running.metric("denslice_index_generation") == generation
    assert running.metric("denslice_index_documents") == 5
    assert running.ask("/index").json()["documents"] == 5


def test_explanations_stay_with_their_search_while_documents_come_and_go(writable: tuple[Live, Path]) -> None:
    running, folder = writable
    over = threading.Event()

    def write() -> None:
        writer = Index.open(folder)
        while not over.is_set():
            writer.delete(["cats"])
            writer.add([DOCS[0]])

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for _ in range(150):
            answer = running.search("cats on the mat", explain=True)
            assert answer.status == 200
            for hit in answer.json()["results"][0]["hits"]:
                assert hit["explanation"]["score"] == pytest.approx(hit["score"], rel=1e-4)
    finally:
        over.set()
        writing.join()


# --- tasks of the server's own


class Failing(Slow):
    """An index whose verbs raise what they are told to."""

    def __init__(self, path: Path, **errors: Exception) -> None:
        super().__init__(path)
        self.errors = errors

    def _raise(self, verb: str) -> None:
        if verb in self.errors:
            raise self.errors[verb]

    def refresh(self) -> bool:
        self._raise("refresh")
        return super().refresh()

    def info(self) -> IndexInfo:
        self._raise("info")
        return super().info()

    def search_batch(self, texts: Sequence[str | Query], k: int = 10, **settings: Any) -> list[Ranking]:
        self._raise("search_batch")
        return super().search_batch(texts, k, **settings)


UNEXPECTED = (RuntimeError("/secret/path"), MemoryError(), CancelledError(), IndexFormatError("/secret/path: damaged"))


@pytest.mark.parametrize("error", UNEXPECTED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("verb", ["refresh", "info"])
def test_a_refresh_that_fails_is_logged_counted_told_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, verb: str, error: Exception
) -> None:
    folder = tmp_path / "f.idx"
    Index.create(folder, "bm25").add(DOCS)
    failing = Failing(folder)
    with live(failing, Limits(refresh_seconds=0.02)) as running:
        failing.errors[verb] = error
        Index.open(folder).add([{"id": "late", "text": "owls hoot"}])
        wait_until(lambda: running.ask("/readyz").status == 503)
        answer = running.ask("/readyz")
        assert (answer.code, b"secret" in answer.body) == ("failing", False)
        assert "refresh failed" in answer.json()["error"]["message"]
        count = 'denslice_background_failures_total{task="refresh"}'
        wait_until(lambda: running.metric(count) > 2)
        assert running.search("cats").status == 200
        failing.errors.clear()
        wait_until(lambda: running.ask("/readyz").status == 200)
        wait_until(lambda: running.ask("/index").json()["documents"] == 5)
        assert len([one for one in caplog.records if "refresh failed and will be tried again" in one.message]) == 1


def test_a_first_search_that_fails_is_told_and_tried_again(index: Index) -> None:
    failing = Failing(index.path, search_batch=RuntimeError("no model yet"))
    told: list[str] = []

    def mend() -> None:
        while failing.errors:
            answer = running.ask("/readyz")
            if answer.code == "failing":
                told.append(answer.json()["error"]["message"])
                failing.errors.clear()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server_ = make_server(make_app(failing), Limits())
        running, thread = Live(listener.getsockname()[1]), threading.Thread(target=server_.run, args=([listener],))
        thread.start()
        try:
            mend()
            wait_until(lambda: running.ask("/readyz").status == 200)
        finally:
            server_.should_exit = True
            thread.join()
    assert told[0].startswith("warm-up failed once, the last time with RuntimeError")


@pytest.mark.parametrize("error", UNEXPECTED, ids=lambda error: type(error).__name__)
def test_searches_that_fail_leave_the_workers_alive(index: Index, error: Exception) -> None:
    failing = Failing(index.path)
    with live(failing, Limits(timeout=5)) as running:
        failing.errors["search_batch"] = error
        assert [running.search("cats").status for _ in range(5)] == [500] * 5
        failing.errors.clear()
        assert running.search("cats").status == 200


def test_a_search_with_too_few_answers_fails_and_the_next_is_answered(index: Index) -> None:
    class Short(Slow):
        few = False

        def search_batch(self, texts: Sequence[str | Query], k: int = 10, **settings: Any) -> list[Ranking]:
            return [] if self.few else super().search_batch(texts, k, **settings)

    short = Short(index.path)
    with live(short, Limits(timeout=5)) as running:
        short.few = True
        assert [running.search("cats").status for _ in range(3)] == [500] * 3
        short.few = False
        assert running.search("cats").status == 200


def test_a_worker_that_fails_is_logged_counted_and_begun_again() -> None:
    async def run() -> tuple[str, float, list[int]]:
        metrics = Metrics()
        background = Background(metrics)
        begun: list[int] = []

        async def work() -> None:
            begun.append(len(begun))
            if len(begun) == 1:
                raise KeyError("x")
            await asyncio.sleep(3_600)

        background.forever("worker", work)
        while not background.failing:
            await asyncio.sleep(0)
        told = background.failing
        while len(begun) < 2:
            await asyncio.sleep(0.01)
        assert background.failing == ""
        await background.stop()
        return told, metrics.background_failures.labels("worker")._value.get(), begun

    assert asyncio.run(run()) == ("worker failed once, the last time with KeyError", 1.0, [0, 1])


# --- what is said, and what is not


def test_a_failure_inside_is_answered_without_its_reason(index: Index) -> None:
    class Broken(Slow):
        fails: Exception | None = None

        def search_batch(self, texts: Sequence[str | Query], k: int = 10, **settings: Any) -> list[Ranking]:
            if self.fails:
                raise self.fails
            return super().search_batch(texts, k, **settings)

    broken = Broken(index.path)
    with live(broken) as running:
        for error in (
            RuntimeError("/secret/path"),
            IndexFormatError(f"{index.path}/docs.sqlite: no such table; the index is damaged"),
            InputError(f"{index.path}: cannot be written (SELECT)"),
        ):
            broken.fails = error
            answer = running.search("cats")
            assert (answer.status, answer.code) == (500, "internal")
            assert answer.headers["content-security-policy"]
            assert not any(word in answer.body for word in (b"secret", b"sqlite", b"SELECT", b"Traceback"))
        broken.fails = None
        assert running.search("cats").status == 200


def test_no_answer_tells_where_the_index_is(served: Live, index: Index) -> None:
    asked = [served.ask(path) for path in ("/", "/index", "/metrics", "/openapi.json", "/documents/none", "/nothing")]
    asked += [served.search("cats", explain=True), served.search("x", mode="dense")]
    assert not any(index.path.name.encode() in answer.body for answer in asked)


def test_metrics_count_requests_stages_and_batches(index: Index) -> None:
    with live(index) as running:
        for _ in range(3):
            running.search("cats", explain=True)
        running.ask("/nowhere/at/all")
        count = 'denslice_requests_total{method="POST",route="/search",status="200"}'
        assert running.metric(count) == 3
        assert running.metric('denslice_requests_total{method="GET",route="other",status="404"}') == 1
        for stage in ("queue", "encode", "search", "documents", "explain"):
            assert running.metric(f'denslice_stage_seconds_count{{stage="{stage}"}}') == 3
        assert running.metric("denslice_batch_queries_count") == 3
        assert running.metric("denslice_queue_waiting") == 0
        assert running.metric("process_resident_memory_bytes") > 0


def test_the_page_and_its_files_ask_nothing_of_others(served: Live) -> None:
    for path in ("/", "/page.css", "/icon.svg", *(f"/{name}.js" for name in SCRIPTS)):
        answer = served.ask(path)
        assert answer.status == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        outside = answer.body.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"http://" not in outside
        assert b"https://" not in outside
        again = served.ask(path, If_None_Match=answer.headers["etag"])
        assert (again.status, again.body) == (304, b"")


def test_a_search_is_explained_and_counted_afterwards_or_says_what_is_missing(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "f.idx", "bm25")
    index.add([{"id": "1", "text": "a red fox"}, {"id": "2", "text": "an owl"}])
    with live(index) as running:
        why = running.ask("/explain", {"query": "fox", "id": "2", "offset": 5, "explain": True}).json()
        assert (why["id"], why["score"], why["terms"], why["generation"]) == ("2", 0.0, [], 1)
        told = running.ask("/matching", {"query": "fox -red"}).json()
        assert told == {"matching": 0, "tokens": ["fox"], "generation": 1}
        for path, body, status, code in (
            ("/explain", {"query": "fox", "id": "3"}, 404, "no_document"),
            ("/explain", {"like": "3", "id": "1"}, 404, "no_document"),
            ("/explain", {"query": "fox", "like": "1", "id": "1"}, 422, "invalid"),
            ("/explain", {"query": "fox", "id": "1", "passage": 1}, 422, "invalid"),
            ("/matching", {}, 422, "invalid"),
            ("/matching", {"query": "x" * 3_000}, 422, "query_too_long"),
        ):
            refused = running.ask(path, body)
            assert (refused.status, refused.code) == (status, code)


def test_the_description_names_every_address(served: Live) -> None:
    paths = served.ask("/openapi.json").json()["paths"]
    expected = {
        "/search",
        "/explain",
        "/matching",
        "/documents/{id}",
        "/documents/{id}/similar",
        "/suggest",
        "/documents",
        "/index",
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/embeddings",
        "/v1/models",
        "/v1/models/{name}",
    }
    assert paths.keys() == expected


def test_the_server_says_how_many_slices_a_document_keeps(served: Live, tmp_path: Path) -> None:
    told = served.ask("/index").json()
    assert (told["slicing"], told["slices"]) == (None, None)  # every token
    sliced = Index.create(tmp_path / "sliced.idx", "bm25", slices=768)
    with live(sliced, Limits()) as running:
        told = running.ask("/index").json()
    assert (told["slicing"], told["slices"]) == ("learned", 768)


def test_an_index_of_ready_vectors_is_not_served(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ready vectors"):
        make_app(Index.create(tmp_path / "v.idx", "vectors", vocab=8))


def test_an_empty_index_and_one_of_one_document_are_served(tmp_path: Path) -> None:
    empty = Index.create(tmp_path / "e.idx", "bm25")
    with live(empty, access=WRITER) as running:
        nothing: dict[str, Any] = {"hits": [], "corrections": [], "missing": [], "cursor": None, "matching": None}
        nothing |= {"facets": {}, "exact": True}
        assert running.search("anything").json()["results"] == [{"query": "anything", **nothing}]
        assert running.search("").json()["results"][0]["hits"] == []
        body = {"documents": [{"id": "only", "text": "one alone"}]}
        assert running.ask("/documents", body, **AUTHORIZED).status == 200
        [hit] = running.search("alone", explain=True).json()["results"][0]["hits"]
        assert hit["id"] == "only"


def test_limits_must_make_sense() -> None:
    for wrong in ({"max_k": 0}, {"timeout": float("nan")}, {"max_queries": 10, "max_waiting": 5}):
        with pytest.raises(InputError):
            Limits(**wrong)


def test_the_documentation_tells_every_limit_and_its_default() -> None:
    page = Path(__file__).parents[1].joinpath("docs", "serving.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:3] for line in page.split("<!-- limits -->")[1].splitlines() if line.startswith("| `")]
    told: dict[str, float] = {}
    for names, defaults in rows:
        numbers = [float(word.rstrip(",")) for word in defaults.split() if word.rstrip(",").isdigit()]
        told |= dict(zip((name.strip(" `") for name in names.split(",")), numbers, strict=True))
    assert told == {field.name: getattr(Limits(), field.name) for field in fields(Limits)}
