"""Session with an external agent over the Agent Client Protocol."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import (
    ClientCapabilities,
    EnvVariable,
    FileSystemCapabilities,
    HttpHeader,
    HttpMcpServer,
    Implementation,
    McpCapabilities,
    McpServerStdio,
    NewSessionResponse,
    SseMcpServer,
)
from pydantic import ValidationError

from deerflow import __version__
from deerflow.acp import AcpError
from deerflow.acp.callbacks import AcpClientCallbacks
from deerflow.config.sections.agents import AcpAgentConfig
from deerflow.config.sections.extensions import McpServerConfig
from deerflow.domain.subagents import AcpRequest, AcpResult, PermissionRequest
from deerflow.sandbox.files.files import LocalThreadFiles
from deerflow.sandbox.jobs.services import LineProtocol, ProtocolViolation, Service

CANCEL_S = 0.5
"""Time for an agent to stop after a cancel request."""
INIT_S = 60.0
"""Time for an agent to open a session."""
NO_NETWORK_HINT = "it has no network; if it needs one, the configuration can give it (acp_agents.{agent}.network)"
MAX_QUESTIONS = 100
NO_APPROVER = "there is nobody to ask here"
MAX_MESSAGES = 500_000

AcpMcpServer = HttpMcpServer | SseMcpServer | McpServerStdio


@dataclass(frozen=True, slots=True)
class AcpSessionOptions:
    """Settings and services of one session."""

    config: AcpAgentConfig
    servers: Mapping[str, McpServerConfig]
    files: LocalThreadFiles
    folder: str
    """Working directory as the agent sees it."""
    start: Callable[[], Awaitable[Service]]
    on_question: Callable[[PermissionRequest], Awaitable[None]]
    """Called before a person is asked."""
    redact: Callable[[str], str] = str
    """Removes secrets of the server from a text."""


class AcpSession:
    """Session in progress, which continues while its run is paused."""

    def __init__(self, request: AcpRequest, options: AcpSessionOptions) -> None:
        self.request = request
        self._options = options
        self._remaining_s = options.config.timeout_seconds
        self._answered: list[PermissionRequest] = []
        self._pending: list[tuple[PermissionRequest, asyncio.Future[bool]]] = []
        self._changed = asyncio.Event()
        self._agent: ClientSideConnection | None = None
        self._transport: ServiceTransport | None = None
        self._session_id: str | None = None
        self._callbacks = AcpClientCallbacks(
            options.files, lambda text: self.request.on_progress(text), self._request_permission, options.redact
        )
        self._task = asyncio.create_task(self._run_session(), name=f"ACP agent {request.agent!r}")
        self._task.add_done_callback(self._on_done)

    @property
    def answered(self) -> tuple[PermissionRequest, ...]:
        return tuple(self._answered)

    async def wait(self) -> AcpResult | PermissionRequest:
        """Return the result, or the next permission request. Only the working time of the agent counts."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._remaining_s):
                while not self._task.done() and not self._pending:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            await self.cancel()
            raise self._make_timeout_error() from None
        finally:
            self._remaining_s = max(0.0, self._remaining_s - (time.monotonic() - began))
        if self._pending and not self._task.done():
            return self._pending[0][0]
        if self._task.cancelled():
            raise AcpError(f"{self.request.agent} was stopped")
        return self._task.result()

    def answer(self, *, is_allowed: bool) -> None:
        """Answer the first pending permission request."""
        if self._pending:
            question, waiting = self._pending.pop(0)
            self._answered.append(question)
            if not waiting.done():
                waiting.set_result(is_allowed)

    async def cancel(self) -> None:
        """Ask the agent to stop, and end it in any case."""
        if not self._task.done() and self._agent is not None and self._session_id is not None:
            with suppress(TimeoutError, OSError, RequestError):
                async with asyncio.timeout(CANCEL_S):
                    await self._agent.cancel(session_id=self._session_id)
                    while self._pending:
                        self.answer(is_allowed=False)
                    await asyncio.wait({self._task})
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _run_session(self) -> AcpResult:
        service = await self._options.start()
        try:
            self._transport = ServiceTransport(service)
            self._agent = ClientSideConnection(self._callbacks, self._transport)  # type: ignore[arg-type]
            try:
                return await self._prompt(self._agent)
            finally:
                await self._agent.close()
        except (ConnectionError, OSError) as problem:
            raise self._make_error(self._transport_problem() or str(problem)) from problem
        except RequestError as problem:
            detail = f" ({problem.data})" if problem.data else ""
            raise self._make_error(f"it says: {problem}{detail}") from problem
        except ValidationError as problem:
            raise self._make_error("its answer is not as the protocol wants it") from problem
        finally:
            await service.aclose()

    async def _prompt(self, agent: ClientSideConnection) -> AcpResult:
        try:
            async with asyncio.timeout(INIT_S):
                session_id = self._session_id = await self._open_session(agent)
        except TimeoutError:
            raise self._make_error(f"it did not begin within {INIT_S:g} s") from None
        answer = await agent.prompt(session_id=session_id, prompt=[text_block(self.request.prompt)])
        return AcpResult(self._callbacks.text, answer.stop_reason)

    async def _open_session(self, agent: ClientSideConnection) -> str:
        files = FileSystemCapabilities(read_text_file=True, write_text_file=True)
        initialized = await agent.initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(fs=files, terminal=False),
            client_info=Implementation(name="deerflow", title="DeerFlow", version=__version__),
        )
        if initialized.protocol_version != PROTOCOL_VERSION:
            raise self._make_error(
                f"it speaks version {initialized.protocol_version} of the protocol, not {PROTOCOL_VERSION}"
            )
        capabilities = initialized.agent_capabilities.mcp_capabilities if initialized.agent_capabilities else None
        servers = select_mcp_servers(self._options.config, self._options.servers, capabilities)
        session = await agent.new_session(cwd=self._options.folder, mcp_servers=list(servers))
        await self._choose_model(agent, session)
        return session.session_id

    async def _choose_model(self, agent: ClientSideConnection, session: NewSessionResponse) -> None:
        wanted = self._options.config.model
        if wanted is None:
            return
        options = [each for each in session.config_options or () if getattr(each, "category", None) == "model"]
        if not options:
            self.request.on_progress(f"[{self.request.agent} lets no model be chosen; it uses its own]\n")
            return
        await agent.set_config_option(config_id=options[0].id, session_id=session.session_id, value=wanted)

    async def _request_permission(self, question: PermissionRequest) -> bool:
        """Return a person's decision, unless the configuration decides or no person can be asked."""
        if self._options.config.auto_approve_permissions:
            return True
        if not self.request.can_ask or len(self._pending) + len(self._answered) >= MAX_QUESTIONS:
            self.request.on_progress(
                f"\n[{question.title}: refused, {'too many questions' if self.request.can_ask else NO_APPROVER}]\n"
            )
            return False
        await self._options.on_question(question)
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._pending.append((question, waiting))
        self._changed.set()
        return await waiting

    def _on_done(self, task: "asyncio.Task[AcpResult]") -> None:
        if not task.cancelled():
            task.exception()  # retrieved here; `wait` raises it
        for _, waiting in self._pending:
            waiting.cancel()
        self._changed.set()

    def _transport_problem(self) -> str | None:
        return self._transport.problem if self._transport else None

    def _make_timeout_error(self) -> AcpError:
        return self._make_error(f"it worked longer than {self._options.config.timeout_seconds:g} s and was stopped")

    def _make_error(self, reason: str) -> AcpError:
        hint = "" if self._options.config.network else f"; {NO_NETWORK_HINT.format(agent=self.request.agent)}"
        output = f" What it had said by then: {self._callbacks.text[-2000:]}" if self._callbacks.text else ""
        return AcpError(self._options.redact(f"{self.request.agent} did not finish: {reason}{hint}.{output}"))


