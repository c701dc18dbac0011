"""One session with a server: a task that owns the connection, and the calls that go through it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType

import anyio
from mcp import types
from mcp.shared.exceptions import McpError

from deerflow.domain.errors import DeerFlowError
from deerflow.mcp.advice import advice_for, fetches
from deerflow.mcp.calls import Address, CallOrder, CallResult, PendingCall, Question, Reply
from deerflow.mcp.http import calling
from deerflow.mcp.problems import McpProblem
from deerflow.mcp.protocol import Client, is_about_nothing
from deerflow.mcp.results import to_result
from deerflow.mcp.sessions import SessionKit
from deerflow.mcp.status import Listing
from deerflow.mcp.stdio import Heard, Streams, hearing, speaking_with
from deerflow.sandbox.services import Service, ServiceOrder

CLOSE_S = 5.0
RELIST_S = 30.0
NOBODY = Reply("cancel")
SPARING = MappingProxyType({"NPM_CONFIG_PREFER_OFFLINE": "true", "NPM_CONFIG_UPDATE_NOTIFIER": "false"})

OnListing = Callable[[Listing], Awaitable[None]]


class ServerSession:
    """Opened once; ends when it is closed, or by itself when the server does."""

    def __init__(self, address: Address, kit: SessionKit, on_listing: OnListing) -> None:
        self._address = address
        self._kit = kit
        self._on_listing = on_listing
        self._client: Client | None = None
        self._opened: asyncio.Future[Listing] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._problem: DeerFlowError | None = None
        self._owner: asyncio.Task[None] | None = None
        self._calls: dict[str, Call] = {}
        self._relisting: asyncio.Task[None] | None = None
        self._service: Service | None = None
        self._words: Heard | None = None

    @property
    def is_over(self) -> bool:
        return self._owner is not None and (self._owner.done() or self._closing.is_set())

    @property
    def is_busy(self) -> bool:
        return any(call.is_attended for call in self._calls.values())

    async def open(self) -> Listing:
        """Connect and ask what there is."""
        limit = self._address.config.session_init_timeout
        self._owner = asyncio.create_task(self._own(), name=f"the MCP server {self._address.server!r}")
        self._owner.add_done_callback(self._end)
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(self._opened)
        except TimeoutError:
            raise await self._advised(f"the server did not answer within {limit:g} s{self._hint()}") from None
        except McpProblem as problem:
            raise await self._advised(str(problem)) from None

    def begin(self, order: CallOrder) -> PendingCall:
        """Start a call."""
        call = self._calls[order.call_id] = Call(self, order)
        return call

    def find(self, order: CallOrder) -> PendingCall | None:
        """The same call, begun before."""
        call = self._calls.get(order.call_id)
        if call is None or (call.order.tool, call.order.arguments) != (order.tool, order.arguments):
            return None
        call.order = order
        return call

    async def aclose(self) -> None:
        """End it."""
        self._closing.set()
        for call in list(self._calls.values()):
            call.cancel()
        if self._owner is None:
            return
        if self._client is not None:  # else it waits for a server that may never answer
            await asyncio.wait({self._owner}, timeout=CLOSE_S)
        self._owner.cancel()
        await asyncio.wait({self._owner}, timeout=CLOSE_S)

    async def use(self, call: "Call") -> CallResult:
        """Call a tool and wait for its end, or for that of the session."""
        if self._client is None or self._owner is None:
            raise self._ending()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            call.order.hear(in_words(progress, total, message))  # of whoever waits now

        using = asyncio.create_task(self._client.use(call.order.tool, dict(call.order.arguments), hear))
        try:
            await asyncio.wait({using, self._owner}, return_when=asyncio.FIRST_COMPLETED)
            if not using.done():
                raise self._ending()
            return to_result(using.result())
        except (McpError, anyio.ClosedResourceError, anyio.BrokenResourceError) as problem:
            if self.is_over or not isinstance(problem, McpError):
                raise self._ending() from None
            raise McpProblem(f"the server refused the call: {problem.error.message}") from None
        finally:
            using.cancel()
            await asyncio.wait({using}, timeout=CLOSE_S)

    def done_with(self, call: "Call") -> None:
        """Forget a call that has ended."""
        if self._calls.get(call.order.call_id) is call:
            del self._calls[call.order.call_id]

    async def _own(self) -> None:
        """Hold the connection from its beginning to its end: the library wants both in one task."""
        async with self._connected() as streams, Client(streams, self._ask, self._hear, self._hear_end) as client:
            try:
                await client.initialize()
                listing = await client.listing()
                self._client = client
                self._tell_opened(listing)
                await self._closing.wait()
            finally:
                client.end()

    def _tell_opened(self, listing: Listing) -> None:
        if self._service is not None and self._address.thread_id is None:
            self._service.keep()
        if not self._opened.done():  # else it has failed meanwhile
            self._opened.set_result(listing)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Streams]:
        if self._address.config.type != "stdio":
            async with calling(self._address, self._kit.tokens, self._fail) as streams:
                yield streams
            return
        self._service = await self._kit.start(to_order(self._address))
        self._words = hearing(self._service)
        try:
            async with speaking_with(self._service, self._words, self._fail) as streams:
                yield streams
        finally:
            await self._service.aclose()

    def _end(self, owner: "asyncio.Task[None]") -> None:
        """Tell those who wait that it is over, and why."""
        failure = None if owner.cancelled() else owner.exception()
        if self._problem is None and failure is not None:
            self._problem = explain(failure)
        if self._relisting is not None:
            self._relisting.cancel()
        if not self._opened.done():
            self._opened.set_exception(self._ending())
            self._opened.exception()

    def _fail(self, problem: DeerFlowError) -> None:
        """End the session, for a reason that the library would not tell."""
        self._problem = self._problem or problem
        if not self._opened.done():
            self._opened.set_exception(self._problem)
            self._opened.exception()
        self._closing.set()
        if self._owner is not None and self._client is None:
            self._owner.cancel()

    def _hear_end(self) -> None:
        self._fail(McpProblem("the server has closed the connection"))

    def _ending(self) -> DeerFlowError:
        return self._problem or McpProblem("the session with the server has ended; try again")

    async def _advised(self, said: str) -> McpProblem:
        return McpProblem(said + await asyncio.to_thread(advice_for, self._address.config))

    def _hint(self) -> str:
        garbage = self._words.first_garbage if self._words else None
        said = garbage or (self._service.complaints[-500:] if self._service else "")
        return f"; it said: {said}" if said else ""

    async def _hear(self, message: object) -> None:
        """Whatever comes that is no answer."""
        if isinstance(message, Exception):
            if not is_about_nothing(message):
                self._fail(explain(message))
        elif isinstance(message, types.ServerNotification) and isinstance(
            message.root,
            types.ToolListChangedNotification
            | types.ResourceListChangedNotification
            | types.PromptListChangedNotification,
        ):
            self._relist()

    def _relist(self) -> None:
        """Ask again what there is, beside the rest, and once for several notices."""
        if self._relisting is None or self._relisting.done():
            self._relisting = asyncio.create_task(self._list_again())
            self._relisting.add_done_callback(forget_failure)

    async def _list_again(self) -> None:
        if self._client is None:
            return
        async with asyncio.timeout(RELIST_S):
            listing = await self._client.listing()
        await self._on_listing(listing)

    async def _ask(self, question: Question) -> Reply:
        """Put a question to the user of the latest call: the protocol does not say which one it belongs to."""
        asking = [call for call in self._calls.values() if call.order.can_ask]
        return await asking[-1].ask(question) if asking else NOBODY


class Call:
    """A call under way, which goes on while nobody waits for it."""

    def __init__(self, session: ServerSession, order: CallOrder) -> None:
        self.order = order
        self._session = session
        self._answered: list[Question] = []
        self._asked: list[tuple[Question, asyncio.Future[Reply]]] = []
        self._wake = asyncio.Event()
        self._working = asyncio.create_task(session.use(self))
        self._working.add_done_callback(self._end)
        self.is_attended = True

    @property
    def answered(self) -> tuple[Question, ...]:
        return tuple(self._answered)

    async def proceed(self) -> CallResult | Question:
        """The result, or the next question."""
        self.is_attended = True
        while not self._working.done() and not self._asked:
            self._wake.clear()
            await self._wake.wait()
        if self._asked and not self._working.done():
            self.is_attended = False  # from here on it waits for a person
            return self._asked[0][0]
        self._session.done_with(self)
        if self._working.cancelled():
            raise McpProblem("the call was stopped")
        return self._working.result()

    def answer(self, reply: Reply) -> None:
        """Answer the first open question."""
        if self._asked:
            question, waiting = self._asked.pop(0)
            self._answered.append(question)
            if not waiting.done():
                waiting.set_result(reply)

    def cancel(self) -> None:
        """Stop waiting, and have the server told."""
        self._session.done_with(self)
        self._working.cancel()

    async def ask(self, question: Question) -> Reply:
        """Wait for the user's answer."""
        waiting: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._asked.append((question, waiting))
        self._wake.set()
        return await waiting

    def _end(self, working: "asyncio.Task[CallResult]") -> None:
        forget_failure(working)
        for _, waiting in self._asked:
            waiting.cancel()
        self._wake.set()


