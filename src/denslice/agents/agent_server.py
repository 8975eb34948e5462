"""The MCP server of an index: its tools, its resources, and what it tells an agent first."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import anyio.to_thread
from mcp.server.mcpserver import Context, MCPServer, ResourceSecurity
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, Resource, ToolAnnotations

from denslice import __version__
from denslice.agents.document_resources import TEMPLATE, DocumentResources
from denslice.agents.reading_tools import ReadingTools
from denslice.agents.writing_tools import WritingTools
from denslice.index.index import Index

INSTRUCTIONS = (
    "The index {name} holds {documents:,} documents. Find passages with `search`: ask a whole question first, then use "
    "other words if the answer is not there. Read on around a passage with `get`. Cite documents by their ids."
)
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)


class AgentServer(MCPServer[Any]):
    """An MCP server that lists documents as resources and refuses arguments that a tool does not have."""

    def __init__(self, resources: DocumentResources, instructions: str) -> None:
        super().__init__(
            "denslice", instructions=instructions, version=__version__, log_level="WARNING", subscriptions=False
        )
        self._documents = resources

    async def list_resources(self) -> list[Resource]:
        """Return the first documents of the index."""
        return await anyio.to_thread.run_sync(self._documents.listed)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool. Raise ToolError for an unknown argument, which the SDK would ignore."""
        takes = {tool.name: tool.input_schema["properties"] for tool in await self.list_tools()}
        known = takes.get(name, arguments)
        if unknown := sorted(arguments.keys() - known.keys()):
            raise ToolError(f"{name} has no argument {unknown[0]!r}; it takes {', '.join(known) or 'none'}")
        return await super().call_tool(name, arguments, context)


def make_agent_server(index: Index, tokens: int, writable: bool = False) -> AgentServer:
    """Return the server of an index, whose answers have at most so many tokens."""
    resources = DocumentResources(index, tokens)
    told = INSTRUCTIONS.format(name=index.path.name, documents=len(index))
    server = AgentServer(resources, told)
    reading = ReadingTools(index, tokens)
    _add(server, "search", reading.search, READS)
    _add(server, "get", reading.get, READS)
    _add(server, "explain", reading.explain, READS)
    _add(server, "list", reading.list_documents, READS)
    if writable:
        writing = WritingTools(index)
        _add(server, "add", writing.add, WRITES)
        _add(server, "sync", writing.sync, WRITES)
    # An id is looked up in the index and never opened as a file, so it may look like any path.
    anything = ResourceSecurity(exempt_params={"id"})
    server.resource(TEMPLATE, name="document", description="A document, by its id.", security=anything)(resources.read)
    return server


def _add(server: AgentServer, name: str, tool: Callable[..., CallToolResult], hints: ToolAnnotations) -> None:
    server.add_tool(tool, name=name, description=inspect.getdoc(tool), annotations=hints)
