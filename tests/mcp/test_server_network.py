"""Tests of the network of stdio servers: sessions and the egress policy agree about it."""

from typing import Any, Literal

import pytest

from deerflow.config.sections.extensions import McpServerConfig
from deerflow.guardrails.policy import is_isolated, isolated_servers
from deerflow.mcp.session.calls import ServerAddress
from deerflow.mcp.session.connection import build_service_spec

ONLINE: dict[str, tuple[str, ...]] = {
    "npx": ("-y", "@modelcontextprotocol/server-memory"),
    "uvx": ("mcp-server-time",),
    "bunx": ("@modelcontextprotocol/server-memory",),
    "pipx": ("run", "mcp-server-time"),
    "docker": ("run", "-i", "--rm", "mcp/time"),
    "podman": ("run", "-i", "--rm", "mcp/time"),
    "/usr/local/bin/docker": ("run", "-i", "--rm", "mcp/time"),
}
"""Commands that cannot work without a network."""
OFFLINE: dict[str, tuple[str, ...]] = {"python": ("server.py",), "/usr/bin/python3": ("server.py",), "node": ("x.js",)}


@pytest.mark.parametrize("network", [None, True, False])
@pytest.mark.parametrize("command", [*ONLINE, *OFFLINE])
def test_the_policy_exempts_no_server_that_has_a_network(command: str, network: bool | None) -> None:
    server = make_server(command=command, args=(ONLINE | OFFLINE)[command], network=network)
    by_default: bool | Literal["public"] = "public" if command in ONLINE else False
    expected = by_default if network is None else network
    assert build_service_spec(ServerAddress("s", server, "key", "me", None)).network == expected
    assert is_isolated(server, can_isolate=True) == (not expected)


def test_without_isolation_only_containers_are_kept_from_the_network() -> None:
    servers = {
        "host": make_server(command="python", args=("server.py",), network=False),
        "container": make_server(command="docker", args=("run", "-i", "mcp/time"), network=False),
        "open": make_server(command="docker", args=("run", "-i", "mcp/time")),
        "remote": make_server(type="http", url="https://example.org/mcp"),
        "events": make_server(type="sse", url="https://example.org/sse", network=False),
    }
    assert isolated_servers(servers, can_isolate=False) == {"container"}
    assert isolated_servers(servers, can_isolate=True) == {"host", "container"}


def make_server(**entry: Any) -> McpServerConfig:
    return McpServerConfig.model_validate(entry)
