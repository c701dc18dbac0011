"""The agents of others that are configured, and the work under way with them."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from deerflow.acp.problems import AcpProblem
from deerflow.config.acp_agents import AcpAgentConfig
from deerflow.config.extensions import McpServerConfig
from deerflow.config.imports import load_object
from deerflow.domain.acp import AcpAnswer, AcpOrder, PendingWork, PermissionQuestion
from deerflow.sandbox.files import LocalThreadFiles
from deerflow.sandbox.furnishing import ACP_WORKSPACE
from deerflow.sandbox.places import Place, file_owner, make_folder, thread_folder
from deerflow.sandbox.services import Service, ServiceOrder

WORK, TOOLS = "deerflow.acp.work:AcpWork", "deerflow.acp.work:Tools"
"""By name: what speaks the protocol takes long to import, and most servers never need it."""
PAUSED_S = 1800.0
"""So long an agent waits for a person; after that it is ended."""
LOST = (
    "{agent} had asked for a permission and was ended before it got the answer, because the server stopped or nobody "
    f"answered for long. What it had done is in {ACP_WORKSPACE}. Call it again if that is still wanted."
)

Key = tuple[str, str, str]


class Work(PendingWork, Protocol):
    """Work under way, as it is kept here."""

    order: AcpOrder

    @property
    def is_waiting(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the desk knows of the rest."""

    home: Path
    agents: Callable[[], Mapping[str, AcpAgentConfig]]
    servers: Callable[[], Mapping[str, McpServerConfig]]
    start: Callable[[ServiceOrder], Awaitable[Service]]
    hide: Callable[[str], str] = str
    """Takes secrets of the server out of a text."""


class AcpDesk:
    """Starts work and keeps it while a run is paused; close it in the end."""

    def __init__(self, around: Surroundings, *, paused_s: float = PAUSED_S) -> None:
        self._around = around
        self._paused_s = paused_s
        self._works: dict[Key, Work] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._endings: set[asyncio.Task[None]] = set()

    def for_thread(self, user_id: str, thread_id: str) -> "ThreadDesk":
        """The desk for the runs of one thread."""
        return ThreadDesk(self, user_id, thread_id)

    async def begin(self, order: AcpOrder, user_id: str, thread_id: str) -> Work:
        """Start work, or find the one that waits."""
        key = (user_id, thread_id, order.call_id)
        known = self._works.pop(key, None)
        self.attend(order, user_id, thread_id)
        if known is not None and (known.order.agent, known.order.prompt) == (order.agent, order.prompt):
            known.order = order  # the one who listens now
            self._works[key] = known
            return known
        note = self._note(order, user_id, thread_id)
        if await asyncio.to_thread(taken_away, note):
            raise AcpProblem(LOST.format(agent=order.agent))
        work = await self._start(order, user_id, thread_id, note)
        self._works[key] = work
        return work

    async def done_with(self, order: AcpOrder, user_id: str, thread_id: str) -> None:
        """Forget work that has ended."""
        self._works.pop((user_id, thread_id, order.call_id), None)
        await asyncio.to_thread(taken_away, self._note(order, user_id, thread_id))

    def attend(self, order: AcpOrder, user_id: str, thread_id: str) -> None:
        """Keep work for as long as somebody waits for it."""
        if timer := self._timers.pop((user_id, thread_id, order.call_id), None):
            timer.cancel()

    def keep(self, order: AcpOrder, user_id: str, thread_id: str) -> None:
        """Keep work for a while whose run is paused."""
        key = (user_id, thread_id, order.call_id)
        if key in self._works:
            self._timers[key] = asyncio.get_running_loop().call_later(self._paused_s, self._give_up, key)

    async def forget_thread(self, thread_id: str, user_id: str) -> None:
        """End the work of a thread."""
        for key in [key for key in self._works if key[:2] == (user_id, thread_id)]:
            self._give_up(key)
        await self._settle()

    async def aclose(self) -> None:
        """End all work."""
        for key in list(self._works):
            self._give_up(key)
        await self._settle()

    async def _settle(self) -> None:
        if self._endings:
            await asyncio.wait(self._endings)

    def _give_up(self, key: Key) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if (work := self._works.pop(key, None)) is not None:
            ending = asyncio.create_task(work.cancel())
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)

    def _note(self, order: AcpOrder, user_id: str, thread_id: str) -> Path:
        """Where it is noted that work waits for a person: should the server stop meanwhile, nobody takes the answer
        to one question for the answer to another."""
        name = hashlib.sha256("\0".join((order.call_id, order.agent, order.prompt)).encode()).hexdigest()
        return thread_folder(self._around.home, user_id, thread_id) / "acp-waiting" / name

    async def _start(self, order: AcpOrder, user_id: str, thread_id: str, note: Path) -> Work:
        agents = self._around.agents()
        if order.agent not in agents:
            raise AcpProblem(f"there is no agent {order.agent!r}; there are {', '.join(agents) or 'none'}")
        config = agents[order.agent]
        workspace = Place(ACP_WORKSPACE, thread_folder(self._around.home, user_id, thread_id) / "acp-workspace")
        await asyncio.to_thread(make_folder, workspace.folder, file_owner())
        service = service_order(order.agent, config, user_id, thread_id)

        async def on_question(question: PermissionQuestion) -> None:
            await asyncio.to_thread(put_down, note, question.title)

        make_work, make_tools = await asyncio.to_thread(lambda: (load_object(WORK), load_object(TOOLS)))
        assert callable(make_work) and callable(make_tools)
        tools = make_tools(
            config=config,
            servers=self._around.servers(),
            files=LocalThreadFiles((workspace,), file_owner()),
            folder=ACP_WORKSPACE,
            start=lambda: self._around.start(service),
            on_question=on_question,
            hide=self._around.hide,
        )
        return cast(Work, make_work(order, tools))


