"""Commands while the Python toolbox is being built: Python waits, everything else runs at once."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from deerflow.config.sections.sandbox import SandboxConfig
from deerflow.domain.sandbox import Sandbox
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.local.toolbox import ToolboxBuilder, find_uv
from deerflow.sandbox.sandbox_provider import HostContext
from tests.sandbox.wheels import ToolboxFixture
from tests.support import needs

pytestmark = pytest.mark.slow

LIMIT_S = 60.0
IMPORT = "python3 -c 'import hammer; print(hammer.version)'"


class HeldBuild:
    """Build of a small toolbox that waits until it is let go, then goes on with `rest`."""

    def __init__(self, folder: Path, rest: str) -> None:
        self.fixture = ToolboxFixture(folder)
        self._gate, self._begun = folder / "gate", folder / "begun"
        for pipe in (self._gate, self._begun):
            os.mkfifo(pipe)
        hold = f'[ "$1" != venv ] || {{ echo begun > {self._begun}; read -r line < {self._gate}; }}\n{rest} "$@"'
        self.builder: ToolboxBuilder = self.fixture.builder(find_uv=self.fixture.instead_of_uv(hold))

    async def release(self) -> None:
        await asyncio.to_thread(self._gate.write_text, "go\n")

    async def wait_until_begun(self) -> None:
        await asyncio.to_thread(self._begun.read_text)


@dataclass(frozen=True)
class Session:
    provider: LocalSandboxProvider
    sandbox: Sandbox
    preparing: asyncio.Task[None]

    async def status(self) -> str | None:
        state = await self.provider.toolbox_state()
        return state and state.status


@asynccontextmanager
async def open_sandbox(folder: Path, build: HeldBuild) -> AsyncIterator[Session]:
    """Open a sandbox of a server that has just begun to build its toolbox."""
    needs("bwrap")
    provider = LocalSandboxProvider(SandboxConfig(), HostContext(folder / "home", folder), builder=build.builder)
    try:
        assert (await provider.open()).tier == "isolated"
        preparing = asyncio.create_task(provider.prepare())
        async with asyncio.timeout(LIMIT_S):
            await build.wait_until_begun()
            sandbox = await provider.get(await provider.acquire("t1", "u1"))
            assert sandbox is not None
            yield Session(provider, sandbox, preparing)
            await preparing
    finally:
        await provider.aclose()


async def test_python_waits_for_its_packages_and_says_so_while_other_commands_run(tmp_path: Path) -> None:
    uv = find_uv({"PATH": "/usr/bin:/bin"})
    assert uv is not None
    build = HeldBuild(tmp_path, f"exec {' '.join(uv)}")
    async with open_sandbox(tmp_path, build) as session:
        sandbox = session.sandbox
        assert (await sandbox.execute_command("echo quick")).output == "quick\n"
        state = await session.provider.toolbox_state()
        assert state is not None and (state.status, state.installed, state.total) == ("building", 0, 1)
        said = asyncio.Event()
        running = asyncio.create_task(sandbox.execute_command(IMPORT, on_output=lambda _: said.set()))
        await said.wait()
        assert not running.done()
        await build.release()
        result = await running
        waiting = "[waiting: the Python packages of the sandbox are being installed]"
        assert (result.exit_code, result.output) == (0, f"{waiting}\n1.0\n")
        await session.preparing
        assert await session.status() == "ready"
        assert (await sandbox.execute_command(IMPORT)).output == "1.0\n"


async def test_python_of_the_machine_runs_after_a_failed_build(tmp_path: Path) -> None:
    build = HeldBuild(tmp_path, "exit 1 #")
    async with open_sandbox(tmp_path, build) as session:
        running = asyncio.create_task(session.sandbox.execute_command("python3 -c 'print(1 + 1)'"))
        await build.release()
        result = await running
        assert result.exit_code == 0 and result.output.endswith("2\n")
        await session.preparing
        assert await session.status() == "failed"
        assert (await session.sandbox.execute_command("python3 -c 'print(1 + 2)'")).output == "3\n"
