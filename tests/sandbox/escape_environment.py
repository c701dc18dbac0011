"""Environment for escape attempts: `python -m tests.sandbox.escape_environment MODE FOLDER`.

It runs in a new process, because a server of an ordinary user is one that has dropped root. It prints the results of
all attempts as JSON.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from deerflow.config.sections.sandbox import LimitsConfig, MountConfig, SandboxConfig, ToolboxConfig
from deerflow.domain.errors import DeerFlowError
from deerflow.domain.files import WORKSPACE
from deerflow.domain.sandbox import Sandbox
from deerflow.sandbox.egress import Egress, IPAddress, Streams, dial
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.local.launcher.server import (
    CLONE_NEWNS,
    LIBC,
    MS_BIND,
    MS_REC,
    MS_SLAVE,
    check_errno,
    drop_root,
    mount,
)
from deerflow.sandbox.sandbox_provider import HostContext, SandboxReport
from tests.sandbox.escape_attempts import BY_COMMAND, Attempt

INSIDE = Path(__file__).with_name("inside_programs.py")
SECRET_VARIABLE = "DEERFLOW_TEST_SECRET"
ORDINARY_UID = 54321
SMALL_LIMITS = LimitsConfig(memory_mb=128, processes=32, file_mb=16, disk_mb=32)
CONCURRENCY = 4
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\norigin"
ADDRESSES = {"allowed.example": "127.0.0.1", "evil.example": "127.0.0.1", "rebound.example": "169.254.169.254"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of one attempt and of its twin."""

    escaped: str = ""
    works: bool = True
    evidence: str = ""


@dataclass
class Listener:
    """Server that sandboxes must not reach, or the only host they may reach."""

    answer: bytes = b"met"
    received: list[bytes] = field(default_factory=list)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received.append(await reader.read(65536))
        writer.write(self.answer)
        writer.close()


class Datagrams(asyncio.DatagramProtocol):
    def __init__(self, listener: Listener) -> None:
        self.listener = listener

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.listener.received.append(data)


@dataclass
class EscapeEnvironment:
    """Server with three providers, its secrets, and listeners that must not be reached."""

    home: Path
    secret: str
    outside: Listener
    origin: Listener
    victim: "subprocess.Popen[bytes]"
    report: SandboxReport
    provider: LocalSandboxProvider
    small: LocalSandboxProvider
    allowlist: LocalSandboxProvider
    words: dict[str, str]

    async def sandbox(self, thread_id: str, provider: LocalSandboxProvider | None = None) -> Sandbox:
        provider = provider or self.provider
        sandbox = await provider.get(await provider.acquire(thread_id, "local"))
        assert sandbox is not None
        await sandbox.update_file(f"{WORKSPACE}/inside.py", INSIDE.read_bytes())
        await sandbox.write_file(f"{WORKSPACE}/mine.txt", "mine alone\n")
        return sandbox

    def fill(self, command: str) -> str:
        for word, value in self.words.items():
            command = command.replace(f"@{word}@", value)
        return command

    def harm(self, output: str = "") -> str:
        """Return what was reached outside."""
        signs = {
            "it said so": "ESCAPED" in output,
            "the secret": self.secret in output,
            "the server was met": bool(self.outside.received),
            "the victim is dead": self.victim.poll() is not None,
        }
        return ", ".join(sign for sign, is_there in signs.items() if is_there)


HostAttempt = Callable[[EscapeEnvironment], Awaitable[Verdict]]


async def run_attempt(world: EscapeEnvironment, attempt: Attempt, number: int) -> Verdict:
    """Run a command and its twin in a new thread."""
    sandbox = await world.sandbox(f"attempt-{number}")
    tried = await sandbox.execute_command(world.fill(attempt.command), timeout_s=20)
    twin = await sandbox.execute_command(world.fill(attempt.twin), timeout_s=20)
    await world.provider.discard(f"attempt-{number}", "local")
    works = twin.exit_code == 0 and "OK" in twin.output
    return Verdict(world.harm(tried.output), works, f"{tried.output[-600:]} | {twin.output[-300:]}")


