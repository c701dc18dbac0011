"""One piece of work for an agent of somebody else's, from the start of its program to its end."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from acp import PROTOCOL_VERSION, RequestError, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import ClientCapabilities, FileSystemCapabilities, Implementation, NewSessionResponse
from pydantic import ValidationError

from deerflow import __version__
from deerflow.acp.hands import Hands
from deerflow.acp.problems import AcpProblem
from deerflow.acp.servers import passed_on
from deerflow.acp.transport import ServiceTransport
from deerflow.config.acp_agents import AcpAgentConfig
from deerflow.config.extensions import McpServerConfig
from deerflow.domain.acp import AcpAnswer, AcpOrder, PermissionQuestion
from deerflow.sandbox.files import LocalThreadFiles
from deerflow.sandbox.services import Service

CANCEL_S = 0.5
"""So long may an agent take to stop by itself."""
INIT_S = 60.0
"""So long may it take before work can begin."""
NO_NETWORK = "it has no network; if it needs one, the configuration can give it (acp_agents.{agent}.network)"
MOST_QUESTIONS = 100
NOBODY = "there is nobody to ask here"


@dataclass(frozen=True, slots=True)
class Tools:
    """What a piece of work is done with."""

    config: AcpAgentConfig
    servers: Mapping[str, McpServerConfig]
    files: LocalThreadFiles
    folder: str
    """Where the agent works, as it sees it."""
    start: Callable[[], Awaitable[Service]]
    on_question: Callable[[PermissionQuestion], Awaitable[None]]
    """Told before somebody is asked."""
    hide: Callable[[str], str] = str
    """Takes secrets of the server out of a text."""


class AcpWork:
    """Work under way, which goes on while its run is paused."""

    def __init__(self, order: AcpOrder, tools: Tools) -> None:
        self.order = order
        self._tools = tools
        self._left_s = tools.config.timeout_seconds
        self._answered: list[PermissionQuestion] = []
        self._asked: list[tuple[PermissionQuestion, asyncio.Future[bool]]] = []
        self._wake = asyncio.Event()
        self._agent: ClientSideConnection | None = None
        self._transport: ServiceTransport | None = None
        self._session_id: str | None = None
        self._hands = Hands(tools.files, lambda text: self.order.hear(text), self._ask, tools.hide)
        self._working = asyncio.create_task(self._work(), name=f"the ACP agent {order.agent!r}")
        self._working.add_done_callback(self._end)

    @property
    def answered(self) -> tuple[PermissionQuestion, ...]:
        return tuple(self._answered)

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for a person."""
        return bool(self._asked)

    async def proceed(self) -> AcpAnswer | PermissionQuestion:
        """The answer, or the next question; only the time in which the agent works counts."""
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._left_s):
                while not self._working.done() and not self._asked:
                    self._wake.clear()
                    await self._wake.wait()
        except TimeoutError:
            await self.cancel()
            raise self._too_slow() from None
        finally:
            self._left_s = max(0.0, self._left_s - (time.monotonic() - began))
        if self._asked and not self._working.done():
            return self._asked[0][0]
        if self._working.cancelled():
            raise AcpProblem(f"{self.order.agent} was stopped")
        return self._working.result()

    def answer(self, *, is_allowed: bool) -> None:
        """Answer the first open question."""
        if self._asked:
            question, waiting = self._asked.pop(0)
            self._answered.append(question)
            if not waiting.done():
                waiting.set_result(is_allowed)

    async def cancel(self) -> None:
        """Ask the agent to stop, and end it whether it does or not."""
        if not self._working.done() and self._agent is not None and self._session_id is not None:
            with suppress(TimeoutError, OSError, RequestError):
                async with asyncio.timeout(CANCEL_S):
                    await self._agent.cancel(session_id=self._session_id)
                    while self._asked:
                        self.answer(is_allowed=False)
                    await asyncio.wait({self._working})
        self._working.cancel()
        await asyncio.wait({self._working})

    async def _work(self) -> AcpAnswer:
        service = await self._tools.start()
        try:
            self._transport = ServiceTransport(service)
            self._agent = ClientSideConnection(self._hands, self._transport)  # type: ignore[arg-type]
            try:
                return await self._converse(self._agent)
            finally:
                await self._agent.close()
        except (ConnectionError, OSError) as problem:
            raise self._problem(self._transport_problem() or str(problem)) from problem
        except RequestError as problem:
            detail = f" ({problem.data})" if problem.data else ""
            raise self._problem(f"it says: {problem}{detail}") from problem
        except ValidationError as problem:
            raise self._problem("its answer is not as the protocol wants it") from problem
        finally:
            await service.aclose()

    async def _converse(self, agent: ClientSideConnection) -> AcpAnswer:
        try:
            async with asyncio.timeout(INIT_S):
                session_id = self._session_id = await self._open_session(agent)
        except TimeoutError:
            raise self._problem(f"it did not begin within {INIT_S:g} s") from None
        answer = await agent.prompt(session_id=session_id, prompt=[text_block(self.order.prompt)])
        return AcpAnswer(self._hands.text, answer.stop_reason)

    async def _open_session(self, agent: ClientSideConnection) -> str:
        files = FileSystemCapabilities(read_text_file=True, write_text_file=True)
        hello = await agent.initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(fs=files, terminal=False),
            client_info=Implementation(name="deerflow", title="DeerFlow", version=__version__),
        )
        if hello.protocol_version != PROTOCOL_VERSION:
            raise self._problem(f"it speaks version {hello.protocol_version} of the protocol, not {PROTOCOL_VERSION}")
        can = hello.agent_capabilities.mcp_capabilities if hello.agent_capabilities else None
        servers = passed_on(self._tools.config, self._tools.servers, can)
        session = await agent.new_session(cwd=self._tools.folder, mcp_servers=list(servers))
        await self._choose_model(agent, session)
        return session.session_id

    async def _choose_model(self, agent: ClientSideConnection, session: NewSessionResponse) -> None:
        wanted = self._tools.config.model
        if wanted is None:
            return
        options = [each for each in session.config_options or () if getattr(each, "category", None) == "model"]
        if not options:
            self.order.hear(f"[{self.order.agent} lets no model be chosen; it uses its own]\n")
            return
        await agent.set_config_option(config_id=options[0].id, session_id=session.session_id, value=wanted)

    async def _ask(self, question: PermissionQuestion) -> bool:
        """Have a person decide, unless that was decided in the configuration or nobody is there."""
        if self._tools.config.auto_approve_permissions:
            return True
        if not self.order.can_ask or len(self._asked) + len(self._answered) >= MOST_QUESTIONS:
            self.order.hear(
                f"\n[{question.title}: refused, {'too many questions' if self.order.can_ask else NOBODY}]\n"
            )
            return False
        await self._tools.on_question(question)
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asked.append((question, waiting))
        self._wake.set()
        return await waiting

    def _end(self, working: "asyncio.Task[AcpAnswer]") -> None:
        if not working.cancelled():
            working.exception()  # told to whoever waits for it
        for _, waiting in self._asked:
            waiting.cancel()
        self._wake.set()

    def _transport_problem(self) -> str | None:
        return self._transport.problem if self._transport else None

    def _too_slow(self) -> AcpProblem:
        return self._problem(f"it worked longer than {self._tools.config.timeout_seconds:g} s and was stopped")

    def _problem(self, why: str) -> AcpProblem:
        hint = "" if self._tools.config.network else f"; {NO_NETWORK.format(agent=self.order.agent)}"
        said = f" What it had said by then: {self._hands.text[-2000:]}" if self._hands.text else ""
        return AcpProblem(self._tools.hide(f"{self.order.agent} did not finish: {why}{hint}.{said}"))
