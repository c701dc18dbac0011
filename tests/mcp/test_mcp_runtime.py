"""Tests of MCP servers in a harness: loaded with the first configured server."""

import subprocess
import sys
from pathlib import Path

import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.harness import open_harness
from deerflow.mcp.status import ToolOffer

USER = LOCAL_USER.user_id
WITHOUT_SERVERS = """
import asyncio, sys
from pathlib import Path
from deerflow.config.source import open_source
from deerflow.harness import open_harness

async def main():
    async with open_harness(open_source(directory=Path(sys.argv[1]), environment={})) as harness:
        await harness.core.mcp.prepare("user")
    print(*sys.modules)

asyncio.run(main())
"""


async def test_without_servers_nothing_is_offered_or_loaded(tmp_path: Path) -> None:
    async with open_harness(open_source(directory=tmp_path, environment={})) as harness:
        await harness.core.mcp.prepare(USER)
        await harness.core.mcp.prepare(USER)
        await harness.core.mcp.forget_thread("t", USER)

        assert harness.core.mcp.offer(USER) == ToolOffer()
        assert not harness.core.mcp.is_loaded


@pytest.mark.slow
def test_without_servers_the_modules_of_mcp_are_not_imported(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_SERVERS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert not {"mcp", "deerflow.mcp.servers", "deerflow.mcp.auth.service"} & set(done.stdout.split())


async def test_server_added_later_is_listed_for_the_next_run(tmp_path: Path) -> None:
    async with open_harness(open_source(directory=tmp_path, environment={})) as harness:
        await harness.core.mcp.prepare(USER)
        text = '{"mcpServers": {"gone": {"type": "http", "url": "http://127.0.0.1:9/mcp"}}}'
        (tmp_path / "extensions_config.json").write_text(text)
        await harness.core.mcp.prepare(USER, wait_s=30)

        (status,) = harness.resources.mcp_servers.catalog.statuses(USER)

    assert (status.name, status.state) == ("gone", "failed")