def open_provider(home: Path, config: SandboxConfig, egress: Egress | None = None) -> LocalSandboxProvider:
    skills = (lambda _: home / "skills") if (home / "skills").exists() else None
    places = HostContext(home, home / "cache", skills, dict(os.environ))  # noqa: TID251 (as the server does)
    return LocalSandboxProvider(config.model_copy(update={"toolbox": ToolboxConfig(enabled=False)}), places, egress)


@asynccontextmanager
async def open_environment(folder: Path) -> AsyncIterator[EscapeEnvironment]:
    secret = os.environ[SECRET_VARIABLE]  # noqa: TID251 (a secret of the server's environment)
    home = folder / "state"
    write_secrets(home, secret)
    outside, origin = Listener(), Listener(ANSWER)
    async with AsyncExitStack() as stack:
        words = await start_listeners(stack, outside, home)
        origin_server = await stack.enter_async_context(await asyncio.start_server(origin, "127.0.0.1", 0))
        ports = dict.fromkeys((80, 443), origin_server.sockets[0].getsockname()[1])
        egress = Egress(
            resolve_host, lambda address: address == ip_address("127.0.0.1"), partial(dial_listener, ports, words)
        )
        shown = MountConfig(host_path=str(home / "shown"), container_path="/mnt/shown", read_only=True)
        hosts = ("allowed.example", "rebound.example", "nowhere.example")
        providers = [
            open_provider(home, SandboxConfig(mounts=(shown,), environment={"SHOWN": "shown"})),
            open_provider(home / "small", SandboxConfig(limits=SMALL_LIMITS)),
            open_provider(home / "allowlist", SandboxConfig(network="allowlist", allowed_hosts=hosts), egress),
        ]
        reports = []
        for provider in providers:
            stack.push_async_callback(provider.aclose)
            reports.append(await provider.open())
        victim = subprocess.Popen(["sleep", "1000"])  # noqa: ASYNC220 (it takes no time)
        stack.callback(victim.wait)
        stack.callback(victim.kill)
        words |= {"home": str(home), "terces": secret[::-1], "tmp_name": folder.name}
        words |= {"victim": str(victim.pid), **await create_other_threads(providers[0], home, secret)}
        yield EscapeEnvironment(home, secret, outside, origin, victim, reports[0], *providers, words)


