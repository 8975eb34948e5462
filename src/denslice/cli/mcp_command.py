"""`denslice mcp` opens an index and gives agents tools for it, over stdio or HTTP."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from denslice.agents.token_budget import FEWEST_TOKENS, MOST_TOKENS, USUAL_TOKENS
from denslice.cli.arguments import IndexFolder, flags, open_folder
from denslice.errors import InputError, MissingExtraError
from denslice.options import OpenOptions

if TYPE_CHECKING:
    from denslice.agents.agent_server import AgentServer
    from denslice.serve.limits import Access

LOOPBACK = "127.0.0.1"


@flags(OpenOptions)
def mcp(
    folder: IndexFolder,
    port: Annotated[
        int | None, typer.Option(help="Serve HTTP on this port; 0 takes a free one. Default: stdin and stdout.")
    ] = None,
    host: Annotated[str, typer.Option(help="With --port: address to listen on.")] = LOOPBACK,
    api_key: Annotated[
        str | None, typer.Option(envvar="DENSLICE_API_KEY", help="With --port: key that every request needs.")
    ] = None,
    open: Annotated[bool, typer.Option("--open", help="With --port: allow reading without the key.")] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="With --port: host name that a proxy sends; can be repeated."),
    ] = None,
    writable: Annotated[
        bool, typer.Option("--writable", help="Add the tools `add` and `sync`, which change the index.")
    ] = False,
    tokens: Annotated[int, typer.Option(help="Tokens of an answer at most, estimated.")] = USUAL_TOKENS,
    **options: Any,
) -> None:
    """Give agents tools to search and read an index, over the Model Context Protocol."""
    try:
        from denslice.agents.agent_server import make_agent_server
        from denslice.serve.limits import Access
    except ModuleNotFoundError as error:
        raise MissingExtraError("the MCP server", "mcp") from error
    if not FEWEST_TOKENS <= tokens <= MOST_TOKENS:
        raise InputError(f"--tokens is {tokens}, expected a number from {FEWEST_TOKENS} to {MOST_TOKENS}")
    if port is None and (host != LOOPBACK or open or allow_host):
        raise InputError("--host, --open and --allow-host are for HTTP; give --port too")
    if open and writable:
        raise InputError("--open lets every client call every tool; leave out --open or --writable")
    access = Access() if port is None else Access(host, api_key, open, writable, tuple(allow_host or ()))
    with open_folder(folder.resolve(), options) as index:
        server = make_agent_server(index, tokens, writable)
        if port is None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's handler would wait for the thread that reads stdin
            server.run("stdio")
        else:
            _serve(server, access, port, f"{folder} ({len(index):,} documents)")


def _serve(server: AgentServer, access: Access, port: int, served: str) -> None:
    """Answer over HTTP until the process is told to stop."""
    from denslice.agents.agent_http import PATH, make_agent_app
    from denslice.cli.listening import address, listening
    from denslice.serve.http_server import make_server
    from denslice.serve.limits import Limits

    limits = Limits()
    with listening(access.host, port) as listener:
        running = make_server(make_agent_app(server, limits, access), limits)
        typer.echo(f"{served} for agents on {address(access.host, listener)}{PATH}")
        running.run([listener])
