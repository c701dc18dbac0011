"""Clients of the configured ACP agents, and their turns in progress."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deerflow.acp import AcpError
from deerflow.config.sections.agents import AcpAgentConfig
from deerflow.config.sections.base import Settings
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.subagents import AcpRequest, AcpResult, PermissionRequest
from deerflow.sandbox.files.files import LocalThreadFiles
from deerflow.sandbox.files.mounts import ACP_WORKSPACE, Mount, file_owner, make_folder, thread_folder
from deerflow.sandbox.jobs.services import Service, ServiceSpec

if TYPE_CHECKING:
    from deerflow.acp.session import AcpSession

MAX_PAUSE_S = 1800.0
"""Time an agent waits for a person's decision before it is ended."""
ENDED = (
    "{agent} had asked for a permission and was ended before it got the answer, because the server stopped or nobody "
    f"answered for long. What it had done is in {ACP_WORKSPACE}. Call it again if that is still wanted."
)

SessionKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class AcpDependencies:
    """Services that ACP clients need."""

    home: Path
    agents: Settings[Mapping[str, AcpAgentConfig]]
    servers: Settings[Mapping[str, McpServerConfig]]
    start: Callable[[ServiceSpec], Awaitable[Service]]
    redact: Callable[[str], str] = str
    """Removes secrets of the server from a text."""


class AcpClients:
    """Starts agents and keeps them alive while their run is paused. Must be closed."""

    def __init__(self, dependencies: AcpDependencies, *, max_pause_s: float = MAX_PAUSE_S) -> None:
        self._dependencies = dependencies
        self._max_pause_s = max_pause_s
        self._sessions: dict[SessionKey, AcpSession] = {}
        self._timers: dict[SessionKey, asyncio.TimerHandle] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def for_thread(self, user_id: str, thread_id: str) -> "ThreadAcpClients":
        """Return the clients for the runs of one thread."""
        return ThreadAcpClients(self, user_id, thread_id)

    async def begin(self, request: AcpRequest, user_id: str, thread_id: str) -> "AcpSession":
        """Start a session, or return the paused one of the same tool call."""
        key = (user_id, thread_id, request.call_id)
        known = self._sessions.pop(key, None)
        self.cancel_expiry(request, user_id, thread_id)
        if known is not None and (known.request.agent, known.request.prompt) == (request.agent, request.prompt):
            known.request = request  # progress goes to the current run
            self._sessions[key] = known
            return known
        marker = self._marker_path(request, user_id, thread_id)
        if await asyncio.to_thread(remove_marker, marker):
            raise AcpError(ENDED.format(agent=request.agent))
        session = await self._start(request, user_id, thread_id, marker)
        self._sessions[key] = session
        return session

    async def discard(self, request: AcpRequest, user_id: str, thread_id: str) -> None:
        """Remove a session that has ended."""
        self._sessions.pop((user_id, thread_id, request.call_id), None)
        await asyncio.to_thread(remove_marker, self._marker_path(request, user_id, thread_id))

    def cancel_expiry(self, request: AcpRequest, user_id: str, thread_id: str) -> None:
        """Keep a session alive while a run waits for it."""
        if timer := self._timers.pop((user_id, thread_id, request.call_id), None):
            timer.cancel()

    def schedule_expiry(self, request: AcpRequest, user_id: str, thread_id: str) -> None:
        """End a session after the maximum pause, because its run is paused now."""
        key = (user_id, thread_id, request.call_id)
        if key in self._sessions:
            self._timers[key] = asyncio.get_running_loop().call_later(self._max_pause_s, self._end, key)

    async def forget_thread(self, thread_id: str, user_id: str) -> None:
        """End the sessions of a thread."""
        for key in [key for key in self._sessions if key[:2] == (user_id, thread_id)]:
            self._end(key)
        await self._wait_for_ended()

    async def aclose(self) -> None:
        """End all sessions."""
        for key in list(self._sessions):
            self._end(key)
        await self._wait_for_ended()

    async def _wait_for_ended(self) -> None:
        if self._ending:
            await asyncio.wait(self._ending)

    def _end(self, key: SessionKey) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if (session := self._sessions.pop(key, None)) is not None:
            ending = asyncio.create_task(session.cancel())
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    def _marker_path(self, request: AcpRequest, user_id: str, thread_id: str) -> Path:
        """Return the file that marks a session as waiting for a decision.

        If the server stops meanwhile, the decision must not be taken for the answer to another question.
        """
        name = hashlib.sha256("\0".join((request.call_id, request.agent, request.prompt)).encode()).hexdigest()
        return thread_folder(self._dependencies.home, user_id, thread_id) / "acp-waiting" / name

    async def _start(self, request: AcpRequest, user_id: str, thread_id: str, marker: Path) -> "AcpSession":
        await asyncio.to_thread(preload_session)
        from deerflow.acp.session import AcpSession, AcpSessionOptions

        agents = self._dependencies.agents.current
        if request.agent not in agents:
            raise AcpError(f"there is no agent {request.agent!r}; there are {', '.join(agents) or 'none'}")
        config = agents[request.agent]
        workspace = Mount(ACP_WORKSPACE, thread_folder(self._dependencies.home, user_id, thread_id) / "acp-workspace")
        await asyncio.to_thread(make_folder, workspace.folder, file_owner())
        spec = build_service_spec(request.agent, config, user_id, thread_id)

        async def on_question(question: PermissionRequest) -> None:
            await asyncio.to_thread(write_marker, marker, question.title)

        options = AcpSessionOptions(
            config=config,
            servers=self._dependencies.servers.current,
            files=LocalThreadFiles((workspace,), file_owner()),
            folder=ACP_WORKSPACE,
            start=lambda: self._dependencies.start(spec),
            on_question=on_question,
            redact=self._dependencies.redact,
        )
        return AcpSession(request, options)