def write_secrets(home: Path, secret: str) -> None:
    for name, text in {
        "deerflow.db": secret,
        "skills/greeting/SKILL.md": "Say hello.\n",
        "shown/file": "shown\n",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


async def create_other_threads(provider: LocalSandboxProvider, home: Path, secret: str) -> dict[str, str]:
    """Create threads of the same user and of another, and return their paths on the host."""
    for thread_id, user_id in (("other", "local"), ("theirs", "stranger")):
        sandbox = await provider.get(await provider.acquire(thread_id, user_id))
        assert sandbox is not None
        await sandbox.write_file(f"{WORKSPACE}/others.txt", secret)
    users = home / "users"
    return {
        "other_file": str(users / "local/threads/other/user-data/workspace/others.txt"),
        "stranger_file": str(users / "stranger/threads/theirs/user-data/workspace/others.txt"),
    }


async def start_listeners(stack: AsyncExitStack, outside: Listener, home: Path) -> dict[str, str]:
    """Start servers of the host that must not be reached, and return their addresses."""
    abstract, path = f"deerflow-test-{os.getpid()}", home / "server.sock"
    tcp = await stack.enter_async_context(await asyncio.start_server(outside, "0.0.0.0", 0))
    tcp6 = await stack.enter_async_context(await asyncio.start_server(outside, "::1", 0))
    await stack.enter_async_context(await asyncio.start_unix_server(outside, f"\0{abstract}"))
    await stack.enter_async_context(await asyncio.start_unix_server(outside, path))
    loop = asyncio.get_running_loop()
    udp, _ = await loop.create_datagram_endpoint(lambda: Datagrams(outside), local_addr=("127.0.0.1", 0))
    stack.callback(udp.close)
    port = tcp.sockets[0].getsockname()[1]
    return {
        "tcp_port": str(port),
        "tcp_port_hex": f"{port:04X}",
        "tcp6_port": str(tcp6.sockets[0].getsockname()[1]),
        "udp_port": str(udp.get_extra_info("sockname")[1]),
        "abstract": abstract,
        "socket_path": str(path),
        "own_address": find_own_address(),
    }


def find_own_address() -> str:
    """Return an address of this machine other than loopback, if there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            any_socket.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return "127.0.0.1"
        return str(any_socket.getsockname()[0])


async def resolve_host(host: str) -> Sequence[str]:
    return [ADDRESSES[host]] if host in ADDRESSES else []


async def dial_listener(
    ports: dict[int, int], words: dict[str, str], addresses: Sequence[IPAddress], port: int
) -> Streams:
    """Connect the usual ports to the only host; all others to the server that must not be reached."""
    return await dial(addresses, ports.get(port, int(words["tcp_port"])))


async def run_attempts(folder: Path, host_attempts: dict[str, HostAttempt]) -> dict[str, object]:
    """Run every attempt and return the results."""
    verdicts: dict[str, Verdict] = {}
    async with open_environment(folder) as world:
        places = asyncio.Semaphore(CONCURRENCY)

        async def judge_one(attempt: Attempt, number: int) -> None:
            async with places:
                verdicts[attempt.name] = await run_with_limit(run_attempt(world, attempt, number))

        await asyncio.gather(*(judge_one(attempt, number) for number, attempt in enumerate(BY_COMMAND)))
        for name, host_attempt in host_attempts.items():
            world.outside.received.clear()
            verdicts[name] = await run_with_limit(host_attempt(world))
        return {"tier": world.report.tier, "verdicts": {name: asdict(each) for name, each in verdicts.items()}}


async def run_with_limit(attempt: Awaitable[Verdict]) -> Verdict:
    """Return the result of an attempt; an exception counts as an escape."""
    try:
        async with asyncio.timeout(60):
            return await attempt
    except (DeerFlowError, OSError, TimeoutError) as problem:
        return Verdict(f"it broke something: {problem!r}", works=False)


def drop_privileges(folder: Path) -> None:
    """Drop root permanently, in a mount namespace where our Python can still be started."""
    os.chown(folder, ORDINARY_UID, ORDINARY_UID)
    make_reachable(Path(sys.executable).resolve().parent.parent, Path(__file__).parents[2])
    drop_root(ORDINARY_UID)


def make_reachable(*folders: Path) -> None:
    """Mount public folders over those that hide our Python and our code, for this process only."""
    hidden = {folder: find_hidden_parent(folder) for folder in folders}
    if not any(hidden.values()):
        return
    check_errno(LIBC.unshare(CLONE_NEWNS), "unshare")
    mount("none", "/", None, MS_REC | MS_SLAVE)
    needed = {folder: os.open(folder, os.O_PATH) for folder, above in hidden.items() if above is not None}
    for above in {above for above in hidden.values() if above is not None}:
        mount("tmpfs", str(above), "tmpfs", 0)
        above.chmod(0o711)
    for folder, descriptor in needed.items():
        folder.mkdir(parents=True, exist_ok=True)
        mount(f"/proc/self/fd/{descriptor}", str(folder), None, MS_BIND | MS_REC)
        os.close(descriptor)


def find_hidden_parent(folder: Path) -> Path | None:
    """Return the outermost folder above this one that other users cannot enter."""
    return next((above for above in reversed(folder.parents) if not above.stat().st_mode & 0o001), None)


def main(mode: str, folder: Path, host_attempts: dict[str, HostAttempt]) -> None:
    if mode == "user" and os.geteuid() == 0:
        drop_privileges(folder)
    json.dump(asyncio.run(run_attempts(folder, host_attempts)), sys.stdout)
