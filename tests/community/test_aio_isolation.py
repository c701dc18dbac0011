"""Isolation of containers. Each refused attempt has a twin that shows it working where it is allowed."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from deerflow.domain.errors import SandboxError
from deerflow.domain.files import OUTPUTS, WORKSPACE
from deerflow.domain.sandbox import Sandbox
from deerflow.sandbox.files.files import thread_files
from deerflow.sandbox.files.mounts import SANDBOX_UID, user_data_folder
from tests.community.support import ContainerEngine, running_provider
from tests.conformance.command_suite import run_command, wait_until
from tests.conformance.sandbox_suite import acquire

pytestmark = pytest.mark.asyncio(loop_scope="module")
CONNECT = "timeout 3 bash -c 'exec 3<>/dev/tcp/{host}/{port} && head -1 <&3'"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("isolated")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(engine: ContainerEngine, folder: Path) -> AsyncIterator[Sandbox]:
    async with running_provider(engine, folder, limits={"memory_mb": 256, "processes": 64, "disk_mb": 64}) as provider:
        yield await acquire(provider, "t1")


@pytest_asyncio.fixture(loop_scope="module")
async def canary() -> AsyncIterator[int]:
    """Serve a greeting at every address of this machine."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"canary\n")
        writer.close()

    server = await asyncio.start_server(greet, "0.0.0.0", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_commands_run_unprivileged(sandbox: Sandbox) -> None:
    status = await run_command(sandbox, "cat /proc/self/status; id -u")
    for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
        assert line in status
    assert status.endswith(f"{SANDBOX_UID}\n")


@pytest.mark.parametrize(
    "attempt",
    [
        "touch /usr/bin/mine",
        "touch /opt/deerflow/server.py",
        "mount -t tmpfs none /mnt/user-data/workspace",
        "unshare --user --map-root-user true",
        "unshare --net true",
        "mknod /tmp/disk b 8 0",
        "chroot / true",
        "kill -9 1; test ! -e /proc/1",
        "echo x > /proc/sys/kernel/core_pattern",
        "cat /proc/1/environ",
        "python3 -c 'import ctypes, os; os._exit(ctypes.CDLL(None).syscall(56, 0x10000000 | 17, 0, 0, 0, 0) == -1)'",
        "ls /proc/1/root/",
        "dmesg",
        "touch /mnt/skills/mine",
        "touch /mnt/acp-workspace/mine",
        "ls /var/run/docker.sock /run/podman",
        "nice -n -5 true 2>&1 | grep -q denied && exit 1",
        "date -s 2001-01-01",
        "hostname other",
    ],
)
async def test_refuses_privileged_operations(sandbox: Sandbox, attempt: str) -> None:
    assert (await sandbox.execute_command(attempt)).exit_code != 0
    assert await run_command(sandbox, "touch /tmp/mine /var/tmp/mine mine && cat /mnt/skills/greeting/SKILL.md") == (
        "Say hello.\n"
    )


async def test_reaches_nothing_without_a_network(sandbox: Sandbox, canary: int, engine: ContainerEngine) -> None:
    assert (await run_command(sandbox, "ls /sys/class/net")).split() == ["lo"]
    for host in (*list_own_addresses(), "10.88.0.1", "127.0.0.1"):
        assert "canary" not in (await sandbox.execute_command(CONNECT.format(host=host, port=canary))).output


async def test_reaches_the_server_with_a_network(engine: ContainerEngine, tmp_path: Path, canary: int) -> None:
    async with running_provider(engine, tmp_path, network="full") as provider:
        sandbox = await acquire(provider, "t1")
        found = [await sandbox.execute_command(CONNECT.format(host=host, port=canary)) for host in list_own_addresses()]
        assert "canary\n" in [result.output for result in found]


async def test_hides_the_server_token_from_commands(sandbox: Sandbox) -> None:
    asking = "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/v1/sandbox"
    assert await run_command(sandbox, asking) == "401"
    assert await run_command(sandbox, f"{asking} -H 'Authorization: Bearer '") == "401"
    assert "TOKEN" not in await run_command(sandbox, "env")


async def test_out_of_memory_kills_the_command_only(sandbox: Sandbox) -> None:
    result = await sandbox.execute_command("python3 -c 'x = bytearray(1 << 30)'")
    assert result.exit_code != 0
    assert await run_command(sandbox, "python3 -c 'x = bytearray(1 << 26)'; echo well") == "well\n"


async def test_contains_and_cleans_up_a_fork_bomb(sandbox: Sandbox) -> None:
    await sandbox.execute_command("bomb() { bomb | bomb & }; bomb; sleep 1000", timeout_s=2)

    async def only_the_server_is_left() -> bool:
        try:
            return int(await run_command(sandbox, "ls -d /proc/[0-9]* | wc -l")) < 10
        except SandboxError:
            return False

    await wait_until(only_the_server_is_left)


async def test_file_size_limit_kills_the_command(sandbox: Sandbox) -> None:
    result = await sandbox.execute_command("head -c 200M /dev/zero > big; sleep 1000", timeout_s=30)
    assert result.exit_code == 137 and "64 MB" in result.output

    async def is_removed() -> bool:  # the size is measured now and then: until it is, this command is ended too
        return (await sandbox.execute_command("rm -f big")).exit_code == 0

    await wait_until(is_removed)


async def test_bounds_an_output_bomb(sandbox: Sandbox) -> None:
    result = await sandbox.execute_command("yes | head -c 200M; echo end")
    assert result.truncated and result.output.endswith("end\n") and len(result.output) < 21_000


async def test_cancelling_kills_every_process_of_a_command(sandbox: Sandbox) -> None:
    received = asyncio.Event()
    command = "setsid sleep 1111 & nohup sleep 1112 & (setsid bash -c 'sleep 1113 & sleep 1114' &); echo up; sleep 1115"
    running = asyncio.create_task(sandbox.execute_command(command, on_output=lambda _: received.set()))
    other = asyncio.create_task(sandbox.execute_command("sleep 1; echo unharmed"))
    async with asyncio.timeout(15):
        await received.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    async def all_are_gone() -> bool:
        return await run_command(sandbox, "pgrep -fc 'sleep 111[1-5]' || true") == "0\n"

    await wait_until(all_are_gone)
    assert (await other).output == "unharmed\n"


async def test_server_reads_and_replaces_files_of_commands(sandbox: Sandbox, folder: Path) -> None:
    await run_command(sandbox, f"umask 077; echo made > {OUTPUTS}/report.md; mkdir {OUTPUTS}/more")
    files = thread_files(user_data_folder(folder / "home", "local", "t1"))
    assert await files.read(f"{OUTPUTS}/report.md") == b"made\n"
    await files.write(f"{OUTPUTS}/more/upload.txt", b"from outside")
    assert await run_command(sandbox, f"cd {OUTPUTS}/more; cat upload.txt; rm upload.txt; stat -c %u .") == (
        f"from outside{SANDBOX_UID}\n"
    )


async def test_links_do_not_lead_to_the_host(sandbox: Sandbox) -> None:
    await run_command(sandbox, "ln -s /etc/hostname link; ln -s / root")
    assert await sandbox.read_file(f"{WORKSPACE}/link") == await run_command(sandbox, "cat /etc/hostname")
    await run_command(sandbox, "rm link root")


def list_own_addresses() -> list[str]:
    """Return the addresses of this machine."""
    found = subprocess.run(["hostname", "-I"], capture_output=True, text=True, timeout=10, check=True).stdout.split()
    return [address for address in found if ":" not in address]
