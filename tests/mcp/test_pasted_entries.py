"""Tests of entries as the documentation of public MCP servers prints them: they connect without an added key."""

import asyncio
import os
import sysconfig
from pathlib import Path

import pytest

from deerflow.config.sections.extensions import McpServerConfig, read_extensions
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.errors import DeerFlowError
from deerflow.mcp.session.calls import ServerAddress, SessionDependencies
from deerflow.mcp.session.pool import SessionPool
from deerflow.sandbox.egress import Egress
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.sandbox_provider import HostContext
from tests.mcp.support import NoTokens
from tests.support import needs

pytestmark = [pytest.mark.external, pytest.mark.nightly, pytest.mark.timeout(600)]

FROM_NPM = """
{
  "mcpServers": {
    "everything": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"]},
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/path/to/folder"]
    },
    "memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]},
    "sequential-thinking": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-sequential-thinking"]
    },
    "context7": {"command": "npx", "args": ["-y", "@upstash/context7-mcp", "--api-key", "YOUR_API_KEY"]},
    "playwright": {"command": "npx", "args": ["@playwright/mcp@latest"]},
    "tavily-mcp": {
      "command": "npx",
      "args": ["-y", "tavily-mcp@latest"],
      "env": {"TAVILY_API_KEY": "your-api-key-here"},
      "disabled": false,
      "autoApprove": []
    },
  }
}
"""
FROM_VS_CODE = """
{
  // .vscode/mcp.json
  "servers": {
    "brave-search": {
      "type": "stdio",
      "command": "npx",
      "args": ["-y", "@brave/brave-search-mcp-server", "--transport", "stdio"],
      "env": {"BRAVE_API_KEY": "${input:brave-api-key}"}
    }
  },
  "inputs": [{"password": true, "id": "brave-api-key", "type": "promptString", "description": "Brave Search API Key"}]
}
"""
FROM_PYPI = """
{
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]},
    "fetch": {"command": "uvx", "args": ["mcp-server-fetch"]},
    "git": {"command": "uvx", "args": ["mcp-server-git", "--repository", "/path/to/folder"]}
  }
}
"""
AT_A_TIME = 2
PASSED_ON = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "NPM_CONFIG_REGISTRY", "UV_DEFAULT_INDEX")


@pytest.mark.parametrize("pasted", [FROM_NPM, FROM_VS_CODE, FROM_PYPI], ids=["npm", "vs code", "pypi"])
async def test_printed_entries_connect(tmp_path: Path, pasted: str) -> None:
    folder = tmp_path / "folder"
    (folder / ".git").mkdir(parents=True)
    for name, text in (("HEAD", "ref: refs/heads/main\n"), ("config", "[core]\n")):
        (folder / ".git" / name).write_text(text)
    for name in ("objects", "refs"):
        (folder / ".git" / name).mkdir()
    file = tmp_path / "extensions_config.json"
    file.write_text(pasted.replace("/path/to/folder", str(folder)))
    servers = read_extensions(file, {"BRAVE_API_KEY": "key"}, name=file.name).mcp_servers
    tools = await list_servers(tmp_path / "home", servers)
    assert tools.keys() == servers.keys()
    assert all(isinstance(count, int) and count > 0 for count in tools.values()), tools


async def list_servers(home: Path, servers: dict[str, McpServerConfig]) -> dict[str, int | str]:
    """Return the number of tools of each server, or the error."""
    needs("npx")
    # Registries can have any address here; elsewhere the proxy reaches public ones alone.
    egress = Egress(is_allowed=lambda address: not address.is_loopback)
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}  # noqa: TID251
    environment["PATH"] = f"{sysconfig.get_path('scripts')}:/usr/bin:/bin"
    config = SandboxConfig.model_validate({"toolbox": {"enabled": False}})
    sandboxes = LocalSandboxProvider(config, HostContext(home, home / "cache", None, environment), egress)
    await sandboxes.open()
    pool = SessionPool(SessionDependencies(sandboxes.start_service, NoTokens()))
    turns = asyncio.Semaphore(AT_A_TIME)

    async def list_server(name: str) -> int | str:
        async with turns:
            try:
                return len((await pool.fetch_listing(ServerAddress(name, servers[name], name, "", None))).tools)
            except DeerFlowError as problem:
                return str(problem)

    try:
        found = await asyncio.gather(*map(list_server, servers))
    finally:
        await pool.aclose()
        await sandboxes.aclose()
    return dict(zip(servers, found, strict=True))
