"""`denslice mcp`: what an agent is given, over stdio and HTTP with the SDK's own client, and within its budget."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("mcp", reason="the extra mcp is not installed")

import httpx2
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent, TextResourceContents

from command_line import assert_one_line, denslice
from denslice import Index
from denslice.agents.agent_server import make_agent_server
from denslice.agents.document_resources import document_uri
from denslice.agents.token_budget import USUAL_TOKENS, most, tokens_of
from denslice.errors import LockedError
from serving import KEY

DENSLICE = [sys.executable, "-m", "denslice"]
TEXT = "\n\n".join(
    f"# Part {number}\n\n" + f"The keeper of lamp {number} writes that the oil burns low tonight. " * 12
    for number in range(30)
)
DOCS: list[dict[str, Any]] = [
    {"id": "notes/roses.md", "title": "Roses", "text": "Prune roses in March, above a bud.", "year": 2021},
    {"id": "notes/50 % shade?.md", "title": "Shade", "text": "Ferns like shade, and roses do not.", "year": 2023},
    {"id": "long", "title": "Log of a lighthouse", "text": TEXT},
]
MODES = ("auto", "legacy")  # of the protocol: its last version, and with the handshake of those before
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
READING = {"search", "get", "explain", "list"}
Work = Callable[[Client], Awaitable[None]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Index.create(tmp_path / "garden.idx", "bm25").add(DOCS)
    return tmp_path / "garden.idx"


@pytest.fixture
def index(folder: Path) -> Iterator[Index]:
    with Index.open(folder) as opened:
        yield opened


# --- asking


def asked(index: Index, tool: str, allowed: int = USUAL_TOKENS, writable: bool = False, **given: Any) -> CallToolResult:
    """The answer of a tool to the SDK's client, in this process."""
    answers: list[CallToolResult] = []

    async def call(client: Client) -> None:
        answers.append(await client.call_tool(tool, given))

    connected(index, call, allowed, writable)
    return answers[0]


def connected(index: Index, work: Work, allowed: int = USUAL_TOKENS, writable: bool = False) -> None:
    async def run() -> None:
        async with Client(make_agent_server(index, allowed, writable)) as client:
            await work(client)

    anyio.run(run)


