"""Work with agents of others that waits: for a person, for nobody, for too long. The agent is in this process."""

import asyncio
import socket
from pathlib import Path

import pytest
from acp import run_agent

from deerflow.acp.desk import AcpDesk, KeptWork, Surroundings
from deerflow.acp.problems import AcpProblem
from deerflow.config.acp_agents import AcpAgentConfig
from deerflow.domain.acp import AcpAnswer, AcpOrder, PermissionQuestion
from deerflow.sandbox.places import thread_folder
from deerflow.sandbox.services import Service, ServiceOrder
from tests.acp.echo_agent import EchoAgent

ASKING = AcpOrder("c1", "echo", "permission")


class ServiceHere:
    """An echo agent, spoken with over a socket."""

    complaints = ""

    def __init__(self) -> None:
        self.is_over = asyncio.Event()

    async def start(self) -> "ServiceHere":
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


class Room:
    """A desk, and the programs that were started for it."""

    def __init__(self, home: Path, paused_s: float = 60.0, **changes: object) -> None:
        config = AcpAgentConfig(command="echo", description="Echoes.").model_copy(update=changes)
        self.home = home
        self.services: list[ServiceHere] = []
        self.orders: list[ServiceOrder] = []
        thread_folder(home, "ann", "t").mkdir(parents=True)
        around = Surroundings(home, lambda: {"echo": config}, dict, self._start)
        self.desk = AcpDesk(around, paused_s=paused_s)

    async def _start(self, order: ServiceOrder) -> Service:
        self.orders.append(order)
        self.services.append(await ServiceHere().start())
        return self.services[-1]

    async def begin(self, order: AcpOrder) -> KeptWork:
        return await self.desk.for_thread("ann", "t").begin(order)


async def test_who_is_not_there_is_not_started(tmp_path: Path) -> None:
    room = Room(tmp_path)
    with pytest.raises(AcpProblem, match="there is no agent 'none'; there are echo"):
        await room.begin(AcpOrder("c1", "none", "hello"))
    assert room.orders == []


async def test_an_agent_waits_for_a_person_and_is_found_again(tmp_path: Path) -> None:
    room = Room(tmp_path)
    async with asyncio.timeout(20):
        work = await room.begin(ASKING)
        assert isinstance(await work.proceed(), PermissionQuestion)
        again = await room.begin(ASKING)
        assert isinstance(await again.proceed(), PermissionQuestion) and again.answered == ()
        again.answer(is_allowed=True)
        answer = await again.proceed()
        assert isinstance(answer, AcpAnswer) and "[permission: y]" in answer.text
        assert len(room.services) == 1 and room.services[0].is_over.is_set()
        assert list((thread_folder(tmp_path, "ann", "t") / "acp-waiting").iterdir()) == []
    assert room.orders[0].writable == ("/mnt/acp-workspace",) and not room.orders[0].network


async def test_where_nobody_can_be_asked_permission_is_refused(tmp_path: Path) -> None:
    told: list[str] = []
    room = Room(tmp_path)
    async with asyncio.timeout(20):
        work = await room.begin(AcpOrder("c1", "echo", "permission", can_ask=False, hear=told.append))
        answer = await work.proceed()
    assert isinstance(answer, AcpAnswer) and "[permission: n]" in answer.text
    assert "refused, there is nobody to ask here" in "".join(told)


async def test_an_agent_that_nobody_answers_is_ended_and_the_late_answer_allows_nothing(tmp_path: Path) -> None:
    room = Room(tmp_path, paused_s=0.05)
    async with asyncio.timeout(20):
        await (await room.begin(ASKING)).proceed()
        await room.services[0].is_over.wait()
        with pytest.raises(AcpProblem, match="ended before it got the answer"):
            await room.begin(ASKING)
        assert isinstance(await (await room.begin(ASKING)).proceed(), PermissionQuestion)  # asked for anew
        await room.desk.aclose()
    assert all(service.is_over.is_set() for service in room.services)


async def test_a_deleted_thread_ends_its_agents_and_leaves_others_alone(tmp_path: Path) -> None:
    room = Room(tmp_path)
    async with asyncio.timeout(20):
        await (await room.begin(ASKING)).proceed()
        await room.desk.forget_thread("t", "bob")
        assert not room.services[0].is_over.is_set()
        await room.desk.forget_thread("t", "ann")
        assert room.services[0].is_over.is_set()


async def test_an_agent_that_works_for_too_long_is_stopped(tmp_path: Path) -> None:
    room = Room(tmp_path, timeout_seconds=0.4)
    async with asyncio.timeout(20):
        hanging = await room.begin(AcpOrder("c2", "echo", "hang"))
        with pytest.raises(AcpProblem, match=r"worked longer than 0\.4 s and was stopped"):
            await hanging.proceed()
        assert room.services[0].is_over.is_set()
