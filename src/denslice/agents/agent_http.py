"""The MCP server over streamable HTTP, with the key, the host check and the limits of `denslice serve`."""

from __future__ import annotations

from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from denslice.agents.agent_server import AgentServer
from denslice.serve.limits import Access, Limits
from denslice.serve.metrics import Metrics
from denslice.serve.middleware import GuardMiddleware

PATH = "/mcp"


def make_agent_app(server: AgentServer, limits: Limits, access: Access) -> ASGIApp:
    """Return the app that answers agents. It keeps no sessions, so a client goes on after a restart."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=limits.max_write_body,
        transport_security=_origins(access),
    )
    return GuardMiddleware(_only_calls(app), limits, access, Metrics())


def _only_calls(app: ASGIApp) -> ASGIApp:
    """Return the app without streams of messages, which it never sends: they would stay open when it stops."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_call = scope["type"] != "http" or scope["method"] == "POST"
        await (app if is_call else Response(status_code=405, headers={"allow": "POST"}))(scope, receive, send)

    return answer


def _origins(access: Access) -> TransportSecuritySettings:
    """Return the web pages that may send requests: on loopback, those of this machine."""
    names = [f"[{name}]" if ":" in name else name for name in sorted(access.allowed_hosts)]
    hosts = [host for name in names for host in (name, f"{name}:*")]
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=access.loopback, allowed_hosts=hosts, allowed_origins=origins
    )
