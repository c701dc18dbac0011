"""Cancellation: nothing that a command started survives its cancellation or the server."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio

from deerflow.config.sections.sandbox import SandboxConfig, ToolboxConfig
from deerflow.domain.errors import SandboxError
from deerflow.domain.sandbox import Sandbox
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.local.launcher import client
from deerflow.sandbox.sandbox_provider import HostContext
from tests.sandbox.processes import find_processes, find_survivors, make_marker, wait_for_processes

pytestmark = pytest.mark.asyncio(loop_scope="module")
TREES = {
    "a sleeper": ("@sleep@", 1),
    "children": ("@sleep@ & @sleep@ & @sleep@ & wait", 3),
    "another session": ("setsid @sleep@ & sleep 999", 1),
    "what ignores the hangup": ("nohup @sleep@ >/dev/null 2>&1 & sleep 999", 1),
    "a double fork": ("(setsid bash -c '(@sleep@ &) & sleep 999' &) ; sleep 999", 1),
    "what ignores signals": ("trap '' TERM INT HUP QUIT; setsid @sleep@ & @sleep@; sleep 999", 2),
    "what is stopped": ("@sleep@ & until grep -q sleep /proc/$!/comm; do :; done; kill -STOP $!; wait", 1),
    "a deep tree": ("f() { [ $1 = 0 ] && exec @sleep@; (f $(($1 - 1))) & wait; }; f 8", 1),
}
SERVER = """
import asyncio, sys
from pathlib import Path
from deerflow.config.sections.sandbox import SandboxConfig, ToolboxConfig
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.local.launcher import client
from deerflow.sandbox.sandbox_provider import HostContext

async def main(home, seconds):
    config = SandboxConfig(toolbox=ToolboxConfig(enabled=False))
    provider = LocalSandboxProvider(config, HostContext(home, home / "cache"))
    await provider.open()
    sandbox = await provider.get(await provider.acquire("t1", "local"))
    await sandbox.start_process("job", f"setsid sleep {seconds} & sleep {seconds}")
    await sandbox.execute_command(f"setsid sleep {seconds} & sleep {seconds}")

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalSandboxProvider]:
    home = tmp_path_factory.mktemp("cancel")
    config = SandboxConfig(toolbox=ToolboxConfig(enabled=False))
    provider = LocalSandboxProvider(config, HostContext(home, home / "cache"))
    assert (await provider.open()).tier == "isolated"
    yield provider
    await provider.aclose()


@pytest_asyncio.fixture(loop_scope="module")
async def sandbox(provider: LocalSandboxProvider) -> Sandbox:
    sandbox = await provider.get(await provider.acquire("t1", "local"))
    assert sandbox is not None
    return sandbox


async def cancel(task: "asyncio.Task[object]") -> None:
    task.cancel()
    async with asyncio.timeout(5):
        await asyncio.wait({task})


def list_launchers() -> list[int]:
    """Return the launcher processes of this test process."""
    return [pid for pid in find_processes("launcher/server.py") if get_parent(pid) == os.getpid()]


def get_parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):  # it belongs to another test and has just ended
        return None


@pytest.mark.parametrize("tree", TREES)
async def test_cancelling_kills(sandbox: Sandbox, tree: str) -> None:
    command, count = TREES[tree]
    seconds = make_marker()
    running = asyncio.create_task(sandbox.execute_command(command.replace("@sleep@", f"sleep {seconds}")))
    await wait_for_processes(f"\0{seconds}\0", count)
    await cancel(running)
    assert await find_survivors(seconds) == []


@pytest.mark.parametrize("tree", TREES)
async def test_timeout_kills(sandbox: Sandbox, tree: str) -> None:
    seconds = make_marker()
    command = TREES[tree][0].replace("@sleep@", f"sleep {seconds}")
    assert (await sandbox.execute_command(command, timeout_s=0.3)).timed_out
    assert await find_survivors(seconds) == []


async def test_cancelling_twice_kills_the_command(sandbox: Sandbox) -> None:
    seconds = make_marker()
    running = asyncio.create_task(sandbox.execute_command(f"sleep {seconds}"))
    await wait_for_processes(f"\0{seconds}\0")
    running.cancel()
    await asyncio.sleep(0)
    await cancel(running)
    assert await find_survivors(seconds) == []


async def test_kills_a_background_server(sandbox: Sandbox) -> None:
    seconds = make_marker()
    await sandbox.start_process("server", f"trap '' TERM; setsid sleep {seconds} & sleep {seconds}")
    await wait_for_processes(f"\0{seconds}\0", 2)
    async with asyncio.timeout(5):
        await sandbox.kill_process("server")
    assert await find_survivors(seconds) == []


async def test_kills_a_background_server_that_has_just_started(sandbox: Sandbox) -> None:
    seconds = make_marker()
    await sandbox.start_process("server", f"sleep {seconds}")
    async with asyncio.timeout(5):
        await sandbox.kill_process("server")
    assert await find_survivors(seconds) == []