def found(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, text_of(result)
    answer: dict[str, Any] = result.structured_content
    return answer


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def cost(result: CallToolResult) -> int:
    compact = json.dumps(result.structured_content, ensure_ascii=False, separators=(",", ":"))
    return max(tokens_of(text_of(result)), tokens_of(compact))


def refused(result: CallToolResult) -> str:
    assert result.is_error
    return text_of(result)


async def resource_text(client: Client, uri: str) -> str:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    return contents.text


# --- transports


@asynccontextmanager
async def over_stdio(folder: Path, *options: str, mode: str = "auto") -> AsyncIterator[Client]:
    """A client of `denslice mcp` in a process of its own. What the process writes to stderr is thrown away."""
    arguments = [*DENSLICE[1:], "mcp", str(folder), *options]
    process = StdioServerParameters(command=DENSLICE[0], args=arguments)
    with Path(os.devnull).open("w") as log:
        async with Client(stdio_client(process, errlog=log), mode=mode) as client:
            yield client


@contextmanager
def http_process(folder: Path, *options: str) -> Iterator[str]:
    """The address of `denslice mcp --port 0`, which has the key."""
    command = [*DENSLICE, "mcp", str(folder), "--port", "0", *options]
    environment = os.environ | {"DENSLICE_API_KEY": KEY}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            line = running.stdout.readline()
            assert "(3 documents) for agents on http://127.0.0.1:" in line
            yield line.rpartition(" ")[2].strip()
        finally:
            running.terminate()
            assert running.wait(10) == 0


@asynccontextmanager
async def over_http(url: str, key: str, mode: str = "auto") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def tour(client: Client) -> None:
    """Every tool that reads, and the resources."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools.keys() == READING
    assert all(tool.description and tool.output_schema for tool in tools.values())
    assert "3 documents" in str(client.instructions)
    result = await client.call_tool("search", {"query": "when are roses pruned", "k": 2})
    best = found(result)["passages"][0]
    assert (best["id"], best["passage"], best["text"]) == ("notes/roses.md", 0, DOCS[0]["text"])
    assert "notes/roses.md, passage 0" in text_of(result)
    read = found(await client.call_tool("get", {"id": best["id"]}))
    assert (read["text"], read["meta"], read["next"]) == (DOCS[0]["text"], {"year": 2021}, None)
    why = found(await client.call_tool("explain", {"query": "roses", "id": best["id"]}))
    assert why["score"] == pytest.approx(sum(term["contribution"] for term in why["terms"]), abs=0.001)
    listed = found(await client.call_tool("list", {}))
    assert [one["id"] for one in listed["documents"]] == [doc["id"] for doc in DOCS]
    uris = [resource.uri for resource in (await client.list_resources()).resources]
    assert uris == [document_uri(doc["id"]) for doc in DOCS]
    assert "Ferns like shade" in await resource_text(client, uris[1])
    templates = (await client.list_resource_templates()).resource_templates
    assert [one.uri_template for one in templates] == ["denslice://documents/{+id}"]


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_searches_reads_explains_and_lists_over_stdio(folder: Path, mode: str) -> None:
    async def run() -> None:
        async with over_stdio(folder, mode=mode) as client:
            await tour(client)

    anyio.run(run)


def test_an_agent_does_the_same_over_http_with_the_key_and_nothing_without(folder: Path) -> None:
    async def with_key(mode: str) -> None:
        async with over_http(url, KEY, mode) as client:
            await tour(client)

    async def with_another_key() -> None:
        async with over_http(url, "another-key-of-24-letters") as client:
            await client.list_tools()

    with http_process(folder) as url:
        for mode in MODES:
            anyio.run(with_key, mode)
        with pytest.raises(ExceptionGroup) as raised:
            anyio.run(with_another_key)
        assert raised.group_contains(MCPError)
        assert status(url, {}) == 401
        assert status(url, {"Authorization": f"Bearer {KEY}"}, "GET") == 405  # no stream stays open
        assert status(url, {"Authorization": f"Bearer {KEY}", "Host": "evil.example"}) == 421
        assert status(url, {"Authorization": f"Bearer {KEY}", "Origin": "http://evil.example"}) == 403


def status(url: str, headers: dict[str, str], method: str = "POST") -> int:
    """The status of a request to list the tools."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    accepted = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, body, accepted | headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_nothing_but_the_protocol_is_written_to_stdout(folder: Path) -> None:
    call = {"name": "search", "arguments": {"query": "roses", "where": {"yaer": 1}}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    command = [*DENSLICE, "mcp", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.writelines(json.dumps(message) + "\n" for message in messages)
        running.stdin.flush()
        answers = [json.loads(running.stdout.readline()) for _ in range(2)]
        running.stdin.close()
        assert running.stdout.read() == ""
        assert running.wait(10) == 0
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["warnings"]


def test_a_signal_stops_the_command_while_it_waits_for_a_client(folder: Path) -> None:
    command = [*DENSLICE, "mcp", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}) + "\n")
        running.stdin.flush()
        assert running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert running.wait(10) == -signal.SIGINT


def test_with_writable_an_agent_adds_a_document_over_stdio_and_finds_it(folder: Path) -> None:
    async def run() -> None:
        async with over_stdio(folder, "--writable") as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == READING | {"add", "sync"}
            new = {"id": "tulips", "text": "Tulips are planted in autumn.", "metadata": {"year": 2026}}
            assert found(await client.call_tool("add", new)) == {
                "id": "tulips",
                "replaced": False,
                "total": 4,
                "warnings": [],
            }
            hits = found(await client.call_tool("search", {"query": "tulips", "where": {"year": 2026}}))
            assert [hit["id"] for hit in hits["passages"]] == ["tulips"]

    anyio.run(run)
    assert Index.open(folder).get("tulips") is not None


# --- what the tools answer


def test_search_filters_skips_and_says_what_it_corrected(index: Index) -> None:
    since = found(asked(index, "search", query="roses", where={"year": {"gte": 2022}}))
    assert [hit["id"] for hit in since["passages"]] == ["notes/50 % shade?.md"]
    both = [hit["id"] for hit in found(asked(index, "search", query="roses"))["passages"]]
    assert [hit["id"] for hit in found(asked(index, "search", query="roses", offset=1))["passages"]] == both[1:]
    assert found(asked(index, "search", query="lighthuose"))["corrections"] == ["lighthuose → lighthouse"]


def test_a_passage_has_its_place_and_get_returns_the_text_around_it(index: Index) -> None:
    hit = found(asked(index, "search", query='"lamp 17"', k=1))["passages"][0]
    assert "Part 17" in hit["heading"]
    assert TEXT[hit["start"] : hit["end"]] == hit["text"]
    assert hit["length"] == len(TEXT)
    around = found(asked(index, "get", id="long", passage=hit["passage"], tokens=2_000))
    assert around["start"] < hit["start"] < hit["end"] < around["end"]
    assert TEXT[around["start"] : around["end"]] == around["text"]


def test_a_long_document_is_read_in_parts_that_make_the_whole(index: Index) -> None:
    parts, start = [], 0
    while start is not None:
        part = found(asked(index, "get", id="long", start=start, tokens=3_000))
        parts.append(part["text"])
        start = part["next"]
    assert len(parts) > 2
    assert "".join(parts) == TEXT


@pytest.mark.parametrize("tokens", [200, 400, 1_000, 4_000])
@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("search", {"query": "the oil of the lamp burns low", "k": 100}),
        ("get", {"id": "long"}),
        ("get", {"id": "long", "passage": 20}),
        ("explain", {"query": "the keeper of the lamp writes of oil", "id": "long"}),
        ("list", {}),
    ],
)
def test_no_answer_is_larger_than_its_budget(index: Index, tool: str, given: dict[str, Any], tokens: int) -> None:
    assert cost(asked(index, tool, **given, tokens=tokens)) <= tokens
    assert cost(asked(index, tool, tokens, **given)) <= tokens


