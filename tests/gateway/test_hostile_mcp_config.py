"""MCP configuration of the wrong shape is refused with a named error, and the file on disk stays as it was."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from deerflow.config.source import open_source
from deerflow.domain.errors import ConfigError
from tests.gateway.populated_server import PopulatedServer

REMOTE = {"type": "http", "url": "https://mcp.example/mcp", "enabled": False}
DEEP: dict[str, Any] = {}
for _ in range(40):
    DEEP = {"a": DEEP}
WRONG_ENTRIES: dict[str, tuple[object, str]] = {
    "a command that is a list": ({"command": ["npx"]}, "new.command"),
    "a command that is an object": ({"command": {"npx": 1}}, "new.command"),
    "a command that is a number": ({"command": 5}, "new.command"),
    "a command with a null character": ({"command": "npx\0"}, "new.command"),
    "the whole configuration": ({"mcpServers": 5}, "mcpServers"),
    "arguments that are text": ({"command": "npx", "args": "x"}, "new.args"),
    "arguments that are an object": ({"command": "npx", "args": {"a": 1}}, "new.args"),
    "an argument that is a list": ({"command": "npx", "args": [["-y"]]}, "new.args[0]"),
    "an argument with a null character": ({"command": "npx", "args": ["a\0b"]}, "new.args[0]"),
    "variables in a list": ({"command": "npx", "env": [1]}, "new.env"),
    "a variable that is a list": ({"command": "npx", "env": {"A": [1]}}, "new.env.A"),
    "a variable with a null character": ({"command": "npx", "env": {"A": "\0"}}, "new.env.A"),
    "a variable whose name contains '='": ({"command": "npx", "env": {"A=B": "1"}}, "new.env"),
    "a variable whose name is empty": ({"command": "npx", "env": {"": "1"}}, "new.env"),
    "a URL that is a number": ({"type": "http", "url": 7}, "new.url"),
    "a URL that is a list": ({"type": "http", "url": ["https://x"]}, "new.url"),
    "a URL that cannot be parsed": ({"type": "http", "url": "https://[x"}, "new.url"),
    "a URL with a null character": ({"type": "http", "url": "https://x/\0"}, "new.url"),
    "a header that is a number": ({"type": "http", "url": "https://x", "headers": {"X-A": 1}}, "new.headers.X-A"),
    "a header with a line break": ({"type": "http", "url": "https://x", "headers": {"X-A": "a\nb"}}, "new.headers.X-A"),
    "a header whose name has a blank": ({"type": "http", "url": "https://x", "headers": {"X A": "a"}}, "new.headers"),
    "tools in a list": ({"command": "npx", "tools": [1]}, "new.tools"),
    "OAuth settings that are text": ({"type": "http", "url": "https://x", "oauth": "x"}, "new.oauth"),
    "a type that is a list": ({"type": ["http"], "url": "https://x"}, "new.type"),
    "an entry that is null": (None, "body"),
    "an entry that is a list": ([], "body"),
    "an entry that is text": ("npx", "body"),
    "deep nesting": ({"command": "npx", "tools": DEEP}, "new is nested too deeply"),
}
WRONG_NAMES = {"a null character": "a\0b", "300 bytes": "x" * 300, "nothing": "", "a path": "../x", "a blank": "a b"}


@pytest.fixture
def http(server: PopulatedServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


def write_file(server: PopulatedServer, content: object) -> bytes:
    written = json.dumps(content, indent=2).encode()
    (server.home / "extensions_config.json").write_bytes(written)
    return written


def assert_refused(response: httpx.Response, field: str) -> None:
    assert response.status_code == 422, response.text
    assert response.json()["error"] == "InvalidRequest"
    assert field in response.json()["detail"]


@pytest.mark.parametrize(("entry", "field"), WRONG_ENTRIES.values(), ids=WRONG_ENTRIES)
def test_an_entry_of_the_wrong_shape_is_refused(
    server: PopulatedServer, http: httpx.Client, entry: object, field: str
) -> None:
    written = write_file(server, {"mcpServers": {"remote": REMOTE}})
    assert_refused(http.put("/api/mcp/servers/new", json=entry), field)
    assert_refused(http.put("/api/mcp/config", json={"mcp_servers": {"remote": REMOTE, "new": entry}}), field)
    assert (server.home / "extensions_config.json").read_bytes() == written
    assert http.get("/api/mcp/servers/remote").status_code == 200


@pytest.mark.parametrize("name", WRONG_NAMES.values(), ids=WRONG_NAMES)
def test_a_server_with_an_invalid_name_is_refused(server: PopulatedServer, http: httpx.Client, name: str) -> None:
    written = write_file(server, {"mcpServers": {"remote": REMOTE}})
    assert_refused(http.put("/api/mcp/config", json={"mcp_servers": {name: REMOTE}}), "is no name for a server")
    switched = http.patch("/api/mcp/config", json={"server_name": name, "enabled": True})
    assert (switched.status_code, switched.json()["error"]) == (404, "NotFound")
    assert (server.home / "extensions_config.json").read_bytes() == written


@pytest.mark.parametrize("body", [{"mcpServers": 5}, {"mcp_servers": 5}, {"mcp_servers": [REMOTE]}, {}, [], 5, None])
def test_a_configuration_of_the_wrong_shape_is_refused(
    server: PopulatedServer, http: httpx.Client, body: object
) -> None:
    written = write_file(server, {"mcpServers": {"remote": REMOTE}})
    assert_refused(http.put("/api/mcp/config", json=body), "body")
    assert (server.home / "extensions_config.json").read_bytes() == written


WRONG_FILES: dict[str, tuple[object, str]] = {
    "servers that are a number": ({"mcpServers": 5}, "mcpServers: must be"),
    "servers in a list": ({"mcpServers": [REMOTE]}, "mcpServers: must be"),
    "a server that is null": ({"mcpServers": {"a": None}}, "mcpServers.a: must be"),
    "a server that is a list": ({"mcpServers": {"a": []}}, "mcpServers.a: must be"),
    "a skill that is a number": ({"skills": {"a": 1}}, "skills.a: must be"),
    "skills that are text": ({"skills": "all"}, "skills: must be"),
}


@pytest.mark.parametrize(("content", "sentence"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_file_of_the_wrong_shape_is_reported_and_kept(
    server: PopulatedServer, http: httpx.Client, content: object, sentence: str
) -> None:
    skill = next(each["name"] for each in http.get("/api/skills").json()["skills"] if each["category"] == "public")
    written = write_file(server, content)
    for response in (
        http.get("/api/mcp/config"),
        http.put("/api/mcp/servers/new", json=REMOTE),
        http.patch("/api/mcp/config", json={"server_name": "a", "enabled": True}),
        http.delete("/api/mcp/servers/a"),
        http.put(f"/api/skills/{skill}", json={"enabled": False}),
    ):
        assert (response.status_code, response.json()["error"]) == (503, "ConfigError"), response.text
        assert sentence in response.json()["detail"]
    assert (server.home / "extensions_config.json").read_bytes() == written
    assert http.get("/api/mcp/servers").status_code == 200, "the last valid entries stay in force"


def test_a_file_with_halves_of_characters_is_reported_and_shown(server: PopulatedServer, http: httpx.Client) -> None:
    half = {"url": "https://x/?token=canary&\ud800=1", "headers": {"X-\ud800": "canary"}}
    written = write_file(server, {"mcpServers": {"a\ud800": {"type": "http", "description": "\ud800", **half}}})
    shown = http.get("/api/mcp/config")
    assert shown.status_code == 200 and "canary" not in shown.text
    assert shown.json()["mcp_servers"]["a?"]["description"] == "?"
    assert "valid string" in shown.json()["problem"]
    assert (server.home / "extensions_config.json").read_bytes() == written


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        *WRONG_FILES.values(),
        *(
            ({"mcpServers": {"new": entry}}, field.replace("body", "new").removeprefix("new.").split(" ")[0])
            for entry, field in WRONG_ENTRIES.values()
        ),
    ],
    ids=[*WRONG_FILES, *WRONG_ENTRIES],
)
def test_a_server_does_not_start_with_such_a_file(
    tmp_path_factory: pytest.TempPathFactory, content: object, sentence: str
) -> None:
    folder = tmp_path_factory.mktemp("home")
    (folder / "extensions_config.json").write_text(json.dumps(content))
    with pytest.raises(ConfigError, match="^extensions_config.json") as raised:
        open_source(directory=folder, environment={})
    assert sentence in str(raised.value)