@pytest.mark.slow
async def test_cancelling_at_any_moment_leaves_no_processes(sandbox: Sandbox) -> None:
    moments = random.Random(4)
    seconds = make_marker()
    command = f"setsid sleep {seconds} & (setsid sleep {seconds} &) ; sleep {seconds}"
    await sandbox.execute_command("true")
    for steps in range(40):  # those before the first real wait among them
        running = asyncio.create_task(sandbox.execute_command(command))
        for _ in range(steps % 10):
            await asyncio.sleep(0)
        await cancel(running)
    for _ in range(160):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(moments.uniform(0, 0.03)):
                await sandbox.execute_command(command)
    assert await find_survivors(seconds) == []
    assert (await sandbox.execute_command("echo well")).output == "well\n"


async def test_cancelling_many_commands_leaves_no_processes(sandbox: Sandbox) -> None:
    seconds = make_marker()
    running = [asyncio.create_task(sandbox.execute_command(f"setsid sleep {seconds} & wait")) for _ in range(12)]
    await wait_for_processes(f"\0{seconds}\0", 6)
    for task in running:
        task.cancel()
    async with asyncio.timeout(10):
        await asyncio.wait(running)
    assert await find_survivors(seconds) == []


async def test_launcher_exit_kills_its_commands_and_the_next_command_works(
    provider: LocalSandboxProvider, sandbox: Sandbox
) -> None:
    seconds = make_marker()
    await sandbox.start_process("job", f"setsid sleep {seconds} & sleep {seconds}")
    running = asyncio.create_task(sandbox.execute_command(f"setsid sleep {seconds} & sleep {seconds}"))
    await wait_for_processes(f"\0{seconds}\0", 4)
    for pid in list_launchers():
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(10):
        with pytest.raises(SandboxError, match="again"):
            await running
    assert await find_survivors(seconds) == []
    assert (await sandbox.execute_command("echo well")).output == "well\n"
    other = await provider.get(await provider.acquire("t2", "local"))
    assert other is not None and (await other.execute_command("echo well too")).output == "well too\n"
    assert all(process.exit_code is not None for process in await sandbox.list_processes())


async def test_cancelling_during_launcher_start_leaves_no_processes(sandbox: Sandbox) -> None:
    moments = random.Random(6)
    seconds = make_marker()
    for _ in range(12):
        for pid in list_launchers():
            os.kill(pid, signal.SIGKILL)
        with suppress(TimeoutError, SandboxError):
            async with asyncio.timeout(moments.uniform(0, 0.2)):
                await sandbox.execute_command(f"setsid sleep {seconds} & wait")
    assert await find_survivors(seconds) == []
    async with asyncio.timeout(15):
        with suppress(SandboxError):  # the first to notice that the last one is gone
            await sandbox.execute_command("true")
        assert (await sandbox.execute_command("echo well")).output == "well\n"
    assert len(list_launchers()) == 1


async def test_a_launcher_that_exits_before_its_first_packet_is_a_named_error(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = client.spawn_launcher

    def spawn_and_kill(connection: int) -> "subprocess.Popen[bytes]":
        process = spawn(connection)
        process.kill()
        process.wait()
        return process

    for pid in list_launchers():
        os.kill(pid, signal.SIGKILL)
    with monkeypatch.context() as patched:
        patched.setattr(client, "spawn_launcher", spawn_and_kill)
        async with asyncio.timeout(15):
            with suppress(SandboxError):  # the first to notice that the last one is gone
                await sandbox.execute_command("true")
            with pytest.raises(SandboxError, match="did not start"):
                await sandbox.execute_command("true")
    async with asyncio.timeout(15):
        assert (await sandbox.execute_command("echo well")).output == "well\n"


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_server_exit_kills_all_commands(tmp_path: Path, how: signal.Signals) -> None:
    seconds = make_marker()
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SERVER, str(tmp_path), seconds), env={"PYTHONPATH": os.pathsep.join(sys.path)}
    )
    await wait_for_processes(f"\0{seconds}\0", 4)
    server.send_signal(how)
    async with asyncio.timeout(10):
        await server.wait()
    assert await find_survivors(seconds) == []


@pytest.mark.slow
async def test_server_exit_while_commands_start_leaves_no_processes(tmp_path: Path) -> None:
    moments = random.Random(5)
    seconds = make_marker()
    for number in range(4):
        home = tmp_path / str(number)
        home.mkdir()
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", SERVER, str(home), seconds), env={"PYTHONPATH": os.pathsep.join(sys.path)}
        )
        await wait_for_processes(f"sleep {seconds}")
        with suppress(TimeoutError):
            async with asyncio.timeout(moments.uniform(0, 0.03)):
                await server.wait()
        server.kill()
        async with asyncio.timeout(10):
            await server.wait()
        assert await find_survivors(seconds) == []
