"""Session with an MCP server: a task that owns the connection, and the calls that use it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import MappingProxyType

import anyio
from mcp import types
from mcp.shared.exceptions import McpError
from pydantic import ValidationError

from deerflow.domain.errors import DeerFlowError
from deerflow.mcp.session.calls import (
    Elicitation,
    ElicitationReply,
    McpCallResult,
    McpToolCall,
    PendingCall,
    ServerAddress,
    SessionDependencies,
    retrieve_exception,
    to_result,
)
from deerflow.mcp.session.protocol import McpClientSession, is_late_response
from deerflow.mcp.session.transports import MessageLines, Streams, connect_http, connect_stdio, open_line_protocol
from deerflow.mcp.status import (
    McpServerError,
    ServerListing,
    describe_restart,
    find_folder,
    find_readable_paths,
    suggest_fix,
)
from deerflow.sandbox.jobs.services import Service, ServiceSpec

CLOSE_S = 5.0
PING_S = 5.0
"""Time in which a server has to answer a ping after a call has timed out or was cancelled."""
RELIST_S = 30.0
NO_ANSWER = ElicitationReply("cancel")
OFFLINE_ENVIRONMENT = MappingProxyType({"NPM_CONFIG_PREFER_OFFLINE": "true", "NPM_CONFIG_UPDATE_NOTIFIER": "false"})

ListingCallback = Callable[[ServerListing], Awaitable[None]]


class ServerSession:
    """Session that is opened once and ends when it is closed or the server ends."""

    def __init__(self, address: ServerAddress, dependencies: SessionDependencies, on_listing: ListingCallback) -> None:
        self._address = address
        self._dependencies = dependencies
        self._on_listing = on_listing
        self._client: McpClientSession | None = None
        self._opened: asyncio.Future[ServerListing] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._problem: DeerFlowError | None = None
        self._task: asyncio.Task[None] | None = None
        self._calls: dict[str, ActiveCall] = {}
        self._relisting: asyncio.Task[None] | None = None
        self._ping: asyncio.Task[bool] | None = None
        self._service: Service | None = None
        self._lines: MessageLines | None = None

    @property
    def is_over(self) -> bool:
        return self._task is not None and (self._task.done() or self._closing.is_set())

    @property
    def is_busy(self) -> bool:
        return any(call.is_awaited for call in self._calls.values())

    @property
    def log(self) -> str:
        return self._service.stderr_tail if self._service is not None else ""

    async def open(self) -> ServerListing:
        """Connect and return the listing."""
        limit = self._address.config.session_init_timeout
        self._task = asyncio.create_task(self._run(), name=f"the MCP server {self._address.server!r}")
        self._task.add_done_callback(self._end)
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(self._opened)
        except TimeoutError:
            raise await self._with_advice(
                f"the server did not answer within {limit:g} s{self._process_output()}"
            ) from None
        except McpServerError as problem:
            raise await self._with_advice(str(problem)) from None

    def begin(self, request: McpToolCall) -> PendingCall:
        """Start a call."""
        call = self._calls[request.call_id] = ActiveCall(self, request)
        return call

    def find(self, request: McpToolCall) -> PendingCall | None:
        """Return the same call if it was started before."""
        call = self._calls.get(request.call_id)
        if call is None or (call.request.tool, call.request.arguments) != (request.tool, request.arguments):
            return None
        call.request = request
        return call

    async def aclose(self) -> None:
        """End the session."""
        if not self.is_over:  # else its calls end with the error of the session
            self._closing.set()
            for call in list(self._calls.values()):
                call.cancel()
        if self._task is None:
            return
        if self._client is not None:  # else the server may never answer
            await asyncio.wait({self._task}, timeout=CLOSE_S)
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=CLOSE_S)

    def ping(self) -> "asyncio.Task[bool]":
        """Ping the server in the background and return the task, whose result is whether the server answers.

        Callers share one ping. The session of a server that does not answer ends.
        """
        if self._ping is None or self._ping.done():
            self._ping = asyncio.create_task(self._end_if_silent())
            self._ping.add_done_callback(retrieve_exception)
        return self._ping

    async def execute(self, call: "ActiveCall") -> McpCallResult:
        """Call a tool and wait for its end, or for the end of the session."""
        if self._client is None or self._task is None:
            raise self._end_error()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            call.request.on_progress(format_progress(progress, total, message))  # of the run that waits now

        task = asyncio.create_task(self._client.call(call.request.tool, dict(call.request.arguments), on_progress))
        try:
            await asyncio.wait({task, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise self._end_error()
            return to_result(task.result())
        except (McpError, anyio.ClosedResourceError, anyio.BrokenResourceError) as problem:
            if self.is_over or not isinstance(problem, McpError):
                raise self._end_error() from None
            raise McpServerError(f"the server refused the call: {problem.error.message}") from None
        except ValidationError:  # callers would take it for invalid arguments
            raise McpServerError("the result of the server is malformed; the call may have been executed") from None
        finally:
            task.cancel()
            await asyncio.wait({task}, timeout=CLOSE_S)

    def discard(self, call: "ActiveCall") -> None:
        """Remove a call that has ended."""
        if self._calls.get(call.request.call_id) is call:
            del self._calls[call.request.call_id]

    async def _end_if_silent(self) -> bool:
        """Ping the server and return whether it answers; if it does not, end the session and its process."""
        if self._client is None or self._task is None or self.is_over:
            return False
        answer = asyncio.create_task(self._client.send_ping())
        answer.add_done_callback(retrieve_exception)
        try:
            await asyncio.wait({answer, self._task}, timeout=PING_S, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():  # an error is an answer, unless it reports the end of the connection
                return not self.is_over
            text = f"the server did not answer a ping within {PING_S:g} s"
            self._fail(McpServerError(f"{text}; {describe_restart(self._address.config)}"))
            self._task.cancel()  # such a server does not take part in closing the connection
            await asyncio.wait({self._task}, timeout=CLOSE_S)
            return False
        finally:
            answer.cancel()

    async def _run(self) -> None:
        """Hold the connection from start to end: the `mcp` library requires both in one task."""
        async with (
            self._connect() as streams,
            McpClientSession(streams, self._answer_elicitation, self._on_message, self._on_connection_closed) as client,
        ):
            try:
                await client.initialize()
                listing = await client.fetch_listing()
                self._client = client
                self._on_opened(listing)
                await self._closing.wait()
            finally:
                client.end()

    def _on_opened(self, listing: ServerListing) -> None:
        if self._service is not None and self._address.thread_id is None:
            self._service.keep_home()
        if not self._opened.done():  # else it has failed already
            self._opened.set_result(listing)

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Streams]:
        if self._address.config.type != "stdio":
            async with connect_http(self._address, self._dependencies, self._fail) as streams:
                yield streams
            return
        self._service = await self._dependencies.start(await asyncio.to_thread(build_service_spec, self._address))
        self._lines = open_line_protocol(self._service)
        try:
            async with connect_stdio(self._service, self._lines, self._fail) as streams:
                yield streams
        finally:
            await self._service.aclose()

    def _end(self, task: "asyncio.Task[None]") -> None:
        """Notify those who wait that the session is over, and why."""
        failure = None if task.cancelled() else task.exception()
        if self._problem is None and failure is not None:
            self._problem = to_server_error(failure)
        if self._relisting is not None:
            self._relisting.cancel()
        if not self._opened.done():
            self._opened.set_exception(self._end_error())
            self._opened.exception()

    def _fail(self, problem: DeerFlowError) -> None:
        """End the session with an error that the library would not report."""
        self._problem = self._problem or problem
        if not self._opened.done():
            self._opened.set_exception(self._problem)
            self._opened.exception()
        self._closing.set()
        if self._task is not None and self._client is None:
            self._task.cancel()

    def _on_connection_closed(self) -> None:
        self._fail(McpServerError("the server has closed the connection"))

    def _end_error(self) -> DeerFlowError:
        return self._problem or McpServerError("the session with the server has ended; try again")

    async def _with_advice(self, text: str) -> McpServerError:
        return McpServerError(text + await asyncio.to_thread(suggest_fix, self._address.config))

    def _process_output(self) -> str:
        garbage = self._lines.first_invalid_line if self._lines else None
        text = garbage or (self._service.stderr_tail[-500:] if self._service else "")
        return f"; its output: {text}" if text else ""

    async def _on_message(self, message: object) -> None:
        """Handle a message that is not a response."""
        if isinstance(message, Exception):
            if not is_late_response(message):
                self._fail(to_server_error(message))
        elif isinstance(message, types.ServerNotification) and isinstance(
            message.root,
            types.ToolListChangedNotification
            | types.ResourceListChangedNotification
            | types.PromptListChangedNotification,
        ):
            self._schedule_relisting()

    def _schedule_relisting(self) -> None:
        """List the server again in the background, once for several notifications."""
        if self._relisting is None or self._relisting.done():
            self._relisting = asyncio.create_task(self._relist_now())
            self._relisting.add_done_callback(retrieve_exception)

    async def _relist_now(self) -> None:
        if self._client is None:
            return
        try:
            async with asyncio.timeout(RELIST_S):
                listing = await self._client.fetch_listing()
        except TimeoutError:
            self.ping()
            return
        await self._on_listing(listing)

    async def _answer_elicitation(self, question: Elicitation) -> ElicitationReply:
        """Ask the user of the latest call: the protocol does not say which call a question belongs to."""
        asking = [call for call in self._calls.values() if call.request.can_ask]
        return await asking[-1].ask(question) if asking else NO_ANSWER


class ActiveCall:
    """Call in progress, which continues while no run waits for it."""

    def __init__(self, session: ServerSession, request: McpToolCall) -> None:
        self.request = request
        self._session = session
        self._answered: list[Elicitation] = []
        self._pending: list[tuple[Elicitation, asyncio.Future[ElicitationReply]]] = []
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(session.execute(self))
        self._task.add_done_callback(self._end)
        self.is_awaited = True

    @property
    def answered(self) -> tuple[Elicitation, ...]:
        return tuple(self._answered)

    async def wait(self) -> McpCallResult | Elicitation:
        """Return the result, or the next question."""
        self.is_awaited = True
        while not self._task.done() and not self._pending:
            self._changed.clear()
            await self._changed.wait()
        if self._pending and not self._task.done():
            self.is_awaited = False  # it waits for the user now
            return self._pending[0][0]
        self._session.discard(self)
        if self._task.cancelled():
            raise McpServerError("the call was stopped")
        return self._task.result()

    def answer(self, reply: ElicitationReply) -> None:
        """Answer the first open question."""
        if self._pending:
            question, waiting = self._pending.pop(0)
            self._answered.append(question)
            if not waiting.done():
                waiting.set_result(reply)

    def cancel(self) -> None:
        """Cancel the call at the server, and end the session if the server does not answer a ping."""
        self._session.discard(self)
        if not self._task.done():
            self._task.cancel()
            if not self._session.is_over:
                self._session.ping()

    async def time_out(self) -> bool:
        """Cancel the call, and return whether the server still answers."""
        self.cancel()
        return await asyncio.shield(self._session.ping())

    async def ask(self, question: Elicitation) -> ElicitationReply:
        """Return the user's answer to a question."""
        waiting: asyncio.Future[ElicitationReply] = asyncio.get_running_loop().create_future()
        self._pending.append((question, waiting))
        self._changed.set()
        return await waiting

    def _end(self, task: "asyncio.Task[McpCallResult]") -> None:
        retrieve_exception(task)
        for _, waiting in self._pending:
            waiting.cancel()
        self._changed.set()


def build_service_spec(address: ServerAddress) -> ServiceSpec:
    """Return the process to start for a server."""
    config = address.config
    # Calls use the downloaded packages as they are; listing a server updates them.
    env = {**(OFFLINE_ENVIRONMENT if config.downloads_program and address.thread_id else {}), **config.env}
    return ServiceSpec(
        name=address.server,
        command=[config.command or "", *config.args],
        user_id=address.user_id,
        thread_id=address.thread_id,
        env=env,
        network=config.network_access,
        paths=find_readable_paths(config),
        host_folder=find_folder(config),
        seed=address.config_key if config.downloads_program else None,
    )


def to_server_error(failure: BaseException) -> DeerFlowError:
    """Return the cause of a failure as one of our errors, unwrapping exception groups."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    if isinstance(failure, DeerFlowError):
        return failure
    if isinstance(failure, McpError):
        return McpServerError(f"the server refused: {failure.error.message}")
    text = str(failure).splitlines()[0][:500] if str(failure) else "no explanation given"
    return McpServerError(f"the server cannot be used: {type(failure).__name__}: {text}")


def format_progress(progress: float, total: float | None, message: str | None) -> str:
    """Return progress as text."""
    share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
    return f"{share} {message}\n" if message else f"{share}\n"
