"""Tests of entries as the documentation of public MCP servers prints them: they connect without an added key."""

import asyncio
import json
import os
import re
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deerflow.config.sections.extensions import McpServerConfig, read_extensions
from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.errors import DeerFlowError, InvalidRequest
from deerflow.mcp.entries import find_pasted_servers
from deerflow.mcp.session.calls import ServerAddress, SessionDependencies
from deerflow.mcp.session.pool import SessionPool
from deerflow.sandbox.egress import Egress
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.sandbox_provider import HostContext
from tests.mcp.support import NoTokens
from tests.support import needs

pytestmark = [pytest.mark.external, pytest.mark.nightly, pytest.mark.timeout(600)]

NPM = (
    "@modelcontextprotocol/server-everything",
    "@modelcontextprotocol/server-filesystem",
    "@modelcontextprotocol/server-memory",
    "@modelcontextprotocol/server-sequential-thinking",
    "@upstash/context7-mcp",
    "@playwright/mcp",
    "tavily-mcp",
    "@brave/brave-search-mcp-server",
)
PYPI = ("mcp-server-time", "mcp-server-fetch", "mcp-server-git")
CODE_BLOCK = re.compile(r"```json[c5]?\s*\n(.*?)```", re.S)
PLACES = ("/Users/username/Desktop", "/path/to/other/allowed/dir", "path/to/git/repo")
"""Paths that the documentation tells its readers to replace."""
NOT_STDIO = {"http", "docker", "cmd"}
AT_A_TIME = 2
PASSED_ON = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "NPM_CONFIG_REGISTRY", "UV_DEFAULT_INDEX")


async def test_printed_entries_connect(tmp_path: Path, disk_path: Path) -> None:
    folder = disk_path / "folder"
    make_repository(folder)
    file = tmp_path / "extensions_config.json"
    servers: dict[str, McpServerConfig] = {}
    for package, page in read_pages(tmp_path):
        file.write_text(json.dumps({"mcpServers": {package: find_printed_entry(page, folder)}}))
        # `${input:brave_api_key}` of VS Code is a variable here.
        servers |= read_extensions(file, {"BRAVE_API_KEY": "key"}, name=file.name).mcp_servers
    tools = await list_servers(tmp_path / "home", servers)
    assert len(tools) == len(NPM) + len(PYPI)
    assert all(isinstance(count, int) and count > 0 for count in tools.values()), tools


def make_repository(folder: Path) -> None:
    """Create an empty Git repository."""
    (folder / ".git").mkdir(parents=True)
    for name, text in (("HEAD", "ref: refs/heads/main\n"), ("config", "[core]\n")):
        (folder / ".git" / name).write_text(text)
    for name in ("objects", "refs"):
        (folder / ".git" / name).mkdir()


def read_pages(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the documentation of each package, as published today."""
    for number, package in enumerate(NPM):
        place = folder / f"npm-{number}"
        place.mkdir()
        run([needs("npm"), "pack", "--silent", package], place)
        run(["tar", "xf", next(place.glob("*.tgz"))], place)
        yield package, (place / "package" / "README.md").read_text()
    place = folder / "pypi"
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    run([uv, "pip", "install", "--quiet", "--no-deps", "--target", place, *PYPI], folder)
    for package in PYPI:
        (metadata,) = place.glob(f"{package.replace('-', '_')}-*.dist-info/METADATA")
        yield package, metadata.read_text()


def find_printed_entry(page: str, folder: Path) -> Mapping[str, Any]:
    """Return the first entry of a page that starts a package on stdio, with `folder` for the paths to replace."""
    for block in CODE_BLOCK.findall(page):
        for place in PLACES:
            block = block.replace(place, str(folder))
        with suppress(InvalidRequest):
            for entry in find_pasted_servers(block).values():
                words = {entry.get("command"), *entry.get("args", ())}
                if words & {"npx", "uvx"} and not words & NOT_STDIO and "mcp-remote" not in words:
                    return entry
    pytest.fail(f"no entry found in {page[:200]}")


def run(command: Sequence[str | Path], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, timeout=120, capture_output=True)


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
