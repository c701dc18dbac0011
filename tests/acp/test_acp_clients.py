"""Tests of ACP clients whose agent waits for a decision or works too long. The agent runs in this process."""

import asyncio
import socket
from pathlib import Path

import pytest
from acp import run_agent

from deerflow.acp import AcpError
from deerflow.acp.clients import AcpClients, AcpDependencies, ManagedAcpTurn
from deerflow.config.sections.agents import AcpAgentConfig
from deerflow.config.sections.base import Settings
from deerflow.domain.subagents import AcpRequest, AcpResult, PermissionRequest
from deerflow.sandbox.files.mounts import thread_folder
from deerflow.sandbox.jobs.services import Service, ServiceSpec
from tests.acp.echo_agent import EchoAgent

PERMISSION_REQUEST = AcpRequest("c1", "echo", "permission")


class InProcessService:
    """Echo agent behind a socket."""

    complaints = ""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()

    async def start(self) -> "InProcessService":
        ours, theirs = socket.socketpair()
        self.output, self._writer = await asyncio.open_connection(sock=ours)
        reader, writer = await asyncio.open_connection(sock=theirs)
        self._agent = asyncio.create_task(run_agent(EchoAgent(), writer, reader))  # type: ignore[arg-type]
        self._theirs = writer
        return self

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def aclose(self) -> None:
        self._agent.cancel()
        await asyncio.wait({self._agent})
        for writer in (self._writer, self._theirs):
            writer.close()
        self.is_over.set()


class ClientsFixture:
    """ACP clients and the services they have started."""

    def __init__(self, home: Path, max_pause_s: float = 60.0, **changes: object) -> None:
        config = AcpAgentConfig(command="echo", description="Echoes.").model_copy(update=changes)
        self.home = home
        self.services: list[InProcessService] = []
        self.specs: list[ServiceSpec] = []
        thread_folder(home, "ann", "t").mkdir(parents=True)
        dependencies = AcpDependencies(home, Settings(lambda: {"echo": config}), Settings(dict), self._start)
        self.clients = AcpClients(dependencies, max_pause_s=max_pause_s)

    async def _start(self, spec: ServiceSpec) -> Service:
        self.specs.append(spec)
        self.services.append(await InProcessService().start())
        return self.services[-1]

    async def begin(self, request: AcpRequest) -> ManagedAcpTurn:
        return await self.clients.for_thread("ann", "t").begin(request)


async def test_unknown_agent_is_not_started(tmp_path: Path) -> None:
    fixture = ClientsFixture(tmp_path)
    with pytest.raises(AcpError, match="there is no agent 'none'; there are echo"):
        await fixture.begin(AcpRequest("c1", "none", "hello"))
    assert fixture.specs == []


async def test_agent_waits_for_a_decision_and_is_resumed(tmp_path: Path) -> None:
    fixture = ClientsFixture(tmp_path)
    async with asyncio.timeout(20):
        turn = await fixture.begin(PERMISSION_REQUEST)
        assert isinstance(await turn.wait(), PermissionRequest)
        again = await fixture.begin(PERMISSION_REQUEST)
        assert isinstance(await again.wait(), PermissionRequest) and again.answered == ()
        again.answer(is_allowed=True)
        answer = await again.wait()
        assert isinstance(answer, AcpResult) and "[permission: y]" in answer.text
        assert len(fixture.services) == 1 and fixture.services[0].is_over.is_set()
        assert list((thread_folder(tmp_path, "ann", "t") / "acp-waiting").iterdir()) == []
    assert fixture.specs[0].writable == ("/mnt/acp-workspace",) and not fixture.specs[0].network


async def test_permission_is_refused_when_no_person_can_be_asked(tmp_path: Path) -> None:
    progress: list[str] = []
    fixture = ClientsFixture(tmp_path)
    async with asyncio.timeout(20):
        turn = await fixture.begin(AcpRequest("c1", "echo", "permission", can_ask=False, on_progress=progress.append))
        answer = await turn.wait()
    assert isinstance(answer, AcpResult) and "[permission: n]" in answer.text
    assert "refused, there is nobody to ask here" in "".join(progress)


async def test_agent_without_an_answer_is_ended_and_a_late_answer_allows_nothing(tmp_path: Path) -> None:
    fixture = ClientsFixture(tmp_path, max_pause_s=0.05)
    async with asyncio.timeout(20):
        await (await fixture.begin(PERMISSION_REQUEST)).wait()
        await fixture.services[0].is_over.wait()
        with pytest.raises(AcpError, match="ended before it got the answer"):
            await fixture.begin(PERMISSION_REQUEST)
        assert isinstance(await (await fixture.begin(PERMISSION_REQUEST)).wait(), PermissionRequest)  # requested again
        await fixture.clients.aclose()
    assert all(service.is_over.is_set() for service in fixture.services)


async def test_deleting_a_thread_ends_only_its_agents(tmp_path: Path) -> None:
    fixture = ClientsFixture(tmp_path)
    async with asyncio.timeout(20):
        await (await fixture.begin(PERMISSION_REQUEST)).wait()
        await fixture.clients.forget_thread("t", "bob")
        assert not fixture.services[0].is_over.is_set()
        await fixture.clients.forget_thread("t", "ann")
        assert fixture.services[0].is_over.is_set()


async def test_agent_is_stopped_after_its_timeout(tmp_path: Path) -> None:
    fixture = ClientsFixture(tmp_path, timeout_seconds=0.4)
    async with asyncio.timeout(20):
        hanging = await fixture.begin(AcpRequest("c2", "echo", "hang"))
        with pytest.raises(AcpError, match=r"worked longer than 0\.4 s and was stopped"):
            await hanging.wait()
        assert fixture.services[0].is_over.is_set()
