"""The front doors of one collection, for tests that run against each: an index, a cluster, servers and clients."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import denslice as ds
from denslice.cluster import ray_engine
from denslice.cluster.cluster_build import Workers, build_cluster
from denslice.serve.limits import Access
from serving import KEY, live
from three_nodes import STORE, Unseen

DOORS = ("index", "async index", "client", "async client", "cluster", "client of a cluster")
OVER_HTTP = ("client", "async client", "client of a cluster")
SHARDS = 2
Door = Any  # an Index, a Client or a Cluster, or one of the asynchronous ones behind `Awaited`


class Awaited:
    """An asynchronous index or client whose methods return when they are done: a thread runs its event loop."""

    def __init__(self, opens: Callable[[], Any]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()
        self._inner = self._done(opens().__aenter__())

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name == "generation":
            return self._done(found()) if callable(found) else found
        if name == "index" or not inspect.iscoroutinefunction(found):
            return found
        return lambda *given, **named: self._done(found(*given, **named))

    def close(self) -> None:
        """Close what is awaited, and end the thread."""
        self._done(self._inner.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _done(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class FrontDoors:
    """Doors to a collection, each opened on first use and to a copy of its own; a cluster and its client share one."""

    def __init__(self, folder: Path, docs: Sequence[Mapping[str, Any]], filterable: Sequence[str]) -> None:
        self.folder, self.docs, self.filterable = folder, docs, filterable
        self._opened: dict[str, Door] = {}
        self._open = ExitStack()

    def __getitem__(self, name: str) -> Door:
        """Return a door, which stays open."""
        if name not in self._opened:
            self._opened[name] = self._made(name)
        return self._opened[name]

    def close(self) -> None:
        """Close all of them."""
        self._open.close()

    def _made(self, name: str) -> Door:
        match name:
            case "index":
                return self._open.enter_context(self._index(name))
            case "async index":
                self._index(name).close()
                return self._awaited(lambda: ds.AsyncIndex.open(self.folder / name))
            case "client":
                return self._open.enter_context(ds.Client(self._served(self._index(name)), KEY))
            case "async client":
                address = self._served(self._index(name))
                return self._awaited(lambda: ds.AsyncClient(address, KEY))
            case "cluster":
                return self._cluster(name)
            case _:
                return self._open.enter_context(ds.Client(self._served(self["cluster"]), KEY))

    def _index(self, name: str) -> ds.Index:
        index = ds.Index.create(self.folder / name, "bm25", filterable=self.filterable)
        index.add(self.docs)
        return index

    def _cluster(self, name: str) -> Door:
        if not ray_engine.load().is_initialized():
            self._open.enter_context(one_node())
        texts = self.folder / f"{name}.jsonl"
        texts.write_text("".join(json.dumps(doc) + "\n" for doc in self.docs), encoding="utf-8")
        chosen: Any = {"encoder": "bm25", "filterable": list(self.filterable)}
        build_cluster([str(texts)], self.folder / name, chosen, SHARDS, Unseen(), Workers(cpus=0.5))
        return self._open.enter_context(ds.open_cluster(self.folder / name, cpus=0.1))

    def _served(self, searchable: Any) -> str:
        access = Access(api_key=KEY, writable=True)
        return self._open.enter_context(live(searchable, access=access)).address

    def _awaited(self, opens: Callable[[], Any]) -> Awaited:
        awaited = Awaited(opens)
        self._open.callback(awaited.close)
        return awaited


@contextmanager
def one_node() -> Iterator[None]:
    """Ray on this machine for the block, small and quiet."""
    ray = ray_engine.load()
    settings = {"num_cpus": 2, "object_store_memory": STORE, "include_dashboard": False}
    ray.init("local", log_to_driver=False, logging_level=logging.ERROR, **settings)
    try:
        yield
    finally:
        ray_engine.leave()
