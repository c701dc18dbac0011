"""MCP servers, their pins and logins over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from deerflow.config.loader.validation import MASK
from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.gateway.app import create_app
from deerflow.harness import Harness, open_harness
from deerflow.mcp.status import McpToolInfo
from deerflow.testing import ScriptedModel, calling
from tests.gateway.populated_server import USER_HEADER, PopulatedServer, read_principal
from tests.mcp.login_server import LoginServer, follow_redirect, serving_logins
from tests.support import browse

CROSS_SITE = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
OFF = {"enabled": False}
BY_HAND = {
    "command": "/opt/own/server",
    "args": ["--api-key=secret-canary"],
    "env": {"ANY": "secret-canary"},
    "description": "Written by hand.",
    **OFF,
}
REMOTE = {"type": "http", "url": "https://mcp.example/mcp", "headers": {"X-Key": "secret-canary"}, **OFF}
SKILLS = {"podcast": {"enabled": False}}


@pytest.fixture(scope="module")
def login_server() -> Iterator[LoginServer]:
    with serving_logins() as server:
        yield server


@pytest.fixture
def http(server: PopulatedServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def write_extensions(folder: Path, **servers: object) -> None:
    (folder / "extensions_config.json").write_text(json.dumps({"mcpServers": servers, "skills": SKILLS}))


def read_extensions(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "extensions_config.json").read_text())
    return found


def test_secrets_are_masked_and_kept_when_sent_back(server: PopulatedServer, http: httpx.Client) -> None:
    write_extensions(server.home, hand=BY_HAND, remote=REMOTE)
    shown = http.get("/api/mcp/config").json()
    assert "canary" not in str(shown) and shown["problem"] is None
    assert shown["mcp_servers"]["remote"]["headers"] == {"X-Key": MASK}

    again = http.put("/api/mcp/config", json={"mcp_servers": shown["mcp_servers"]})
    assert again.status_code == 200 and again.json() == shown
    assert read_extensions(server.home) == {"mcpServers": {"hand": BY_HAND, "remote": REMOTE}, "skills": SKILLS}

    moved = {"other": shown["mcp_servers"]["remote"]}
    refused = http.put("/api/mcp/config", json={"mcp_servers": moved})
    assert (refused.status_code, refused.json()["error"]) == (422, "InvalidRequest")
    assert "other.headers.X-Key is masked" in refused.json()["detail"]
    assert read_extensions(server.home)["mcpServers"] == {"hand": BY_HAND, "remote": REMOTE}


def test_servers_are_created_disabled_and_deleted(server: PopulatedServer, http: httpx.Client) -> None:
    write_extensions(server.home, remote=REMOTE)
    added = http.put("/api/mcp/servers/tools", json={"command": "npx", "args": ["-y", "@x/y"], **OFF})
    assert (added.status_code, added.json()["state"]) == (200, "disabled")
    names = [server["name"] for server in http.get("/api/mcp/servers").json()["servers"]]
    assert names == ["remote", "tools"]
    switched = http.patch("/api/mcp/config", json={"server_name": "remote", "enabled": True})
    assert switched.json()["mcp_servers"]["remote"]["enabled"] is True
    assert server.harness.core.source.refresh().extensions.mcp_servers["remote"].enabled
    assert http.delete("/api/mcp/servers/remote").status_code == 204
    assert http.delete("/api/mcp/servers/remote").status_code == 404
    assert http.get("/api/mcp/servers/remote").status_code == 404
    assert list(read_extensions(server.home)["mcpServers"]) == ["tools"]
    assert http.post("/api/mcp/cache/reset").json()["success"] is True


PASTED = """
// .vscode/mcp.json
{
  "inputs": [{"type": "promptString", "id": "token"}],
  "servers": {
    "time here": {"type": "stdio", "command": "uvx", "args": ["mcp-server-time"], "disabled": true, "autoApprove": []},
    "docs": {"serverUrl": "https://docs.example/sse", "enabled": false, /* later */},
  },
}
"""


def test_pasted_servers_of_other_programs_are_added(
    server: PopulatedServer, http: httpx.Client, disk_path: Path
) -> None:
    write_extensions(server.home, remote=REMOTE)
    added = http.post("/api/mcp/import", json={"text": PASTED})
    assert added.status_code == 200, added.text
    assert list(added.json()["mcp_servers"]) == ["remote", "time-here", "docs"]
    remote, time, docs = http.get("/api/mcp/servers").json()["servers"]
    assert (time["type"], time["enabled"], docs["type"]) == ("stdio", False, "sse")
    assert (remote["notes"], time["notes"]) == ([], ["'autoApprove' has no effect here"])
    bare = http.post(
        "/api/mcp/import", json={"text": '{"docs": {"url": "https://docs.example/mcp", "enabled": false}}'}
    )
    assert bare.json()["mcp_servers"]["docs"] == {"url": "https://docs.example/mcp", "enabled": False, "type": "http"}
    fragment = http.post(
        "/api/mcp/import", json={"text": '"mcpServers": {"x": {"command": "npx -y x", "disabled": true}},'}
    )
    assert fragment.json()["mcp_servers"]["x"] == {"command": "npx", "args": ["-y", "x"], "enabled": False}

    before = read_extensions(server.home)
    for text, problem in (
        ('{"mcpServers": {', "the text:1: a key in double quotes is expected here"),
        ('{"mcpServers": {}}', "no MCP servers found"),
        ('{"a": 1}', "no MCP servers found"),
        ('{"mcpServers": {"a": {"command": "uvx"}, "b": {"command": "bash"}}}', "b.command: 'bash' is not one of"),
        ('{"mcpServers": {"a": {"command": "uvx", "env": {"K": "${env:HOME}"}}}}', "a: refers to HOME"),
        (
            '{"mcpServers": {"a": {"command": "uvx", "args": ["' + str(disk_path) + '"]}}}',
            "is a path of this machine",
        ),
    ):
        refused = http.post("/api/mcp/import", json={"text": text})
        assert (refused.status_code, refused.json()["error"]) == (422, "InvalidRequest"), text
        assert problem in refused.json()["detail"]
    assert read_extensions(server.home) == before


def test_comments_are_backed_up_before_the_file_is_written(server: PopulatedServer, http: httpx.Client) -> None:
    file = server.home / "extensions_config.json"
    file.write_text('{"mcpServers": {"a": {"url": "https://a.example", "enabled": false}}} // ours')
    assert http.patch("/api/mcp/config", json={"server_name": "a", "enabled": False}).status_code == 200
    assert "// ours" not in file.read_text()
    assert "// ours" in file.with_name(f"{file.name}.bak").read_text()


def test_unsupported_settings_are_listed(server: PopulatedServer, http: httpx.Client) -> None:
    toolset = {"name": "report", "submit_tool": "submit", "status_tool": "look"}
    write_extensions(server.home, remote=REMOTE, tasks={**REMOTE, "task_toolsets": [toolset]})
    notes = [server["notes"] for server in http.get("/api/mcp/servers").json()["servers"]]
    assert notes[0] == [] and notes[1][0].startswith("'task_toolsets' has no effect: ")


def test_an_invalid_entry_is_rejected_and_nothing_is_lost(server: PopulatedServer, http: httpx.Client) -> None:
    write_extensions(server.home, remote=REMOTE)
    for entry, problem in (
        ({"command": "bash", "args": ["-c", "curl evil"]}, "is not one of bunx, npx, pipx, uvx"),
        ({"command": "npx", "env": {"NODE_OPTIONS": "x"}}, "decides which programs"),
        ({"command": "npx", "typo": 1}, "typo"),
        ({"type": "http"}, "needs 'url'"),
        ({}, "needs 'command'"),
    ):
        refused = http.put("/api/mcp/servers/new", json=entry)
        assert (refused.status_code, refused.json()["error"]) == (422, "InvalidRequest")
        assert problem in refused.json()["detail"]
    assert read_extensions(server.home)["mcpServers"] == {"remote": REMOTE}
    assert http.get("/api/mcp/servers/remote").status_code == 200
    (server.home / "extensions_config.json").write_text("{")
    shown = http.get("/api/mcp/servers").json()["servers"]
    assert [server["name"] for server in shown] == ["remote"], "the former entries stay in force"
    broken = http.put("/api/mcp/servers/new", json={"command": "npx"})
    assert (broken.status_code, broken.json()["error"]) == (503, "ConfigError")


def test_changes_of_servers_need_admin_rights(server: PopulatedServer, http: httpx.Client) -> None:
    write_extensions(server.home, remote=REMOTE)
    other_user = {USER_HEADER: "ann"}
    for method, path, body in (
        ("PUT", "/config", {"mcp_servers": {}}),
        ("PATCH", "/config", {"server_name": "remote", "enabled": True}),
        ("POST", "/cache/reset", None),
        ("PUT", "/servers/new", {"command": "npx"}),
        ("DELETE", "/servers/remote", None),
        ("POST", "/servers/remote/pins/accept", {"tools": {"a": "b"}}),
    ):
        refused = http.request(method, f"/api/mcp{path}", json=body, headers=other_user)
        assert (refused.status_code, refused.json()["error"]) == (403, "Forbidden"), path
    assert http.get("/api/mcp/servers", headers=other_user).status_code == 200
    assert read_extensions(server.home)["mcpServers"] == {"remote": REMOTE}


def test_a_changed_tool_is_listed_and_accepted(server: PopulatedServer, http: httpx.Client) -> None:
    write_extensions(server.home, pinned=REMOTE)
    pins = server.harness.resources.mcp_servers.pins
    other = McpToolInfo("sub", "Subtracts.")
    for words in ("Adds.", "Adds, and tells."):
        server.run(pins.check("pinned", [McpToolInfo("add", words), other]))
    shown = http.get("/api/mcp/servers/pinned/pins").json()["tools"]
    assert [(pin["tool"], pin["state"]) for pin in shown] == [("add", "changed"), ("sub", "accepted")]
    texts = shown[0]["accepted"]["description"], shown[0]["offered"]["description"]
    assert texts == ("Adds.", "Adds, and tells.")
    wrong = http.post("/api/mcp/servers/pinned/pins/accept", json={"tools": {"add": "0" * 64}})
    assert (wrong.status_code, wrong.json()["error"]) == (409, "Conflict")
    seen = {"tools": {"add": shown[0]["offered"]["hash"]}}
    accepted = http.post("/api/mcp/servers/pinned/pins/accept", json=seen).json()["tools"][0]
    assert (accepted["state"], accepted["accepted_by"]) == ("accepted", LOCAL_USER.user_id)
    assert server.run(pins.check("pinned", [McpToolInfo("add", "Adds, and tells."), other])).accepted == ("add", "sub")


def test_a_denied_login_is_reported_on_the_page_it_started_from(
    server: PopulatedServer, http: httpx.Client, login_server: LoginServer
) -> None:
    write_extensions(server.home, x={"type": "http", "url": login_server.url, "allow_private_addresses": True})
    login_server.is_denying = True
    started = http.post("/api/mcp/servers/x/oauth/start", json={"return_to": "/?tab=mcp"}).json()
    back = http.get(asyncio.run(follow_redirect(started["authorization_url"])))
    login_server.is_denying = False
    assert back.headers["location"].startswith("/?tab=mcp&mcp_server=x&mcp_login=failed&mcp_problem=127.0.0.1+denied")
    bare = http.post("/api/mcp/servers/x/oauth/start", json={}).json()
    page = http.get(asyncio.run(follow_redirect(bare["authorization_url"])))
    assert (page.status_code, page.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert page.text == "You are logged in at 'x'. You can close this window.\n"
    assert page.headers["cache-control"] == "no-store"
    for elsewhere in ("https://evil.example/", "//evil.example", "/\\evil.example", "settings"):
        refused = http.post("/api/mcp/servers/x/oauth/start", json={"return_to": elsewhere})
        assert refused.status_code == 422, elsewhere


def test_an_unreachable_authorization_server_fails_the_login(server: PopulatedServer, http: httpx.Client) -> None:
    write_extensions(server.home, x={"type": "http", "url": "http://127.0.0.1:9/mcp", "allow_private_addresses": True})
    failed = http.post("/api/mcp/servers/x/oauth/start", json={})
    assert (failed.status_code, failed.json()["error"]) == (502, "McpLoginFailed")


@asynccontextmanager
async def open_gateway(
    folder: Path, model: ScriptedModel, **settings: object
) -> AsyncIterator[tuple[Harness, httpx.AsyncClient]]:
    quiet = {"memory": {"enabled": False}, "title": {"enabled": False}, "sandbox": {"toolbox": {"enabled": False}}}
    source = open_source(directory=folder, environment={}, overrides={**quiet, **settings})
    async with open_harness(source, model) as harness:
        app = create_app(harness)
        app.state.identify = read_principal
        async with browse(harness, app) as http:
            yield harness, http


async def test_the_login_redirect_uses_the_configured_public_url(tmp_path: Path, login_server: LoginServer) -> None:
    write_extensions(tmp_path, x={"type": "http", "url": login_server.url, "allow_private_addresses": True})
    public = {"public_url": "https://deer.example"}
    async with open_gateway(tmp_path, ScriptedModel.saying(), gateway=public) as (_, http):
        started = await http.post("/api/mcp/servers/x/oauth/start", json={}, headers={"host": "localhost:1"})
        forged = await http.post("/api/mcp/servers/x/oauth/start", json={}, headers={"host": "evil.example"})
        document = (await http.get("/api/mcp/oauth/client-metadata.json")).json()
    assert document == {
        "client_id": "https://deer.example/api/mcp/oauth/client-metadata.json",
        "client_name": "DeerFlow",
        "client_uri": "https://deer.example",
        "application_type": "web",
        "redirect_uris": ["https://deer.example/api/mcp/oauth/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    asked = httpx.URL(started.json()["authorization_url"]).params
    assert asked["redirect_uri"] == "https://deer.example/api/mcp/oauth/callback"
    assert forged.status_code == 403  # without that setting too


async def test_after_a_login_the_agent_uses_the_server_as_the_user(
    tmp_path: Path, login_server: LoginServer, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel.saying(calling("x_whoami"), "That was it.")
    entry = {"type": "http", "url": login_server.url, "allow_private_addresses": True}
    async with open_gateway(tmp_path, model) as (_, http):
        assert (await http.put("/api/mcp/servers/x", json=entry)).status_code == 200
        state = (await http.post("/api/mcp/servers/x/reconnect")).json()
        assert (state["state"], state["login"]["state"]) == ("needs_login", "needs_login"), state

        login_server.next_user = "ann of the east"
        started = await http.post("/api/mcp/servers/x/oauth/start", json={"return_to": "/settings/mcp"})
        assert started.status_code == 200, started.text
        back = await follow_redirect(started.json()["authorization_url"])
        framed = {**CROSS_SITE, "sec-fetch-dest": "iframe"}
        assert (await http.get(back, headers=framed)).status_code == 403
        foreign = await http.get(back, headers={**CROSS_SITE, USER_HEADER: "mallory"})
        assert foreign.status_code == 400 and "started by another user" in foreign.text
        home = await http.get(back, headers=CROSS_SITE)
        assert home.status_code == 303
        assert home.headers["location"] == "/settings/mcp?mcp_server=x&mcp_login=done"
        assert (await http.get(back, headers=CROSS_SITE)).status_code == 400

        server = (await http.post("/api/mcp/servers/x/reconnect")).json()
        assert (server["state"], server["login"]["state"]) == ("ready", "logged_in"), server
        assert [tool["name"] for tool in server["tools"]] == ["whoami"]
        asked = {"input": {"messages": [{"type": "human", "content": "Who am I there?"}]}}
        messages = (await http.post("/api/runs/wait", json=asked)).json()["messages"]
        (result,) = [message["content"] for message in messages if message["type"] == "tool"]
        assert "ann of the east" in str(result)

        for path in ("", "/x", "/x/oauth", "/x/pins"):
            assert "canary" not in (await http.get(f"/api/mcp/servers{path}")).text
        other = (await http.get("/api/mcp/servers/x/oauth", headers={USER_HEADER: "bob"})).json()
        assert other["state"] == "needs_login"
        assert (await http.delete("/api/mcp/servers/x/oauth")).status_code == 204
        assert (await http.post("/api/mcp/servers/x/reconnect")).json()["state"] == "needs_login"
    assert "canary" not in caplog.text
    kept = b"".join(file.read_bytes() for file in list_files(tmp_path))
    assert b"ann of the east" in kept and b"access-canary" not in kept and b"refresh-canary" not in kept


def list_files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]
