"""The work of the server behind HTTP: it checks limits, searches, reads and writes documents, and follows commits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from denslice.errors import InputError, LockedError, MissingShardsError
from denslice.index.paging import Cursor
from denslice.queries import Query
from denslice.search.filter import Condition, Every, Filter, Not, Some, parse
from denslice.search.matches import text_analyzer
from denslice.search.typed_queries import MOST_OPERATORS
from denslice.serve.answering import Answer, BatchOptions, answers, document_json, similar_answer
from denslice.serve.api import (
    ExplainRequest,
    NewDocument,
    SearchedQuery,
    SearchRequest,
    SearchSettings,
    ServerInfo,
    SimilarQuery,
)
from denslice.serve.background import Background, in_thread
from denslice.serve.batching import Batcher
from denslice.serve.deepening_task import DeepeningTask
from denslice.serve.following import Follower
from denslice.serve.http_errors import HttpError, busy, timed_out
from denslice.serve.limits import Limits
from denslice.serve.metrics import Metrics
from denslice.serve.request_log import log_if_slow
from denslice.serve.searchable import Searchable
from denslice.serve.searched_again import explanation_json, matching_json
from denslice.serve.tracing import trace_search

READERS = 2  # threads that fetch documents
ReadResult = TypeVar("ReadResult")
LOCK_WAIT = 2.0  # seconds that a write waits for a writer in another process


class Service:
    """Serves an index or a cluster. It is started and stopped within a running event loop."""

    def __init__(
        self,
        searchable: Searchable,
        limits: Limits,
        metrics: Metrics,
        writable: bool = False,
        deepening: DeepeningTask | None = None,
        on_ready: Callable[[], None] = lambda: None,
        slow_ms: float | None = None,
    ) -> None:
        self._searchable, self._limits, self._metrics, self._writable = searchable, limits, metrics, writable
        self._deepening, self._warm, self._on_ready, self._slow_ms = deepening, False, on_ready, slow_ms
        self._background = Background(metrics)
        self._follower = Follower(searchable, self._refresh)
        self._show()
        if self._info.encoder == "vectors":
            raise InputError("this index holds ready vectors, but queries over HTTP are texts; search it from Python")
        self._reads, self._writes = asyncio.Semaphore(limits.max_waiting), asyncio.Semaphore(limits.max_writes)

    async def start(self) -> None:
        """Start the threads and background tasks. The service is ready once the warm-up search has succeeded."""
        self._readers = ThreadPoolExecutor(READERS, "denslice-read")
        self._writer = ThreadPoolExecutor(1, "denslice-write")
        self._batcher = Batcher(self._answers, self._limits, self._metrics)
        self._batcher.start(self._background)
        self._background.until_done("warm-up", self._warm_up)
        refresh = partial(in_thread, self._readers, self._refresh)
        self._background.every(self._limits.refresh_seconds, "refresh", refresh)
        if self._deepening:
            self._deepening.start(self._background)

    async def stop(self) -> None:
        """Stop the background tasks and wait for running requests."""
        if self._deepening:
            self._deepening.stop()
        await self._background.stop()
        await self._batcher.stop()
        pools = [self._readers, self._writer, *([self._deepening.pool] if self._deepening else [])]
        for pool in pools:
            await asyncio.get_running_loop().run_in_executor(None, pool.shutdown)

    def check_ready(self) -> None:
        """Raise HttpError during warm-up, and while a background task fails."""
        if failing := self._background.failing:
            raise HttpError(503, "failing", f"{failing}; see the log. The server tries again")
        if not self._warm:
            raise HttpError(503, "warming_up", "the server is warming up")

    # --- reading

    async def search(self, request: SearchRequest) -> dict[str, Any]:
        """Return a result for each query of a request, as the JSON of api.SearchResponse."""
        asked = request.asked()
        self._check_limits(request, asked)
        try:
            options = BatchOptions.of(request)
        except InputError as error:
            raise self._http_error(error) from error
        return await self.answer(asked, options)

    def settled(self, request: SearchRequest) -> BatchOptions:
        """Return the options of a request; raise HttpError or InputError if they are not allowed."""
        self._check_limits(request, request.asked())
        return BatchOptions.of(request)

    async def answer(self, asked: Sequence[str | Query], options: BatchOptions) -> dict[str, Any]:
        """Return a result for each query, whose limits have been checked, as the JSON of api.SearchResponse."""
        try:
            found, waited = await self._batcher.search(asked, options)
        except InputError as error:
            raise self._http_error(error) from error
        except MissingShardsError as error:
            raise HttpError(503, "incomplete", str(error)) from error
        first, pairs = found[0], zip(map(_text, asked), found, strict=True)
        took_ms = _milliseconds(first, waited)
        log_if_slow(self._slow_ms, asked, options, first, took_ms)
        trace_search(first.cost.seconds, waited, len(asked), first.batch)
        return {
            "results": [{"query": text, **one.page} for text, one in pairs],
            "generation": first.generation,
            "took_ms": took_ms,
            "batch": first.batch,
            "warnings": list(first.warnings),
        }

    async def document(self, id: str) -> dict[str, Any]:
        """Return the document with this id, as the JSON of api.Document."""
        return await self._read(partial(document_json, self._searchable, id))

    async def suggest(self, text: str, k: int) -> list[str]:
        """Return how a text that is being typed may go on."""
        return await self._read(partial(self._searchable.suggest, text, k))

    async def similar(self, id: str, request: SimilarQuery) -> dict[str, Any]:
        """Return the documents that are most like the one with this id, as the JSON of api.SimilarResponse."""
        self._check_limits(request, [""])
        try:
            options, limits = BatchOptions.of(request), self._limits
            work = partial(similar_answer, self._searchable, id, options, self._words, limits.max_text)
            found = await self._read(work)
        except InputError as error:
            raise self._http_error(error) from error
        return {"id": id, **found.page, "generation": found.generation, "warnings": list(found.warnings)}

    async def explain(self, request: ExplainRequest) -> dict[str, Any]:
        """Return why a document has its score, as the JSON of api.ExplainResponse."""
        return await self._about(request, partial(explanation_json, self._searchable, request))

    async def matching(self, request: SearchedQuery) -> dict[str, Any]:
        """Return how many documents match, as the JSON of api.MatchingResponse."""
        return await self._about(request, partial(matching_json, self._searchable, request))

    async def _about(self, request: SearchedQuery, work: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
        self._check_limits(request, request.asked())
        try:
            return await self._read(work)
        except InputError as error:
            raise self._http_error(error) from error

    async def _read(self, work: Callable[[], ReadResult | None]) -> ReadResult:
        """Return what a thread reads of a document; raise HttpError if the document is not there."""
        try:
            async with _acquirable(self._reads), asyncio.timeout(self._limits.timeout):
                found = await in_thread(self._readers, partial(self._follower.followed, work))
        except TimeoutError:
            raise timed_out(self._limits.timeout) from None
        except MissingShardsError as error:
            raise HttpError(503, "incomplete", str(error)) from error
        if found is None:
            raise HttpError(404, "no_document", "there is no document with this id")
        return found

    def info(self) -> ServerInfo:
        """Describe the index and the limits. Of the folder of a model, only the name is shown."""
        info = self._info
        shared = {name: value for name, value in info.to_dict().items() if name in ServerInfo.model_fields}
        limits = {name: most for name, most in asdict(self._limits).items() if name.startswith("max_")}
        own = {"encoder": Path(info.encoder).name, "lam": self._lam, "writable": self._writable, "limits": limits}
        return ServerInfo(**shared | own)

    # --- writing

    async def add(self, documents: Sequence[NewDocument], level: str) -> int:
        """Add documents in one commit and return how many."""
        given = [one.model_dump(exclude_unset=True) for one in documents]
        return await self._write(len(documents), partial(self._searchable.add, level=level), given)

    async def delete(self, ids: Sequence[str]) -> int:
        """Delete documents in one commit and return how many there were."""
        return await self._write(len(ids), self._searchable.delete, ids)

    @property
    def generation(self) -> int:
        """The number of the commit that is served."""
        return self._searchable.generation

    async def _write(self, count: int, change: Callable[..., int], given: Sequence[Any]) -> int:
        """Run one write at a time. A write has no timeout, because the client could not tell whether it was done."""
        if count > (most := self._limits.max_documents):
            raise HttpError(422, "too_many_documents", f"{count:,} documents in one request; at most {most:,}")
        async with _acquirable(self._writes):
            work = partial(self._changed, partial(change, given, wait=LOCK_WAIT))
            try:
                return await in_thread(self._writer, work)
            except LockedError as error:
                raise busy("another process is writing to the index; try again") from error
            except InputError as error:
                raise self._http_error(error) from error

    def _changed(self, change: Callable[[], int]) -> int:
        count = change()
        self._show()
        return count

    # --- limits

    def _check_limits(self, request: SearchSettings, asked: Sequence[str | Query]) -> None:
        """Raise HttpError if a search exceeds a limit."""
        limits, clauses = self._limits, [_clauses(one) for one in asked]
        longest = max(len(_text(one)) + sum(map(len, some)) for one, some in zip(asked, clauses, strict=True))
        hits = request.k * request.per_group
        explained = hits * len(asked) if request.explain else 0
        for code, found, most, what in (
            ("too_many_queries", len(asked), limits.max_queries, "queries in one request"),
            ("query_too_long", longest, limits.max_query_length, "characters in a query"),
            (
                "too_many_clauses",
                max(map(len, clauses)),
                MOST_OPERATORS,
                "words and phrases with conditions in a query",
            ),
            ("k_too_large", hits, limits.max_k, "for k, times per_group"),
            ("offset_too_large", _start(request), limits.max_offset, "for offset, or before a cursor"),
            ("candidates_too_large", request.candidates, limits.max_candidates, "for candidates"),
            ("too_many_explained", explained, limits.max_explained, "documents explained in one request"),
        ):
            if found > most:
                raise HttpError(422, code, f"{found:,} {what}; at most {most:,}")
        if request.where is not None:
            self._check_filter(request.where)

    def _check_filter(self, where: dict[str, Any]) -> None:
        try:
            conditions = _conditions(parse(where))
        except InputError as error:
            raise HttpError(422, "bad_filter", str(error)) from None
        if conditions > (most := self._limits.max_conditions):
            raise HttpError(422, "filter_too_large", f"{conditions:,} conditions in where; at most {most:,}")

    def _http_error(self, error: InputError) -> Exception:
        """Return a 422 with the message, or the error itself if it names the index folder: that is a server error."""
        paths = filter(None, self._info.path.split(os.pathsep))  # those of all indexes that are searched together
        return error if any(path in str(error) for path in paths) else HttpError(422, "invalid", str(error))

    # --- background tasks

    def _answers(self, texts: Sequence[str | Query], options: BatchOptions) -> list[Answer]:
        self._follower.follow()
        is_logged = self._slow_ms is not None
        return answers(self._searchable, texts, options, self._words, self._limits.max_text, is_logged)

    async def _warm_up(self) -> None:
        """Search for two texts together, which compiles and loads what searches need."""
        options = BatchOptions.of(SearchRequest.model_validate({"query": "", "k": 1, "explain": True}))
        await in_thread(self._readers, partial(self._answers, ["warm", "up"], options))
        self._warm = True
        self._on_ready()

    def _refresh(self) -> None:
        """Refresh to the newest commit. If that fails, searches continue with the current one."""
        self._searchable.refresh()
        if self._searchable.commit != self._shown:  # also true if `_show` failed the last time
            self._show()

    def _show(self) -> None:
        """Take over the description of the current commit, and load its encoder before a query needs it."""
        commit = self._searchable.commit
        self._info, self._lam = self._searchable.info(), self._searchable.lam
        self._metrics.shown(self._info.generation, self._info.documents, self._info.quick)
        self._words = text_analyzer(self._info.encoder_options, self._info.languages)
        self._shown = commit


def _text(asked: str | Query) -> str:
    return asked if isinstance(asked, str) else asked.text


def _clauses(asked: str | Query) -> list[str]:
    """Return the clauses of a query that was given as an object. Those of a text are limited by its parser."""
    if isinstance(asked, str):
        return []
    required = (clause for some in asked.required for clause in some)
    return [str(clause) for clause in (*required, *asked.excluded, *asked.optional)]


def _start(request: SearchSettings) -> int:
    """Return how many hits are skipped; raise HttpError if the cursor is not valid."""
    try:
        return request.offset if request.cursor is None else Cursor.read(request.cursor).offset
    except InputError as error:
        raise HttpError(422, "bad_cursor", str(error)) from None


def _acquirable(semaphore: asyncio.Semaphore) -> asyncio.Semaphore:
    """Return the semaphore, or raise HttpError if acquiring it would wait: the server is at its limit."""
    if semaphore.locked():
        raise busy("too many requests of this kind are waiting; try again")
    return semaphore


def _conditions(filter: Filter) -> int:
    match filter:
        case Every(parts) | Some(parts):
            return sum(map(_conditions, parts))
        case Not(part):
            return _conditions(part)
        case Condition(_, operator, operand):
            return max(1, len(operand)) if operator == "in" else 1


def _milliseconds(answer: Answer, waited: float) -> dict[str, float]:
    stages = {"queue": waited, **answer.cost.seconds}
    stages["total"] = sum(stages.values())
    return {name: round(1000 * seconds, 3) for name, seconds in stages.items()}
