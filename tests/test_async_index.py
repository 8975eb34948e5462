"""AsyncIndex: searches and writes in threads, beside an event loop that goes on, and what cancelling them leaves."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from threading import Event, Thread, active_count, current_thread, main_thread
from typing import Any

import pytest

from denslice import AsyncIndex, Index, InputError, LockedError, open_index
from denslice.index import async_index
from denslice.store import lock
from denslice.store import manifest as manifests

DOCS = [{"id": str(at), "text": f"fox number{at} runs"} for at in range(200)]
WAIT = 30.0  # seconds, for what happens at once
Scenario = Callable[[AsyncIndex], Awaitable[None]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Index.create(tmp_path / "my.idx", "bm25") as index:
        index.add(DOCS)
    return tmp_path / "my.idx"


def run(path: Path, scenario: Scenario) -> None:
    """Run a scenario with an open index, in debug mode, which reports what nobody awaits."""

    async def main() -> None:
        async with AsyncIndex.open(path) as index:
            await scenario(index)

    asyncio.run(main(), debug=True)


async def until(happened: Event) -> None:
    """Wait for an event of a thread."""
    assert await asyncio.to_thread(happened.wait, WAIT)


class Held:
    """A function that tells when it is called, and goes on when it may."""

    def __init__(self, then: Callable[..., Any] = lambda *given: None) -> None:
        self.called, self.go_on, self.then = Event(), Event(), then

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.called.set()
        assert self.go_on.wait(WAIT)
        return self.then(*given, **named)

    def docs(self) -> Iterator[dict[str, str]]:
        """Documents, of which the second comes when it may."""
        yield {"id": "new 1", "text": "owl"}
        self()
        yield {"id": "new 2", "text": "owl"}


# --- reading


def test_it_answers_as_an_index_does(path: Path) -> None:
    async def scenario(index: AsyncIndex) -> None:
        with open_index(path) as plain:
            hits = await index.search("number7", k=3, where={"id": {"in": ["7", "8"]}})
            assert list(hits) == list(plain.search("number7", k=3, where={"id": {"in": ["7", "8"]}}))
            assert await index.search_batch(["number1", "number2"]) == plain.search_batch(["number1", "number2"])
            assert await index.similar("7", k=2) == plain.similar("7", k=2)
            assert await index.explain(hits, "7") == plain.explain("number7", "7")
            assert await index.get("7") == plain.get("7")
            assert await index.get("none") is None
            assert await index.info() == plain.info()
            assert index.generation == plain.generation

    run(path, scenario)


def test_a_search_and_the_texts_of_its_hits_are_read_in_another_thread(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[Thread] = []

    def noted(work: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*given: Any, **named: Any) -> Any:
            threads.append(current_thread())
            return work(*given, **named)

        return noting

    monkeypatch.setattr(Index, "search", noted(Index.search))
    monkeypatch.setattr(async_index, "_fetched", noted(async_index._fetched))

    async def scenario(index: AsyncIndex) -> None:
        hits = await index.search("number7")
        assert "_hits" in vars(hits)

    run(path, scenario)
    assert len(threads) == 2
    assert main_thread() not in threads


def test_many_searches_run_while_the_loop_goes_on_in_few_threads(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_index, "cores", lambda: 3)
    ticks, threads = 0, []

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1
            threads.append(active_count())

    async def scenario(index: AsyncIndex) -> None:
        before = active_count()
        ticking = asyncio.create_task(tick())
        found = await asyncio.gather(*(index.search(f"number{at}", k=1) for at in range(200)))
        ticking.cancel()
        assert [hits.ids for hits in found] == [(str(at),) for at in range(200)]
        assert ticks > 0
        assert max(threads) <= before + 3

    run(path, scenario)


def test_the_loop_goes_on_while_a_search_does_not_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(Index.search)
    monkeypatch.setattr(Index, "search", lambda *given, **named: held(*given, **named))

    async def scenario(index: AsyncIndex) -> None:
        searching = asyncio.create_task(index.search("number7"))
        await until(held.called)
        assert (await index.get("7")) is not None  # another thread answers
        assert not searching.done()
        held.go_on.set()
        assert (await searching).ids == ("7",)

    run(path, scenario)


def test_errors_keep_their_types(path: Path, tmp_path: Path) -> None:
    async def scenario(index: AsyncIndex) -> None:
        with pytest.raises(InputError, match="k must be a whole number"):
            await index.search("fox", k=0)
        with pytest.raises(InputError, match="document 0: no id"):
            await index.add([{"text": "fox"}])
        with pytest.raises(TypeError):
            await index.search("fox", caution=1.0)  # type: ignore[call-arg]
        with lock.writing(path), pytest.raises(LockedError):
            await index.delete(["7"], wait=0.0)
        assert len((await index.search("fox", k=1_000)).ids) == 200

    run(path, scenario)
    with pytest.raises(InputError, match="no such index"):
        run(tmp_path / "none.idx", scenario)


def test_before_and_after_its_block_an_index_says_that_it_is_not_open(path: Path) -> None:
    async def scenario() -> None:
        index = AsyncIndex.open(path)
        with pytest.raises(InputError, match="not open"):
            await index.search("fox")
        async with index:
            assert (await index.search("number7")).ids == ("7",)
        await index.close()
        with pytest.raises(InputError, match="not open"):
            await index.add(DOCS)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "name", ["open", "create", "search", "search_batch", "similar", "explain", "add", "update", "delete"]
)
def test_methods_take_what_those_of_an_index_take(name: str) -> None:
    plain, own = (dict(inspect.signature(getattr(one, name)).parameters) for one in (Index, AsyncIndex))
    if name == "open":
        del plain["progress"]
    assert {one: plain[one].default for one in plain} == {one: own[one].default for one in own}


# --- writing


def test_later_searches_see_what_was_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        counts: list[int] = []
        async with AsyncIndex.create(tmp_path / "new.idx", "bm25", filterable=["year"]) as index:
            assert await index.add(DOCS, progress=counts.append) == 200
            assert sum(counts) == 200
            assert (await index.search("number7")).ids == ("7",)
            assert await index.update("7", {"year": 2024})
            assert (await index.search("fox", where={"year": 2024})).ids == ("7",)
            assert await index.delete(["7", "none"]) == 1
            assert (await index.search("number7", fuzzy=False)).ids == ()
            with open_index(tmp_path / "new.idx") as other:
                other.add([{"id": "owl", "text": "an owl"}])
            assert await index.refresh()
            assert (await index.search("owl")).ids == ("owl",)

    asyncio.run(scenario())


def test_writes_and_searches_at_once_all_take_place(path: Path) -> None:
    async def scenario(index: AsyncIndex) -> None:
        adding = [index.add([{"id": f"owl {at}", "text": "an owl"}]) for at in range(12)]
        searching = [index.search("number7") for _ in range(12)]
        added, found = await asyncio.gather(asyncio.gather(*adding), asyncio.gather(*searching))
        assert added == [1] * 12
        assert [hits.ids for hits in found] == [("7",)] * 12
        assert len((await index.search("owl", k=100)).ids) == 12

    run(path, scenario)


# --- cancelling


def test_a_cancelled_search_returns_at_once_and_its_result_is_dropped(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(Index.search)
    plain = Index.search
    monkeypatch.setattr(Index, "search", lambda *given, **named: held(*given, **named))

    async def scenario(index: AsyncIndex) -> None:
        searching = asyncio.create_task(index.search("number7"))
        await until(held.called)
        searching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await searching
        assert not held.go_on.is_set()  # the thread is still at it
        monkeypatch.setattr(Index, "search", plain)
        assert (await index.search("number8")).ids == ("8",)
        held.go_on.set()

    run(path, scenario)


def test_a_search_that_takes_too_long_times_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held()
    monkeypatch.setattr(Index, "search", held)

    async def scenario(index: AsyncIndex) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await index.search("number7")
        held.go_on.set()

    run(path, scenario)


def test_an_add_that_is_cancelled_before_its_commit_adds_nothing(path: Path) -> None:
    held = Held()

    async def scenario(index: AsyncIndex) -> None:
        adding = asyncio.create_task(index.add(held.docs()))
        await until(held.called)
        adding.cancel()
        await asyncio.sleep(0)
        assert not adding.done()  # the caller goes on when the write has ended
        held.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert (index.generation, (await index.search("owl", fuzzy=False)).ids) == (1, ())
        assert await index.add([{"id": "owl", "text": "an owl"}]) == 1

    run(path, scenario)
    with open_index(path) as index:
        index.verify()
        assert (len(index), index.search("owl").ids) == (201, ("owl",))


def test_an_add_that_is_cancelled_during_its_commit_is_made_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(manifests.write)
    monkeypatch.setattr(manifests, "write", held)

    async def scenario(index: AsyncIndex) -> None:
        adding = asyncio.create_task(index.add([{"id": f"owl {at}", "text": "an owl"} for at in range(3)]))
        await until(held.called)
        adding.cancel()
        held.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert len((await index.search("owl")).ids) == 3

    run(path, scenario)
    with open_index(path) as index:
        index.verify()
        assert len(index) == 203


def test_a_write_that_is_cancelled_while_it_waits_for_another_is_not_begun(path: Path) -> None:
    held = Held()

    async def scenario(index: AsyncIndex) -> None:
        first = asyncio.create_task(index.add(held.docs()))
        await until(held.called)
        second = asyncio.create_task(index.delete(["7"]))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        held.go_on.set()
        assert await first == 2
        assert await index.get("7") is not None

    run(path, scenario)


def test_a_write_that_is_cancelled_while_it_waits_for_a_thread_is_not_begun(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches, docs = Held(), Held()
    monkeypatch.setattr(async_index, "cores", lambda: 1)
    monkeypatch.setattr(Index, "get", searches)

    async def scenario(index: AsyncIndex) -> None:
        reading = [asyncio.create_task(index.get("7")) for _ in range(async_index.LEAST_THREADS)]
        await until(searches.called)
        adding = asyncio.create_task(index.add(docs.docs()))
        await asyncio.sleep(0.01)
        adding.cancel()
        await asyncio.sleep(0.01)
        searches.go_on.set()
        await asyncio.gather(*reading)
        with pytest.raises(asyncio.CancelledError):
            await adding
        assert not docs.called.is_set()
        assert index.generation == 1

    run(path, scenario)


def test_whenever_adds_are_cancelled_each_is_there_whole_or_not_at_all(path: Path) -> None:
    async def scenario(index: AsyncIndex) -> None:
        for at in range(20):
            batch = [{"id": f"{at} {one}", "text": f"batch{at}"} for one in range(3_000)]
            adding = asyncio.create_task(index.add(batch))
            await asyncio.sleep(at / 100)
            adding.cancel()
            await asyncio.wait([adding])
            assert len((await index.search(f"batch{at}", k=5_000, fuzzy=False)).ids) in (0, 3_000)

    run(path, scenario)
    with open_index(path) as index:
        index.verify()


def test_the_end_of_the_block_waits_for_what_is_running_and_not_for_writes_that_wait(path: Path) -> None:
    held = Held()

    async def scenario() -> None:
        async with AsyncIndex.open(path) as index:
            first = asyncio.create_task(index.add(held.docs()))
            await until(held.called)
            second = asyncio.create_task(index.delete(["7"]))
            asyncio.get_running_loop().call_later(0.01, held.go_on.set)
        assert await first == 2
        with pytest.raises(InputError, match="not open"):
            await second

    asyncio.run(scenario())
    with open_index(path) as index:
        assert len(index) == 202