@dataclass(frozen=True, slots=True)
class ThreadAcpClients:
    """ACP clients for the runs of one thread."""

    clients: AcpClients
    user_id: str
    thread_id: str

    async def begin(self, order: AcpRequest) -> "ManagedAcpTurn":
        """Start a turn, or return the paused one of the same tool call."""
        return ManagedAcpTurn(self, order, await self.clients.begin(order, self.user_id, self.thread_id))


@dataclass(frozen=True, slots=True)
class ManagedAcpTurn:
    """Turn of an agent that is discarded when it ends, and kept for a while when its run pauses."""

    owner: ThreadAcpClients
    request: AcpRequest
    session: "AcpSession"

    @property
    def answered(self) -> tuple[PermissionRequest, ...]:
        return self.session.answered

    async def wait(self) -> AcpResult | PermissionRequest:
        """Return the result, or the next permission request."""
        clients, user_id, thread_id = self.owner.clients, self.owner.user_id, self.owner.thread_id
        clients.cancel_expiry(self.request, user_id, thread_id)
        try:
            outcome = await self.session.wait()
        except BaseException:
            await self._discard()
            raise
        if isinstance(outcome, PermissionRequest):
            clients.schedule_expiry(self.request, user_id, thread_id)
        else:
            await self._discard()
        return outcome

    def answer(self, *, is_allowed: bool) -> None:
        """Answer the permission request."""
        self.session.answer(is_allowed=is_allowed)

    async def cancel(self) -> None:
        """Cancel the turn and end the agent."""
        await self.session.cancel()
        await self._discard()

    async def _discard(self) -> None:
        await self.owner.clients.discard(self.request, self.owner.user_id, self.owner.thread_id)


def build_service_spec(agent: str, config: AcpAgentConfig, user_id: str, thread_id: str) -> ServiceSpec:
    """Return the process to start for an agent. Of the thread's files it can write only its own workspace."""
    return ServiceSpec(
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


def preload_session() -> None:
    """Import the session module. The protocol library takes long to import, and most servers never need it."""
    import deerflow.acp.session  # noqa: F401


def write_marker(path: Path, text: str) -> None:
    """Write the marker of a waiting session."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(text, encoding="utf-8", errors="replace")


def remove_marker(path: Path) -> bool:
    """Remove a marker and return whether there was one."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