def test_an_agent_is_told_what_did_not_fit_and_cannot_ask_for_more_than_the_server_allows(index: Index) -> None:
    server_allows = 1_000
    result = asked(index, "search", server_allows, query="lamp oil", k=30)
    assert cost(result) <= server_allows
    hits = found(result)
    assert hits["passages"]
    assert len(hits["passages"]) + hits["left_out"] == 30
    assert hits["next"] == len(hits["passages"])
    assert f"{hits['left_out']} more passages do not fit: call search with offset {hits['next']}." in text_of(result)

    async def ask_for_more(client: Client) -> None:
        assert cost(await client.call_tool("get", {"id": "long", "tokens": 50_000})) <= server_allows

    connected(index, ask_for_more, server_allows)


def test_a_passage_that_does_not_fit_alone_is_cut(index: Index) -> None:
    hits = found(asked(index, "search", query="lamp oil", tokens=200))
    assert [hit["is_cut"] for hit in hits["passages"]] == [True]
    assert TEXT[hits["passages"][0]["start"] :].startswith(hits["passages"][0]["text"])


def test_metadata_that_do_not_fit_are_left_out_with_a_warning(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "m.idx", "bm25")
    index.add([{"id": "a", "text": "short", "notes": "x" * 50_000}])
    part = found(asked(index, "get", id="a"))
    assert (part["text"], part["meta"]) == ("short", {})
    assert "metadata" in part["warnings"][0]


def test_a_list_goes_on_where_it_ended(index: Index) -> None:
    first = found(asked(index, "list", limit=2))
    assert (len(first["documents"]), first["total"], first["next"]) == (2, 3, 2)
    rest = found(asked(index, "list", offset=first["next"]))
    assert ([one["id"] for one in rest["documents"]], rest["next"]) == (["long"], None)
    dated = found(asked(index, "list", where={"year": 2021}))
    assert [one["id"] for one in dated["documents"]] == ["notes/roses.md"]


def test_a_commit_of_another_process_is_seen(index: Index, folder: Path) -> None:
    assert found(asked(index, "search", query="dahlias", where={"id": "new"}))["passages"] == []
    Index.open(folder).add([{"id": "new", "text": "Dahlias bloom until the frost."}])
    assert found(asked(index, "search", query="dahlias"))["passages"][0]["id"] == "new"


def test_an_empty_index_answers(tmp_path: Path) -> None:
    index = Index.create(tmp_path / "empty.idx", "bm25")
    result = asked(index, "search", query="anything")
    assert found(result)["passages"] == []
    assert "Nothing was found" in text_of(result)
    assert found(asked(index, "list"))["documents"] == []

    async def without_resources(client: Client) -> None:
        assert (await client.list_resources()).resources == []

    connected(index, without_resources)


