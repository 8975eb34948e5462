"""Client: the methods of an Index, for an index that a server on this or another machine has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, Unpack

from denslice.client.api_calls import ApiCall, Result, document_call, findable, info_call, places_call, suggest_call
from denslice.client.document_requests import WriteTally, add_calls, delete_calls
from denslice.client.questions import Question, batch_questions, batch_search, in_parts
from denslice.client.served_info import ServedInfo
from denslice.client.served_rankings import explanation, rankings_of
from denslice.client.server_replies import ServerAddress
from denslice.errors import InputError, MissingExtraError
from denslice.options import SearchKeywords, SearchOptions, takes
from denslice.queries import Query
from denslice.rankings import Explanation, Ranking
from denslice.records import Doc, GivenDocs, Place, Progress, checked_id
from denslice.store.manifest import FULL

if TYPE_CHECKING:
    from denslice.client.http_connections import Connections


class Client:
    """An index that `denslice serve` has, with the methods, the options, the results and the errors of Index.

    Any number of threads may use one Client; connections are kept and used again. `timeout` is how many seconds a
    server may be silent before UnavailableError is raised; a write has ten minutes. A request that fails because a
    connection breaks or the server is busy is sent again, `retries` times at most, after growing pauses and not before
    the time in `Retry-After`. `close`, or the end of a `with` block, closes the connections.
    """

    def __init__(self, url: str, api_key: str | None = None, *, timeout: float = 30.0, retries: int = 3) -> None:
        self._server = ServerAddress(url, api_key, timeout, retries)
        self._connections = _connected(self._server)
        self._described: ServedInfo | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. A second call has no effect."""
        self._connections.close()

    def __repr__(self) -> str:
        return f"<Client {self._server.url!r}>"

    # --- reading

    @property
    def generation(self) -> int:
        """The number of the commit that the server shows. Each access asks the server."""
        return self.info().generation

    @takes(SearchOptions)
    def search(self, text: str | Query, k: int = 10, **options: Unpack[SearchKeywords]) -> Ranking:
        """Return the k best documents for a text or a Query: see `Index.search`.

        A text that is longer than the server sends is fetched whole with the first look at a hit. Explanations, marks
        and counts are asked for when they are looked at, and are an error if the index has changed since.
        """
        question = Question(text, SearchOptions(k, **options))
        return self._send(question.search(self._reading([question])))[0]

    @takes(SearchOptions)
    def search_batch(
        self, texts: Sequence[str | Query], k: int = 10, **options: Unpack[SearchKeywords]
    ) -> list[Ranking]:
        """Return the k best documents for each text: see `Index.search_batch`.

        Many texts are sent in several requests, between which the index may change.
        """
        questions = batch_questions(texts, SearchOptions(k, **options))
        most = self._limits().most("max_queries") if len(questions) > 1 else 1
        found = [self._send(batch_search(some, self._reading(some))) for some in in_parts(questions, most)]
        return list(chain.from_iterable(found))

    @takes(SearchOptions)
    def similar(self, id: str | int, k: int = 10, **options: Unpack[SearchKeywords]) -> Ranking:
        """Return the k documents that are most like the one with this id: see `Index.similar`."""
        question = Question(None, SearchOptions(k, **options), like=checked_id(id))
        return self._send(question.search(self._reading([question])))[0]

    def explain(
        self,
        asked: str | Query | Ranking,
        id: str | int,
        *,
        passage: int | None = None,
        lam: float | None = None,
        mode: str | None = None,
    ) -> Explanation:
        """Explain the score of a document or of one of its passages: see `Index.explain`."""
        if isinstance(asked, Ranking):
            return asked.explain(id, passage)
        question = Question(asked, SearchOptions(mode=mode, lam=lam))
        return self._send(question.explain(checked_id(id), passage, explanation))

    def suggest(self, text: str, k: int = 10) -> list[str]:
        """Return how a text that is being typed may go on: with its last word completed by frequent words."""
        return self._send(suggest_call(text, k))

    def get(self, id: str | int) -> Doc | None:
        """Return the document with this id, or None."""
        known = findable(id)
        return None if known is None else self._send(document_call(known))

    def places(self, id: str | int) -> list[Place] | None:
        """Return where the passages of the document with this id are, in order, or None if it is not there."""
        known = findable(id)
        return None if known is None else self._send(places_call(known))

    def info(self) -> ServedInfo:
        """Return what the server tells of its index, and its limits."""
        self._described = self._send(info_call())
        return self._described

    def _reading(self, questions: Sequence[Question]) -> Callable[[Any], list[Ranking]]:
        """Return what reads the answer to these questions."""
        return partial(rankings_of, questions=questions, send=self._send, fetch=self.get)

    # --- writing

    def add(self, docs: GivenDocs, *, level: str = FULL, progress: Progress | None = None) -> int:
        """Add documents and return how many were added: see `Index.add`. The server must be writable.

        Documents are read and sent in requests of at most 4 MB, each of which is one commit; `progress` is called after
        each. If one fails, those before it stay added, and PartialWriteError tells how many documents they had; if the
        first fails, nothing was added, and its own error is raised. An id that is given twice is an error within a
        request; otherwise the later document replaces the earlier one.
        """
        return self._written(add_calls(docs, level, self._limits()), WriteTally(progress))

    def delete(self, ids: Iterable[str]) -> int:
        """Delete the documents with these ids and return how many were found. Many ids are sent in several requests.

        If a request had to be sent again, documents that the first attempt deleted may not be counted.
        """
        return self._written(delete_calls(ids, self._limits()), WriteTally())

    def _written(self, calls: Iterator[ApiCall[int]], tally: WriteTally) -> int:
        with tally:
            for call in calls:
                tally.add(self._send(call))
        return tally.documents

    # --- the server

    def _limits(self) -> ServedInfo:
        """Return the limits of the server, which are asked for once."""
        return self._described or self.info()

    def _send(self, call: ApiCall[Result]) -> Result:
        try:
            return self._connections.send(call)
        except InputError:
            self._described = None  # a server that was started again may have other limits
            raise


def _connected(server: ServerAddress) -> Connections:
    """Return connections to a server; raise MissingExtraError if httpx is not installed."""
    try:
        from denslice.client.http_connections import Connections
    except ModuleNotFoundError as error:
        raise MissingExtraError("a client", "client") from error
    return Connections(server)
