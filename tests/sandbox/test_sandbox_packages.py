"""Package installation with pip, and the machine's Node."""

import asyncio
import ensurepip
import os
import re
import shutil
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import pytest

from deerflow.config.sections.sandbox import SandboxConfig, ToolboxConfig
from deerflow.domain.sandbox import CommandResult
from deerflow.sandbox.egress import Egress, IPAddress, Streams, dial
from deerflow.sandbox.files.mounts import HOME
from deerflow.sandbox.local import LocalSandboxProvider
from deerflow.sandbox.local.toolbox import ToolboxBuilder
from deerflow.sandbox.sandbox_provider import HostContext, SandboxComponent
from tests.certificates import make_certificate, read_certificate
from tests.sandbox.wheels import ToolboxFixture, build_wheel, make_lock_line
from tests.support import needs

pytestmark = pytest.mark.slow

LIMIT_S = 120.0
HOST = "packages.example"
SHOW = "python3 -c 'import saw; print(saw.version, saw.__file__)'"
OpenSession = Callable[..., AbstractAsyncContextManager["SandboxSession"]]


@dataclass
class Index:
    """Package index (PEP 503) with one package."""

    file: Path
    port: int = 0
    asked: list[str] = field(default_factory=list)

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        path = request.split(" ", 2)[1]
        self.asked.append(path)
        kind, content = "text/html", b"no such page"
        if path == "/simple/saw/":
            content = f'<!DOCTYPE html><a href="/files/{self.file.name}">{self.file.name}</a>'.encode()
        elif path.startswith("/files/"):
            kind, content = "application/octet-stream", self.file.read_bytes()
        status = "404 Not Found" if content == b"no such page" else "200 OK"
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\nConnection: close\r\n"
        writer.write(f"{head}\r\n".encode() + content)
        await writer.drain()
        writer.close()


@dataclass
class SandboxSession:
    """Sandbox of one thread, released and acquired again between commands."""

    provider: LocalSandboxProvider

    async def run(self, command: str) -> CommandResult:
        async with asyncio.timeout(LIMIT_S):
            sandbox_id = await self.provider.acquire("t", "u")
            sandbox = await self.provider.get(sandbox_id)
            assert sandbox is not None
            try:
                return await sandbox.execute_command(command)
            finally:
                await self.provider.release(sandbox_id)


@pytest.fixture
async def index(tmp_path: Path) -> AsyncIterator[Index]:
    (tmp_path / "served").mkdir()
    index = Index(build_wheel(tmp_path / "served", "saw"))
    async with await asyncio.start_server(index, "127.0.0.1", 0) as server:
        index.port = server.sockets[0].getsockname()[1]
        yield index


@pytest.fixture(params=["toolbox", "system"])
async def open_session(request: pytest.FixtureRequest, tmp_path: Path) -> OpenSession:
    """Open real sandboxes with the Python of a small toolbox, or the system's."""
    needs("bwrap")
    if request.param == "system":
        needs("pip")

    @asynccontextmanager
    async def opener(egress: Egress | None = None, **settings: object) -> AsyncIterator[SandboxSession]:
        config = SandboxConfig.model_validate({"toolbox": {"enabled": request.param == "toolbox"}, **settings})
        builder = create_small_toolbox(tmp_path) if request.param == "toolbox" else None
        host = HostContext(tmp_path / "home", tmp_path / "cache", environment={})
        provider = LocalSandboxProvider(config, host, egress, builder=builder)
        try:
            assert (await provider.open()).tier == "isolated"
            async with asyncio.timeout(LIMIT_S):
                await provider.prepare()
            yield SandboxSession(provider)
        finally:
            await provider.aclose()

    return opener


def create_small_toolbox(folder: Path) -> ToolboxBuilder:
    (folder / "workshop").mkdir()
    fixture = ToolboxFixture(folder / "workshop")
    bundled = [Path(ensurepip.__file__).parent / "_bundled", Path("/usr/share/python-wheels")]  # the latter on Debian
    pip = next(wheel for place in bundled for wheel in place.glob("pip-*.whl"))
    (fixture.wheels / pip.name).write_bytes(pip.read_bytes())
    fixture.lock.write_text(fixture.lock.read_text() + make_lock_line(pip))
    return fixture.builder()


async def test_pip_reports_the_missing_network(open_session: OpenSession, index: Index) -> None:
    async with open_session() as session:
        for source in ("", f"--index-url https://{HOST}/simple/"):
            result = await session.run(f"pip install {source} saw")
            assert result.exit_code != 0
            assert re.search(r"name resolution|Name or service not known", result.output), result.output
        direct = await session.run(f"pip install --index-url http://127.0.0.1:{index.port}/simple/ saw")
        assert direct.exit_code != 0 and "Connection refused" in direct.output
        assert (await session.run(SHOW)).exit_code != 0
    assert index.asked == []


async def test_pip_installs_packages_with_the_full_network(open_session: OpenSession, index: Index) -> None:
    async with open_session(network="full") as session:
        url = f"http://127.0.0.1:{index.port}/simple/"
        both = await session.run(f"pip install --index-url {url} saw && {SHOW} && saw")
        assert both.exit_code == 0, both.output
        assert f"1.0 {HOME}/.local/lib/" in both.output and both.output.rstrip().endswith("saw 1.0")
        later = await session.run(f"{SHOW} && saw && pip uninstall -y saw && ! {SHOW} 2>/dev/null")
        assert later.exit_code == 0, later.output
        assert later.output.startswith(f"1.0 {HOME}/.local/lib/")