@dataclass(frozen=True, slots=True)
class ThreadDesk:
    """The agents of others, for the runs of one thread."""

    desk: AcpDesk
    user_id: str
    thread_id: str

    async def begin(self, order: AcpOrder) -> "KeptWork":
        """Start work, or find the one that waits."""
        return KeptWork(self, order, await self.desk.begin(order, self.user_id, self.thread_id))


@dataclass(frozen=True, slots=True)
class KeptWork:
    """Work that is forgotten when it has ended, and kept for a while when its run pauses."""

    of: ThreadDesk
    order: AcpOrder
    work: Work

    @property
    def answered(self) -> tuple[PermissionQuestion, ...]:
        return self.work.answered

    async def proceed(self) -> AcpAnswer | PermissionQuestion:
        """The answer, or the next question."""
        self.of.desk.attend(self.order, self.of.user_id, self.of.thread_id)
        try:
            happened = await self.work.proceed()
        except BaseException:
            await self._forget()
            raise
        if isinstance(happened, PermissionQuestion):
            self.of.desk.keep(self.order, self.of.user_id, self.of.thread_id)
        else:
            await self._forget()
        return happened

    def answer(self, *, is_allowed: bool) -> None:
        """Allow or refuse what was asked."""
        self.work.answer(is_allowed=is_allowed)

    async def cancel(self) -> None:
        """Have the agent stop, and end it."""
        await self.work.cancel()
        await self._forget()

    async def _forget(self) -> None:
        await self.of.desk.done_with(self.order, self.of.user_id, self.of.thread_id)


def service_order(agent: str, config: AcpAgentConfig, user_id: str, thread_id: str) -> ServiceOrder:
    """How the program of an agent is started: of the thread it can change its own workspace alone."""
    return ServiceOrder(
        name=f"acp-{agent}",
        command=[config.command, *config.args],
        user_id=user_id,
        thread_id=thread_id,
        env=config.env,
        network=config.network,
        paths=[Path(path).expanduser() for path in config.paths],
        folder=ACP_WORKSPACE,
        writable=(ACP_WORKSPACE,),
    )


def put_down(note: Path, text: str) -> None:
    """Note that something waits."""
    note.parent.mkdir(mode=0o700, exist_ok=True)
    note.write_text(text, encoding="utf-8", errors="replace")


def taken_away(note: Path) -> bool:
    """Take a note away; whether there was one."""
    try:
        note.unlink()
    except FileNotFoundError:
        return False
    return True
