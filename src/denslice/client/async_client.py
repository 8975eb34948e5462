"""AsyncClient: a Client whose methods are awaited.

asyncio is imported where it is used: `import denslice` must not wait for it in programs without an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, Unpack

from denslice.client.api_calls import ApiCall, Result, document_call, findable, info_call, places_call, suggest_call
from denslice.client.document_requests import WriteTally, add_calls, delete_calls
from denslice.client.questions import Question, batch_questions, batch_search, in_parts
from denslice.client.served_info import ServedInfo
from denslice.client.served_rankings import ServedSearch, explanation, rankings_of, shortened_ids
from denslice.client.server_replies import ServerAddress
from denslice.errors import InputError, MissingExtraError
from denslice.options import SearchKeywords, SearchOptions, takes
from denslice.queries import Query
from denslice.rankings import Explanation, Ranking
from denslice.records import Doc, GivenDocs, Place, Progress, checked_id, given_id
from denslice.store.manifest import FULL

if TYPE_CHECKING:
    from denslice.client.http_connections import AsyncConnections

AT_ONE_TIME = 8  # documents that are fetched whole


class AsyncClient:
    """A Client for programs with an event loop: `async with AsyncClient(url) as client`.

    Methods take the arguments of Client and raise its errors. Hits have their whole texts when a search returns.
    Marks, counts and explanations of a ranking ask the server, and are an error in the thread of the event loop: await
    `client.explain(hits, id)`, or look at them in `asyncio.to_thread`.
    """

    def __init__(self, url: str, api_key: str | None = None, *, timeout: float = 30.0, retries: int = 3) -> None:
        self._server = ServerAddress(url, api_key, timeout, retries)
        self._connections = _connected(self._server)
        self._described: ServedInfo | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. A second call has no effect."""
        await self._connections.close()

    def __repr__(self) -> str:
        return f"<AsyncClient {self._server.url!r}>"

    # --- reading

    async def generation(self) -> int:
        """Return the number of the commit that the server shows."""
        return (await self.info()).generation

    @takes(SearchOptions)
    async def search(self, text: str | Query, k: int = 10, **options: Unpack[SearchKeywords]) -> Ranking:
        """Return the k best documents for a text or a Query, with their texts: see `Client.search`."""
        question = Question(text, SearchOptions(k, **options))
        return (await self._found([question], question.search))[0]

    @takes(SearchOptions)
    async def search_batch(
        self, texts: Sequence[str | Query], k: int = 10, **options: Unpack[SearchKeywords]
    ) -> list[Ranking]:
        """Return the k best documents for each text, with their texts: see `Client.search_batch`."""
        questions = batch_questions(texts, SearchOptions(k, **options))
        most = (await self._limits()).most("max_queries") if len(questions) > 1 else 1
        found = [await self._found(some, _batch(some)) for some in in_parts(questions, most)]
        return list(chain.from_iterable(found))

    @takes(SearchOptions)
    async def similar(self, id: str | int, k: int = 10, **options: Unpack[SearchKeywords]) -> Ranking:
        """Return the k documents that are most like the one with this id: see `Client.similar`."""
        question = Question(None, SearchOptions(k, **options), like=checked_id(id))
        return (await self._found([question], question.search))[0]

    async def explain(
        self,
        asked: str | Query | Ranking,
        id: str | int,
        *,
        passage: int | None = None,
        lam: float | None = None,
        mode: str | None = None,
    ) -> Explanation:
        """Explain the score of a document or of one of its passages: see `Client.explain`."""
        if not isinstance(asked, Ranking):
            question = Question(asked, SearchOptions(mode=mode, lam=lam))
            return await self._send(question.explain(checked_id(id), passage, explanation))
        if isinstance(asked.asked, ServedSearch):
            return await self._send(asked.asked.explain_call(given_id(id), passage))
        return asked.explain(id, passage)

    async def suggest(self, text: str, k: int = 10) -> list[str]:
        """Return how a text that is being typed may go on: with its last word completed by frequent words."""
        return await self._send(suggest_call(text, k))

    async def get(self, id: str | int) -> Doc | None:
        """Return the document with this id, or None."""
        known = findable(id)
        return None if known is None else await self._send(document_call(known))

    async def places(self, id: str | int) -> list[Place] | None:
        """Return where the passages of the document with this id are, in order, or None if it is not there."""
        known = findable(id)
        return None if known is None else await self._send(places_call(known))

    async def info(self) -> ServedInfo:
        """Return what the server tells of its index, and its limits."""
        self._described = await self._send(info_call())
        return self._described

    async def _found(self, questions: Sequence[Question], call: Callable[[Reading], ApiCall[Found]]) -> list[Ranking]:
        """Return the rankings of a search, whose hits have their whole texts."""
        wholes: dict[str, Doc | None] = {}

        def read(answer: Any) -> Found:
            rankings = rankings_of(answer, questions, self._send_in_thread, wholes.get)
            return rankings, shortened_ids(answer, questions[0].options.group)

        rankings, shortened = await self._send(call(read))
        wholes.update(await self._whole(shortened))
        for ranking in rankings:
            _ = ranking[:1]  # makes the hits, which checks that the documents have not changed meanwhile
        return rankings

    async def _whole(self, ids: Sequence[str]) -> dict[str, Doc | None]:
        """Return the documents with these ids, a few of which are fetched at the same time."""
        from asyncio import Semaphore, gather

        free = Semaphore(AT_ONE_TIME)

        async def fetched(id: str) -> Doc | None:
            async with free:
                return await self._send(document_call(id))

        return dict(zip(ids, await gather(*map(fetched, ids)), strict=True))

    # --- writing

    async def add(self, docs: GivenDocs, *, level: str = FULL, progress: Progress | None = None) -> int:
        """Add documents and return how many were added: see `Client.add`. A thread reads the documents.

        If the call is cancelled, requests that were answered stay added, and the one under way may be.
        """
        return await self._written(add_calls(docs, level, await self._limits()), WriteTally(progress))

    async def delete(self, ids: Iterable[str]) -> int:
        """Delete the documents with these ids and return how many were found: see `Client.delete`."""
        return await self._written(delete_calls(ids, await self._limits()), WriteTally())

    async def _written(self, calls: Iterator[ApiCall[int]], tally: WriteTally) -> int:
        from asyncio import to_thread

        with tally:
            while call := await to_thread(next, calls, None):
                tally.add(await self._send(call))
        return tally.documents

    # --- the server

    async def _limits(self) -> ServedInfo:
        """Return the limits of the server, which are asked for once."""
        return self._described or await self.info()

    async def _send(self, call: ApiCall[Result]) -> Result:
        try:
            return await self._connections.send(call)
        except InputError:
            self._described = None  # a server that was started again may have other limits
            raise

    def _send_in_thread(self, call: ApiCall[Result]) -> Result:
        """Send a request of a ranking from a thread without an event loop, over a connection of its own."""
        from denslice.client.http_connections import Connections, is_event_loop

        if is_event_loop():
            advice = "await client.explain(hits, id), or look at the ranking in asyncio.to_thread"
            raise InputError(f"this asks the server, and the event loop would wait for it; {advice}")
        connections = Connections(self._server)
        try:
            return connections.send(call)
        finally:
            connections.close()


Found = tuple[list[Ranking], list[str]]  # rankings, and the ids of hits of which the server sent only a part
Reading = Callable[[Any], Found]


def _batch(questions: Sequence[Question]) -> Callable[[Reading], ApiCall[Found]]:
    return lambda read: batch_search(questions, read)


def _connected(server: ServerAddress) -> AsyncConnections:
    """Return connections to a server; raise MissingExtraError if httpx is not installed."""
    try:
        from denslice.client.http_connections import AsyncConnections
    except ModuleNotFoundError as error:
        raise MissingExtraError("a client", "client") from error
    return AsyncConnections(server)
