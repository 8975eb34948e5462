"""The server's work, apart from HTTP: limits kept, queries answered, documents read and written, commits followed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from denslice.errors import InputError, LockedError, MissingShardsError
from denslice.records import Doc
from denslice.search.filter import Condition, Every, Filter, Not, Some, parse
from denslice.search.matches import text_analyzer
from denslice.serve.answering import Answer, How, answers
from denslice.serve.api import About, NewDocument, SearchRequest
from denslice.serve.background import Background, in_thread
from denslice.serve.batching import Batcher
from denslice.serve.http_errors import Refusal, busy
from denslice.serve.limits import Limits
from denslice.serve.metrics import Metrics
from denslice.serve.searchable import Searchable
from denslice.serve.semaphore import Turns

READERS = 2  # threads that fetch documents
LOCK_WAIT = 2.0  # seconds a write waits for another process that writes
Value = TypeVar("Value")


class Service:
    """One searchable thing, served. Started and stopped within a running event loop."""

    def __init__(self, searchable: Searchable, limits: Limits, metrics: Metrics, writable: bool = False) -> None:
        self._searchable, self._limits, self._metrics, self._writable = searchable, limits, metrics, writable
        self._warm = False
        self._background = Background(metrics)
        self._show()
        if self._info.encoder == "vectors":
            raise InputError("this index holds ready vectors, and a server is asked with texts: search it from Python")
        self._reads, self._writes = Turns(limits.max_waiting), Turns(limits.max_writes)

    async def start(self) -> None:
        """Begins to answer; ready once a first search has gone through."""
        self._readers = ThreadPoolExecutor(READERS, "denslice-read")
        self._writer = ThreadPoolExecutor(1, "denslice-write")
        self._batcher = Batcher(self._answers, self._limits, self._metrics)
        self._batcher.start(self._background)
        self._background.until_done("the first search", self._warm_up)
        self._background.every(self._limits.refresh_seconds, "the look for new commits", self._follow)

    async def stop(self) -> None:
        """Ends, when what is under way is done."""
        await self._background.stop()
        await self._batcher.stop()
        for pool in (self._readers, self._writer):
            await asyncio.get_running_loop().run_in_executor(None, pool.shutdown)

    def check_ready(self) -> None:
        """Refuses, with the reason, while the first search has not gone through or a task of the server's own fails."""
        if trouble := self._background.trouble:
            raise Refusal(503, "failing", f"{trouble}; the log says why, and it is tried again")
        if not self._warm:
            raise Refusal(503, "warming_up", "the first search is still being prepared")

    # --- reading

    async def search(self, asked: SearchRequest) -> dict[str, Any]:
        """A result for each query of a request, as models.SearchResponse describes it."""
        texts = asked.texts()
        self._check(asked, texts)
        try:
            found, waited = await self._batcher.search(texts, How.of(asked))
        except InputError as error:
            raise self._refusal(error) from error
        except MissingShardsError as error:
            raise Refusal(503, "incomplete", str(error)) from error
        first, pairs = found[0], zip(texts, found, strict=True)
        return {
            "results": [{"query": text, "hits": one.hits, "missing": list(one.missing)} for text, one in pairs],
            "generation": first.generation,
            "took_ms": _milliseconds(first, waited),
            "batch": first.batch,
            "warnings": list(first.warnings),
        }

    async def document(self, id: str) -> Doc:
        """The document with this id."""
        with self._reads.one():
            doc = await self._within_time(self._readers, partial(self._searchable.get, id))
        if doc is None:
            raise Refusal(404, "no_document", "there is no document with this id")
        return doc

    def about(self) -> About:
        """What is served; of a model's folder only its name."""
        info = self._info
        return About(
            documents=info.documents,
            generation=info.generation,
            encoder=Path(info.encoder).name,
            slicing=info.slicing,
            slices=info.slices,
            dimensions=info.dimensions,
            filterable=list(info.filterable),
            lam=self._lam,
            writable=self._writable,
            limits={name: most for name, most in asdict(self._limits).items() if name.startswith("max_")},
        )

    # --- writing

    async def add(self, documents: Sequence[NewDocument]) -> int:
        """Adds documents in one commit; how many."""
        given = [one.model_dump(exclude_unset=True) for one in documents]
        return await self._write(len(documents), self._searchable.add, given)

    async def delete(self, ids: Sequence[str]) -> int:
        """Deletes documents in one commit; how many there were."""
        return await self._write(len(ids), self._searchable.delete, ids)

    @property
    def generation(self) -> int:
        """The commit that is shown."""
        return self._searchable.generation

    async def _write(self, count: int, change: Callable[..., int], given: Sequence[Any]) -> int:
        """One write after the other. A write that has begun is waited for, as nobody could tell whether it was done."""
        if count > self._limits.max_documents:
            most = self._limits.max_documents
            raise Refusal(422, "too_many_documents", f"{count:,} documents in one request; at most {most:,}")
        with self._writes.one():
            work = partial(self._changed, partial(change, given, wait=LOCK_WAIT))
            try:
                return await in_thread(self._writer, work)
            except LockedError as error:
                raise busy("another process is writing to the index") from error
            except InputError as error:
                raise self._refusal(error) from error

    def _changed(self, change: Callable[[], int]) -> int:
        done = change()
        self._show()
        return done

    # --- limits

    def _check(self, asked: SearchRequest, texts: Sequence[str]) -> None:
        """Refuses a search that asks for more than the limits allow."""
        limits, longest = self._limits, max(map(len, texts))
        explained = asked.k * len(texts) if asked.explain else 0
        for code, found, most, what in (
            ("too_many_queries", len(texts), limits.max_queries, "queries in one request"),
            ("query_too_long", longest, limits.max_query_length, "characters in a query"),
            ("k_too_large", asked.k, limits.max_k, "for k"),
            ("candidates_too_large", asked.candidates, limits.max_candidates, "for candidates"),
            ("too_many_explained", explained, limits.max_explained, "documents explained in one request"),
        ):
            if found > most:
                raise Refusal(422, code, f"{found:,} {what}; at most {most:,}")
        if asked.where is not None:
            self._check_filter(asked.where)

    def _check_filter(self, where: dict[str, Any]) -> None:
        try:
            conditions = _conditions(parse(where))
        except InputError as error:
            raise Refusal(422, "bad_filter", str(error)) from None
        if conditions > self._limits.max_conditions:
            most = self._limits.max_conditions
            raise Refusal(422, "filter_too_large", f"{conditions:,} conditions in where; at most {most:,}")

    async def _within_time(self, pool: ThreadPoolExecutor, work: Callable[[], Value]) -> Value:
        try:
            async with asyncio.timeout(self._limits.timeout):
                return await in_thread(pool, work)
        except TimeoutError:
            raise Refusal(503, "timeout", f"not answered within {self._limits.timeout:g} s") from None
        except MissingShardsError as error:
            raise Refusal(503, "incomplete", str(error)) from error

    def _refusal(self, error: InputError) -> Exception:
        """What the caller hears: the reason, unless it is of the server's own files, which is the server's fault."""
        path = self._info.path
        return error if path and path in str(error) else Refusal(422, "invalid", str(error))

    # --- keeping up

    def _answers(self, texts: Sequence[str], how: How) -> list[Answer]:
        return answers(self._searchable, texts, how, self._words, self._limits.max_text)

    async def _warm_up(self) -> None:
        """Compiles or loads what the first searches need."""
        how = How.of(SearchRequest.model_validate({"query": "", "k": 1, "explain": True}))
        await in_thread(self._readers, partial(self._answers, ["warm", "up"], how))
        self._warm = True

    async def _follow(self) -> None:
        """Moves on to the newest commit; where that fails, searches go on with the one that is shown."""
        await in_thread(self._readers, self._refresh)

    def _refresh(self) -> None:
        self._searchable.refresh()
        if self._searchable.commit != self._shown:  # also where showing it failed the last time
            self._show()

    def _show(self) -> None:
        """Notes which commit is shown, and has its encoder loaded before a query waits for it."""
        commit = self._searchable.commit
        self._info, self._lam = self._searchable.info(), self._searchable.lam
        self._metrics.shown(self._info.generation, self._info.documents)
        self._words = text_analyzer(self._info.encoder_options)
        self._shown = commit


def _conditions(filter: Filter) -> int:
    match filter:
        case Every(parts) | Some(parts):
            return sum(map(_conditions, parts))
        case Not(part):
            return _conditions(part)
        case Condition(_, operator, operand):
            return max(1, len(operand)) if operator == "in" else 1


def _milliseconds(answer: Answer, waited: float) -> dict[str, float]:
    stages = {"queue": waited, **answer.seconds}
    stages["total"] = sum(stages.values())
    return {name: round(1000 * seconds, 3) for name, seconds in stages.items()}
