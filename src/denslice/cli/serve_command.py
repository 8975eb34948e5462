"""`denslice serve` opens an index or a cluster, and answers searches over HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from denslice.cli.arguments import IndexFolders, flags, parsed
from denslice.cli.listening import address, listening
from denslice.cluster.cluster import Cluster, open_cluster
from denslice.cluster.cluster_folder import is_cluster
from denslice.errors import InputError, MissingExtraError
from denslice.index.index import Index
from denslice.index.indexes import Indexes, open_indexes
from denslice.options import OpenOptions
from denslice.serve.limits import Access, Limits

if TYPE_CHECKING:
    from denslice.serve.deepening_task import DeepeningTask


@flags(OpenOptions)
def serve(
    folders: IndexFolders,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    api_key: Annotated[
        str | None, typer.Option(envvar="DENSLICE_API_KEY", help="Key that is required to read and write.")
    ] = None,
    open: Annotated[bool, typer.Option("--open", help="Allow reading without the key.")] = False,
    writable: Annotated[
        bool, typer.Option("--writable", help="Allow adding and deleting documents with the key.")
    ] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Host name that a proxy sends; can be repeated.")
    ] = None,
    limit: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A limit, such as max_k=100; can be repeated.")
    ] = None,
    workers: Annotated[
        int, typer.Option(metavar="N", help="Number of processes that answer. Each has its share of the cores.")
    ] = 1,
    access_log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append a line of JSON for each request to this file.")
    ] = None,
    slow_ms: Annotated[
        float | None, typer.Option(metavar="MS", help="Log searches that take this many milliseconds or more.")
    ] = None,
    deepen: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Encode documents of the quick level fully meanwhile, with this share of a core."
        ),
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Serve a cluster of shards on Ray: host:port, auto or local.")
    ] = None,
    replicas: Annotated[int, typer.Option(help="With --ray: replicas of each shard.")] = 1,
    complete: Annotated[
        bool, typer.Option("--complete", help="With --ray: return an error if a shard does not answer.")
    ] = False,
    **options: Any,
) -> None:
    """Answer searches over HTTP, with a web page that explains each result."""
    try:
        from denslice.serve.http_app import make_app
        from denslice.serve.http_server import make_server, spare_collector
        from denslice.serve.request_log import LogOptions
        from denslice.serve.worker import WorkerSettings
        from denslice.serve.workers import serve_with_workers
    except ModuleNotFoundError as error:
        raise MissingExtraError("the server", "serve") from error
    if workers < 1 or (workers > 1 and ray is not None):
        raise InputError(f"--workers {workers}: expected 1 or more, and with --ray 1; --replicas is for clusters")
    access = Access(host, api_key, open, writable, tuple(allow_host or ()))
    limits, on = _limits(limit or ()), OpenOptions(**parsed(options))
    logs = LogOptions(access_log and access_log.resolve(), slow_ms)
    with (
        _opened(folders, on, ray, replicas, complete, access) as index,
        listening(host, port) as listener,
    ):
        app = make_app(index, limits, access, _deepening(index, deepen), spare_collector, logs)
        typer.echo(f"{', '.join(map(str, folders))} ({len(index):,} documents) on {address(host, listener)}")
        if workers == 1:
            return make_server(app, limits).run([listener])
        index.close()  # each worker opens it
        places = tuple(folder.resolve() for folder in folders)
        return serve_with_workers(WorkerSettings(places, on, limits, access, workers, deepen, logs), listener)


def _deepening(index: Index | Indexes | Cluster, share: float | None) -> DeepeningTask | None:
    """Return the task that deepens the index, if it is asked for."""
    if share is None:
        return None
    if not 0 < share <= 1:
        raise InputError(f"--deepen is a share of one core's time, above 0 and at most 1, not {share:g}")
    if isinstance(index, Cluster):
        raise InputError("--deepen: a cluster has no documents of the quick level")
    if isinstance(index, Indexes):
        raise InputError("--deepen: several indexes are read-only; run `denslice deepen` on each of them")
    from denslice.serve.deepening_task import DeepeningTask

    return DeepeningTask(index, share)


@contextmanager
def _opened(
    folders: Sequence[Path], on: OpenOptions, ray: str | None, replicas: int, complete: bool, access: Access
) -> Iterator[Index | Indexes | Cluster]:
    """Open the index in a folder, several indexes, or the cluster if Ray has an address."""
    folder = folders[0].resolve()
    if len(folders) > 1:
        if ray is not None or access.writable:
            flag = "--writable" if access.writable else "--ray"
            raise InputError(f"{flag}: several indexes are only read, without Ray; serve one alone")
        with open_indexes(folders, **vars(on)) as indexes:
            yield indexes
    elif ray is not None:
        with open_cluster(folder, ray, replicas=replicas, complete=complete, **vars(on)) as cluster:
            yield cluster
    elif is_cluster(folder):
        raise InputError(f"{folder}: is a cluster of shards; say where Ray runs with --ray ADDRESS or --ray local")
    else:
        yield Index.open(folder, **vars(on))


def _limits(given: Sequence[str]) -> Limits:
    """Return the limits, some of them set by NAME=VALUE."""
    types = {field.name: type(getattr(Limits(), field.name)) for field in fields(Limits)}
    chosen = {}
    for one in given:
        name, _, value = one.partition("=")
        if name not in types:
            raise InputError(f"--limit {one}: there is no limit {name!r}; known limits are {', '.join(types)}")
        try:
            chosen[name] = types[name](value)
        except ValueError:
            raise InputError(f"--limit {one}: {value!r} is not a number") from None
    return Limits(**chosen)