def to_order(address: Address) -> ServiceOrder:
    """How the program of a server is started."""
    config = address.config
    # What was fetched is used as it is: whoever asks what there is fetches it anew.
    env = {**(SPARING if fetches(config) and address.thread_id else {}), **config.env}
    return ServiceOrder(
        name=address.server,
        command=[config.command or "", *config.args],
        user_id=address.user_id,
        thread_id=address.thread_id,
        env=env,
        network=config.network,
        paths=[Path(path).expanduser() for path in config.paths],
        seed=address.config_key if fetches(config) else None,
    )


def explain(failure: BaseException) -> DeerFlowError:
    """What went wrong, of all that a library has wrapped around it."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    if isinstance(failure, DeerFlowError):
        return failure
    if isinstance(failure, McpError):
        return McpProblem(f"the server refused: {failure.error.message}")
    text = str(failure).splitlines()[0][:500] if str(failure) else "no explanation given"
    return McpProblem(f"the server cannot be used: {type(failure).__name__}: {text}")


def in_words(progress: float, total: float | None, message: str | None) -> str:
    """Progress, as people read it."""
    share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
    return f"{share} {message}\n" if message else f"{share}\n"


def forget_failure(task: "asyncio.Task[object]") -> None:
    """Have a failure told only to those who wait."""
    if not task.cancelled():
        task.exception()