class ServiceTransport:
    """Transport over a process. `problem` is set when the process ends or violates the protocol."""

    def __init__(self, service: Service) -> None:
        self.problem: str | None = None
        self._service = service
        self._lines = LineProtocol(service, parse_message)
        self._messages = 0

    async def send(self, message: dict[str, Any]) -> None:
        """Send a message.

        Raises:
            OSError: The process no longer reads.
        """
        await self._service.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None when there are no more."""
        if self.problem is not None:
            return None
        try:
            message = await self._lines.next()
        except ProtocolViolation as broken:
            self.problem = str(broken)
            return None
        if message is None:
            self.problem = self._lines.describe_exit()
            return None
        self._messages += 1
        if self._messages > MAX_MESSAGES:
            self.problem = f"it sent more than {MAX_MESSAGES} messages"
        await asyncio.sleep(0)  # yield to other tasks during bursts of messages
        return message

    async def close(self) -> None:
        """Do nothing: the owner of the process ends it."""


def parse_message(line: bytes) -> dict[str, Any] | None:
    """Return the message in a line; None when the line is not a message."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_message = isinstance(message, dict) and ("method" in message or "id" in message)
    has_good_id = is_message and isinstance(message.get("id"), str | int | None)
    return message if has_good_id and isinstance(message.get("method"), str | None) else None


def select_mcp_servers(
    agent: AcpAgentConfig, servers: Mapping[str, McpServerConfig], capabilities: McpCapabilities | None
) -> list[AcpMcpServer]:
    """Return the enabled servers that the agent can use.

    Servers with a login are left out: their tokens belong to users, not to agents.
    """
    wanted = (
        (name, server)
        for name, server in servers.items()
        if server.enabled and server.oauth is None and (agent.mcp_servers is None or name in agent.mcp_servers)
    )
    return [
        converted
        for name, server in wanted
        for converted in to_acp_servers(name, server, capabilities or McpCapabilities())
    ]


def to_acp_servers(name: str, server: McpServerConfig, capabilities: McpCapabilities) -> Iterator[AcpMcpServer]:
    """Yield the server in ACP terms, if the agent supports its transport."""
    headers = [HttpHeader(name=key, value=value) for key, value in server.headers.items()]
    if server.type == "stdio" and server.command:
        env = [EnvVariable(name=key, value=value) for key, value in server.env.items()]
        yield McpServerStdio(name=name, command=server.command, args=list(server.args), env=env)
    elif server.type == "http" and server.url and capabilities.http:
        yield HttpMcpServer(type="http", name=name, url=server.url, headers=headers)
    elif server.type == "sse" and server.url and capabilities.sse:
        yield SseMcpServer(type="sse", name=name, url=server.url, headers=headers)
