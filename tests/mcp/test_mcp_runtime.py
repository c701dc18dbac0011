"""Tests of MCP servers in a harness: loaded with the first configured server."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from deerflow.config.source import open_source
from deerflow.domain.identity import LOCAL_USER
from deerflow.harness import open_harness
from deerflow.mcp.runtime import ServiceStarter
from deerflow.mcp.status import ToolOffer
from deerflow.sandbox.files.mounts import thread_folder
from deerflow.sandbox.jobs.services import ServiceSpec
from deerflow.sandbox.sandbox_provider import HostContext
from tests.mcp.support import create_source

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


class SandboxesWithoutServices:
    """Provider that cannot start services, like that of containers."""


async def test_servers_run_where_the_sandbox_is_a_container(tmp_path: Path) -> None:
    source = create_source(tmp_path, {})
    loaded = source.current
    host = HostContext(loaded.home, loaded.cache, None, loaded.environment)
    starter = ServiceStarter(loaded.config.sandbox, host, SandboxesWithoutServices())  # type: ignore[arg-type]
    workspace = thread_folder(source.current.home, "ada", "t1") / "user-data" / "workspace"
    program = ("/bin/bash", "-c", "read -r name; echo hello > $name; id -u")
    services = [await starter.start(ServiceSpec(name, program, "ada", "t1")) for name in ("a", "b")]
    try:
        for name, service in zip("ab", services, strict=True):
            await service.write(f"{name}.txt\n".encode())
            async with asyncio.timeout(20):
                assert int(await service.output.readline()) != 0
            assert (workspace / f"{name}.txt").read_text() == "hello\n"
    finally:
        for service in services:
            await service.aclose()
        await starter.aclose()