# --- errors


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("get", {"id": "nowhere"}, "no document has the id 'nowhere'; take ids from search or list"),
        ("explain", {"query": "roses", "id": "nowhere"}, "take ids from search or list"),
        ("get", {"id": "long", "passage": 999}, "has no passage 999; it has 0 to "),
        ("get", {"id": "notes/roses.md", "start": 999}, "has 34 characters"),
        ("get", {"id": "long", "start": 9, "passage": 1}, "give one of them"),
        ("search", {"query": "roses", "where": {"year": {"above": 3}}}, "above"),
        ("search", {"query": "roses", "k": 0}, "greater than or equal to 1"),
        ("search", {"query": "roses", "filter": {"year": 3}}, "no argument 'filter'; it takes query, k, where"),
    ],
)
def test_an_error_says_what_to_do(index: Index, tool: str, given: dict[str, Any], told: str) -> None:
    assert told in refused(asked(index, tool, **given))


def test_a_filter_on_a_field_that_no_document_has_is_a_warning(index: Index) -> None:
    result = asked(index, "search", query="roses", where={"yaer": 2021})
    assert "'yaer'" in found(result)["warnings"][0]
    assert "Warning: no document has the field 'yaer'" in text_of(result)


def test_a_read_only_server_has_no_tool_that_writes(index: Index) -> None:
    assert "Unknown tool: add" in refused(asked(index, "add", id="x", text="y"))
    assert "Unknown tool: sync" in refused(asked(index, "sync"))


def test_an_unknown_resource_is_an_error_of_the_protocol(index: Index) -> None:
    async def read(client: Client) -> None:
        with pytest.raises(MCPError, match="no document has the id 'nowhere'"):
            await client.read_resource(document_uri("nowhere"))
        with pytest.raises(MCPError, match=r"no document has the id '\.\./secret'"):
            await client.read_resource("denslice://documents/../secret")

    connected(index, read)


def test_while_another_process_writes_the_agent_is_told_to_call_again(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: Any, **__: Any) -> int:
        raise LockedError("another process is writing")

    monkeypatch.setattr(Index, "add", locked)
    told = refused(asked(index, "add", writable=True, id="x", text="y"))
    assert "another process is writing. Nothing was changed; call again" in told


# --- writing


def test_sync_reads_what_changed_in_the_followed_folders(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "one.md").write_text("# One\n\nThe first note.")
    index = Index.create(tmp_path / "n.idx", "bm25")
    index.sync(notes)
    (notes / "two.md").write_text("# Two\n\nA note about quinces.")
    asked(index, "add", writable=True, id="of the agent", text="A document that is in no file.")
    done = found(asked(index, "sync", writable=True))
    assert (done["added"], done["unchanged"], done["total"]) == (1, 1, 3)
    assert found(asked(index, "search", query="quinces"))["passages"][0]["id"] == "notes/two.md"


def test_sync_without_a_folder_says_how_to_follow_one(index: Index) -> None:
    assert "denslice sync FOLDER --to INDEX" in refused(asked(index, "sync", writable=True))


def test_an_added_document_replaces_the_one_with_its_id(index: Index) -> None:
    added = found(asked(index, "add", writable=True, id="notes/roses.md", title="Roses", text="Prune in winter."))
    assert (added["replaced"], added["total"]) == (True, 3)
    assert found(asked(index, "get", id="notes/roses.md"))["text"] == "Prune in winter."


# --- the command


def test_the_command_refuses_what_it_cannot_do_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_one_line(denslice("mcp", folder, "--tokens", 5), "--tokens is 5, expected a number from 200")
    assert_one_line(denslice("mcp", folder, "--host", "0.0.0.0"), "give --port too")
    assert_one_line(denslice("mcp", folder, "--port", 0, "--writable"), "--writable needs an API key")
    assert_one_line(denslice("mcp", folder, "--port", 0, "--open", "--writable"), "leave out --open or --writable")
    assert_one_line(denslice("mcp", folder, "--port", 0, "--host", "0.0.0.0"), "can be reached from other machines")
    assert_one_line(denslice("mcp", folder / "nowhere"), "nowhere")
    monkeypatch.setitem(sys.modules, "denslice.agents.agent_server", None)
    assert_one_line(denslice("mcp", folder), "pip install 'denslice[mcp]'")


# --- the budget


@given(st.integers(0, 300), st.integers(-1, 400))
def test_most_is_the_largest_number_that_fits(up_to: int, limit: int) -> None:
    assert most(up_to, lambda number: number <= limit) == max(0, min(up_to, limit))


def test_tokens_are_estimated_from_bytes() -> None:
    assert tokens_of("") == 0
    assert tokens_of("seven b") == 2
    assert tokens_of("日本") == 2
