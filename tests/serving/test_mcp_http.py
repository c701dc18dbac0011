"""Tests of the MCP endpoint over real HTTP with several users."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request
from mcp import ClientSession, McpError
from mcp import types as mcp
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

from deerflow.config.source import open_source
from deerflow.domain.identity import Principal
from deerflow.domain.runs import RunStatus
from deerflow.gateway.app import create_app
from deerflow.gateway.dependencies import identify_user
from deerflow.harness import Harness, open_harness
from deerflow.testing import Answer, ScriptedModel, Stall, calling
from tests.serving.support import get_data, get_text
from tests.support import browse

USER_HEADER = "x-test-user"
LAUNCH = {"name": "launch", "group": "space", "use": "tests.serving.support:launch", "approval": "always"}
ASK = {"name": "ask", "group": "space", "use": "tests.serving.support:ask"}
QUIET = {"memory": {"debounce_seconds": 3600}, "title": {"enabled": False}, "tools": [LAUNCH, ASK]}


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@dataclass
class McpEndpoint:
    harness: Harness
    app: FastAPI
    address: str
    progress: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def connect(self, name: str) -> AsyncIterator[ClientSession]:
        async with (
            httpx.AsyncClient(headers={USER_HEADER: name}, timeout=10) as http,
            streamable_http_client(f"{self.address}/mcp", http_client=http) as (incoming, outgoing, _),
            ClientSession(incoming, outgoing) as session,
        ):
            await session.initialize()
            yield session

    async def record_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append(message or "")


@asynccontextmanager
async def open_mcp_endpoint(folder: Path, *script: object) -> AsyncIterator[McpEndpoint]:
    source = open_source(directory=folder, environment={}, overrides=QUIET)
    async with open_harness(source, ScriptedModel.saying(*script)) as harness:  # type: ignore[arg-type]
        app = create_app(harness)
        app.state.identify = get_header_user
        async with browse(harness, app) as http:
            yield McpEndpoint(harness, app, str(http.base_url))
            await app.state.mcp_endpoint.aclose()


def get_header_user(request: Request) -> Principal:
    return Principal(request.headers[USER_HEADER])


def raise_unauthorized(_request: Request) -> Principal:
    raise HTTPException(401, "log in first", {"WWW-Authenticate": "Bearer"})


async def test_refuses_cross_site_requests_and_sessions_of_other_users(tmp_path: Path) -> None:
    async with open_mcp_endpoint(tmp_path) as here, httpx.AsyncClient(base_url=here.address) as http:
        for method in ("GET", "POST", "DELETE"):
            answer = await http.request(method, "/mcp", headers={"origin": "https://evil.example", USER_HEADER: "ann"})
            assert answer.status_code == 403 and answer.json()["error"] == "Forbidden"
        rebound = await http.post("/mcp", headers={"host": "evil.example", USER_HEADER: "ann"})
        assert rebound.status_code == 403

        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        opened = await http.post("/mcp", json=HELLO, headers={**headers, USER_HEADER: "ann"})
        named = {**headers, "mcp-session-id": opened.headers["mcp-session-id"]}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        for method in ("POST", "GET", "DELETE"):
            foreign = await http.request(method, "/mcp", json=listing, headers={**named, USER_HEADER: "bob"})
            assert foreign.status_code == 404


async def test_refuses_unauthenticated_requests_before_reading_the_body(tmp_path: Path) -> None:
    async with open_mcp_endpoint(tmp_path) as here, httpx.AsyncClient(base_url=here.address, timeout=10) as http:
        here.app.state.identify = raise_unauthorized
        for method in ("GET", "POST", "DELETE"):
            answer = await http.request(method, "/mcp", json=HELLO)
            elsewhere = await http.get("/api/threads/t")
            assert (answer.status_code, answer.json()) == (elsewhere.status_code, elsewhere.json())
            assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
        url = httpx.URL(here.address)
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(f"POST /mcp HTTP/1.1\r\nHost: {url.netloc.decode()}\r\nContent-Length: 1000\r\n\r\n".encode())
        async with asyncio.timeout(10):
            assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")  # and nothing was sent of the body
        writer.close()
        here.app.state.identify = identify_user
        for said in ("{", "[" * 99 + "]" * 99):  # once it is known who asks, a body like any other
            answer = await http.post("/mcp", content=said, headers={"content-type": "application/json"})
            assert (answer.status_code, answer.json()["error"]) == (422, "InvalidRequest")


async def test_invalid_calls_return_an_error_text(tmp_path: Path) -> None:
    async with open_mcp_endpoint(tmp_path) as here, here.connect("ann") as ann:
        for name, arguments, sentence in (
            ("fly", {}, "there is no tool 'fly'; there are ask, decide, list_threads"),
            ("ask", {}, "prompt: Field required"),
            ("ask", {"prompt": "Hi", "colour": "red"}, "colour: Extra inputs are not permitted"),
            ("ask", {"prompt": "Hi", "thread_id": "none"}, "NotFound: "),
            ("decide", {"thread_id": "none", "decision": "approve"}, "NotFound: "),
            ("read_thread", {"thread_id": "../x"}, "NotFound: "),
            ("read_artifact", {"thread_id": "none", "path": "/etc/passwd"}, "NotFound: "),
        ):
            result = await ann.call_tool(name, arguments)
            assert result.isError and sentence in get_text(result), (name, result)
        with pytest.raises(McpError, match="resources are at deerflow://threads/"):
            await ann.read_resource(AnyUrl("file:///etc/passwd"))


async def test_ask_reports_progress_and_artifacts_can_be_read(tmp_path: Path) -> None:
    report = calling("write_file", description="w", path="/mnt/user-data/outputs/report.md", content="# Herons\n")
    async with (
        open_mcp_endpoint(tmp_path, report, "The report is written.", "Again.") as here,
        here.connect("ann") as ann,
    ):
        tools = {tool.name: tool for tool in (await ann.list_tools()).tools}
        assert list(tools) == ["ask", "decide", "list_threads", "read_thread", "list_artifacts", "read_artifact"]
        assert tools["ask"].inputSchema["required"] == ["prompt"]

        asked = await ann.call_tool("ask", {"prompt": "Write about herons."}, progress_callback=here.record_progress)
        progress = get_data(asked)
        assert progress["status"] == "answered" and progress["answer"] == "The report is written."
        assert "uses write_file" in here.progress and "writes" in here.progress
        thread = progress["thread_id"]

        listed = get_data(await ann.call_tool("list_artifacts", {"thread_id": thread}))
        (file,) = listed["files"]
        read = get_data(await ann.call_tool("read_artifact", {"thread_id": thread, "path": file["path"]}))
        assert (read["content"], read["media_type"]) == ("# Herons\n", "text/markdown")
        part = {"thread_id": thread, "path": file["path"], "offset": 2, "length": 3}
        assert get_data(await ann.call_tool("read_artifact", part))["content"] == "Her"

        (resource,) = (await ann.list_resources()).resources
        (content,) = (await ann.read_resource(resource.uri)).contents
        assert isinstance(content, mcp.TextResourceContents) and content.text == "# Herons\n"

        again = get_data(await ann.call_tool("ask", {"prompt": "And again?", "thread_id": thread}))
        assert (again["thread_id"], again["answer"]) == (thread, "Again.")
        said = get_data(await ann.call_tool("read_thread", {"thread_id": thread}))["messages"]
        assert [each["text"] for each in said if each["from"] == "human"] == ["Write about herons.", "And again?"]


async def test_users_are_isolated(tmp_path: Path) -> None:
    async with (
        open_mcp_endpoint(tmp_path, "Yours alone.") as here,
        here.connect("ann") as ann,
        here.connect("bob") as bob,
    ):
        thread_id = get_data(await ann.call_tool("ask", {"prompt": "A secret."}))["thread_id"]
        assert get_data(await ann.call_tool("list_threads", {}))["threads"][0]["thread_id"] == thread_id
        assert get_data(await bob.call_tool("list_threads", {})) == {"threads": []}
        assert (await bob.list_resources()).resources == []
        for name, arguments in (
            ("ask", {"prompt": "Go on.", "thread_id": thread_id}),
            ("decide", {"thread_id": thread_id, "decision": "approve"}),
            ("read_thread", {"thread_id": thread_id}),
            ("list_artifacts", {"thread_id": thread_id}),
            ("read_artifact", {"thread_id": thread_id, "path": "/mnt/user-data/outputs/x"}),
        ):
            result = await bob.call_tool(name, arguments)
            assert result.isError and get_text(result).startswith("NotFound"), (name, get_text(result))


async def test_decide_answers_pending_approvals(tmp_path: Path) -> None:
    script = (calling("launch", rocket="Heron"), "It flies.", calling("launch", rocket="Wren"), "Well, no.")
    async with open_mcp_endpoint(tmp_path, *script) as here, here.connect("ann") as ann:
        asked = get_data(await ann.call_tool("ask", {"prompt": "Launch it."}))
        assert asked["status"] == "needs_approval"
        assert asked["waiting_calls"] == [{"name": "launch", "args": {"rocket": "Heron"}}]
        assert "call `decide`" in asked["how_to_go_on"]
        thread = asked["thread_id"]
        done = get_data(await ann.call_tool("decide", {"thread_id": thread, "decision": "approve"}))
        assert (done["status"], done["answer"]) == ("answered", "It flies.")
        nothing = await ann.call_tool("decide", {"thread_id": thread, "decision": "approve"})
        assert nothing.isError and "nothing waits" in get_text(nothing)

        await ann.call_tool("ask", {"prompt": "And the wren.", "thread_id": thread})
        no = {"thread_id": thread, "decision": "reject", "reason": "too windy"}
        assert get_data(await ann.call_tool("decide", no))["answer"] == "Well, no."


async def test_ask_answers_a_question_of_the_agent(tmp_path: Path) -> None:
    question = calling("ask_clarification", question="Which colour?", clarification_type="missing_info")
    own = calling("ask", question="How red?")
    async with open_mcp_endpoint(tmp_path, question, "Red it is.", own, "Very.") as here, here.connect("ann") as ann:
        asked = get_data(await ann.call_tool("ask", {"prompt": "Paint it."}))
        assert asked["status"] == "asks" and "Which colour?" in asked["answer"]
        then = get_data(await ann.call_tool("ask", {"prompt": "Red.", "thread_id": asked["thread_id"]}))
        assert then["answer"] == "Red it is."
        thread = asked["thread_id"]
        asked = get_data(await ann.call_tool("ask", {"prompt": "Go on.", "thread_id": thread}))
        assert asked["status"] == "asks" and "How red?" in asked["answer"]
        wrong = await ann.call_tool("decide", {"thread_id": thread, "decision": "approve"})
        assert wrong.isError and "answer it with `ask`" in get_text(wrong)
        assert get_data(await ann.call_tool("ask", {"prompt": "Very.", "thread_id": thread}))["answer"] == "Very."


async def test_cancelled_call_stops_the_run(tmp_path: Path) -> None:
    async with open_mcp_endpoint(tmp_path, Stall(Answer("Let me see")), "Later.") as here, here.connect("ann") as ann:
        begun = asyncio.Event()

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            begun.set()

        request = mcp.CallToolRequest(params=mcp.CallToolRequestParams(name="ask", arguments={"prompt": "Wait."}))
        asking = asyncio.create_task(
            ann.send_request(mcp.ClientRequest(request), mcp.CallToolResult, progress_callback=heard)
        )
        async with asyncio.timeout(10):
            await begun.wait()
            cancel = mcp.CancelledNotification(params=mcp.CancelledNotificationParams(requestId=ann._request_id - 1))
            await ann.send_notification(mcp.ClientNotification(cancel))
            with pytest.raises(McpError, match="cancelled"):
                await asking
            (thread,) = await here.harness.threads.search(Principal("ann"), 10, 0)
            (run,) = await here.harness.runs.list_by_thread(thread.thread_id, Principal("ann"))
            ended = await here.harness.runs.join(thread.thread_id, run.run_id, Principal("ann"))
        assert ended.status is RunStatus.INTERRUPTED
        again = await ann.call_tool("ask", {"prompt": "And now?", "thread_id": thread.thread_id})
        assert get_data(again)["answer"] == "Later."