async def test_pip_reaches_allowed_hosts(open_session: OpenSession, index: Index, certificate: Path) -> None:
    async with secure_port(index, certificate) as ports:
        egress = create_loopback_egress(ports)
        async with open_session(egress, network="allowlist", allowed_hosts=[HOST]) as session:
            await session.run(f"cat > ca.pem <<'END'\n{read_certificate(certificate)}\nEND")
            install = "pip --cert ca.pem install --no-cache-dir --index-url"
            done = await session.run(f"{install} https://{HOST}/simple/ saw && {SHOW}")
            assert done.exit_code == 0, done.output
            assert f"1.0 {HOME}/.local/lib/" in done.output


async def test_pip_shows_why_another_host_is_refused(open_session: OpenSession, index: Index) -> None:
    egress = create_loopback_egress({443: index.port, 80: index.port})
    async with open_session(egress, network="allowlist", allowed_hosts=[HOST]) as session:
        result = await session.run("pip install --retries 1 --index-url https://evil.example/simple/ saw")
        assert result.exit_code != 0
        assert f"evil.example is not on the list; this sandbox reaches only: {HOST}" in result.output
    assert index.asked == []


async def test_runs_node_and_npm_of_this_machine(tmp_path: Path) -> None:
    node = Path(needs("node"))
    programs = [name for name in ("npm", "npx") if (node.parent / name).exists()]
    async with open_session_with(tmp_path) as session:
        printed = await session.run(
            f"node -e 'console.log(6 * 7)'{''.join(f' && {name} --version' for name in programs)}"
        )
        assert printed.exit_code == 0, printed.output
        assert printed.output.startswith("42\n") and len(printed.output.split()) == 1 + len(programs)
        assert (await find_component(session, "node")).state == "ok"


async def test_runs_a_node_that_only_root_can_reach(tmp_path: Path) -> None:
    folder = tmp_path / "private" / "v20.0.0"
    copy_node(folder, 0o755)
    (tmp_path / "private").chmod(0o700)
    async with open_session_with(tmp_path, PATH=str(folder / "bin")) as session:
        printed = await session.run("node -e 'console.log(process.execPath)' && tool")
        assert printed.output.split() == ["/opt/node/bin/node", "7"]
        node = await find_component(session, "node")
        assert node.state == "ok" and node.detail.endswith(" at /opt/node/bin/node")


@pytest.mark.skipif(os.geteuid() != 0, reason="for its owner a program is never out of reach")
async def test_reports_a_node_without_execute_permission(tmp_path: Path) -> None:
    folder = tmp_path / "alone"
    copy_node(folder, 0o700)
    no_other = SandboxConfig(environment={"PATH": "/opt/node/bin"})
    async with open_session_with(tmp_path, no_other, PATH=str(folder / "bin")) as session:
        node = await find_component(session, "node")
        assert node.state == "note" and "commands cannot use it" in node.detail and "Permission denied" in node.detail
        assert node.remedy is not None and "every user" in node.remedy


def copy_node(folder: Path, mode: int) -> None:
    """Copy this machine's Node to `folder`, with an npm package."""
    package = folder / "lib" / "node_modules" / "tool"
    for made in (folder / "bin", folder / "include" / "node", package):
        made.mkdir(parents=True)
    real = Path(needs("node")).resolve()
    shutil.copyfile(real, folder / "bin" / "node")
    (folder / "bin" / "node").chmod(mode)
    (package / "tool.js").write_text("#!/usr/bin/env node\nconsole.log(3 + 4)\n")
    (package / "tool.js").chmod(0o755)
    (folder / "bin" / "tool").symlink_to("../lib/node_modules/tool/tool.js")


@asynccontextmanager
async def open_session_with(
    folder: Path, config: SandboxConfig = SandboxConfig(), **environment: str
) -> AsyncIterator[SandboxSession]:
    """Open a real sandbox of a server with these variables."""
    needs("bwrap")
    host = HostContext(folder / "home", folder / "cache", environment=environment)
    config = config.model_copy(update={"toolbox": ToolboxConfig(enabled=False)})
    provider = LocalSandboxProvider(config, host)
    try:
        assert (await provider.open()).tier == "isolated"
        yield SandboxSession(provider)
    finally:
        await provider.aclose()


async def find_component(session: SandboxSession, name: str) -> SandboxComponent:
    (found,) = [part for part in await session.provider.components() if part.name == name]
    return found


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate for the index, followed by its key."""
    return make_certificate(tmp_path_factory.mktemp("certificate"), [HOST])


@asynccontextmanager
async def secure_port(index: Index, certificate: Path) -> AsyncIterator[dict[int, int]]:
    """Serve the index by TLS."""
    inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inside.load_cert_chain(certificate)
    async with await asyncio.start_server(index, "127.0.0.1", 0, ssl=inside) as server:
        yield {443: server.sockets[0].getsockname()[1], 80: index.port}


def create_loopback_egress(ports: dict[int, int]) -> Egress:
    """Return an egress whose only host is this machine."""

    async def look_up(host: str) -> Sequence[str]:
        return ["127.0.0.1"]

    async def dial_here(addresses: Sequence[IPAddress], port: int) -> Streams:
        return await dial(addresses, ports[port])

    return Egress(look_up, lambda address: address == ip_address("127.0.0.1"), dial_here)
