"""Session of a client: its event loop, its harness or server, and methods in a sync and an async form."""

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from functools import wraps
from inspect import get_annotations, signature
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar
from urllib.parse import quote

import httpx
import orjson
from httpx_sse import EventSource
from pydantic_core import to_jsonable_python

from deerflow.domain import errors
from deerflow.domain.errors import DeerFlowError, InvalidRequest, NotFound, TooManyAttempts
from deerflow.domain.runs import AgentSpec, EventName, RunEvent, RunRequest
from deerflow.domain.usage import SpendingLimit
from deerflow.harness import Harness

P = ParamSpec("P")
T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])
Content = TypeVar("Content")
Work = Callable[Concatenate["HarnessSession", P], Coroutine[Any, Any, T]]
"""Operation on a harness."""
Generation = Callable[Concatenate["HarnessSession", P], AsyncGenerator[T]]
CANCEL_LIMIT_S = 5.0


class BackgroundLoop(Generic[Content]):
    """Thread with an event loop of its own that runs a harness or HTTP client, whatever loop the caller has."""

    def __init__(self, open_content: Callable[[], AbstractAsyncContextManager[Content]]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="deerflow", daemon=True)
        self._thread.start()
        self._resources = AsyncExitStack()
        try:
            self.content = self.call(self._resources.enter_async_context(open_content()))
        except BaseException:
            self.close()
            raise

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the loop, block until it is done and return its result. Ctrl+C cancels it."""
        ended = threading.Event()

        async def run() -> T:
            try:
                return await work
            finally:
                ended.set()

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
            ended.wait(CANCEL_LIMIT_S)  # a generator cannot be closed while it runs
            raise

    async def acall(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the loop, await it in the caller's loop and return its result."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._loop.is_closed()

    def close(self) -> None:
        """Close the content and end the thread."""
        if self.is_closed:
            return
        self.call(self._resources.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass(frozen=True, slots=True)
class HarnessSession:
    """Harness of a client with the settings of its runs."""

    loop: BackgroundLoop[Harness]
    agent: AgentSpec
    """Agent that answers."""
    budget: SpendingLimit | None = None
    """Spending limit of each run; the configured limit applies as well."""

    @property
    def harness(self) -> Harness:
        """Harness, for use inside its loop."""
        return self.loop.content

    def run(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        """Return the operation `work`, carried out by the harness."""
        return work(self, *args, **kwargs)

    def iterate(self, work: Generation[P, T], *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T]:
        """Return the generator `work`, carried out by the harness."""
        return work(self, *args, **kwargs)


class ClientSession(Protocol):
    """Session with a harness in this process, or with a server."""

    @property
    def loop(self) -> BackgroundLoop[Any]: ...

    @property
    def agent(self) -> AgentSpec: ...

    @property
    def budget(self) -> SpendingLimit | None: ...

    def run(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        """Return the operation `work`, which is written for a harness."""

    def iterate(self, work: Generation[P, T], *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T]:
        """Return the generator `work`, which is written for a harness."""


API = "/api"
TIMEOUT = httpx.Timeout(300.0, connect=10.0)
"""Limits of a request to a server; models answer slowly, and each event of a stream counts anew."""
QUERY_ARGUMENTS = frozenset({"agent"})
"""Arguments that are in the query also where the others are in the body."""
EVENTS: Mapping[str, EventName] = {
    **{"messages": "messages", "custom": "custom", "error": "error", "end": "end"},
    "values": "changes",  # whole states in place of changes
}
WITHOUT_BODY = frozenset({"GET", "DELETE"})
ERRORS = {name: found for name, found in vars(errors).items() if isinstance(found, type)}
RemoteWork = Callable[..., Any]
"""Operation or generator on a `RemoteSession`, with the arguments of the one on a harness."""


@dataclass(frozen=True, slots=True)
class Route:
    """Route of the HTTP API that does the same as an operation on a harness."""

    method: str
    path: str
    pick: str | None = None
    """Field of the response that is the result; None: all of it."""
    body: str | None = None
    """Argument that is the whole body; None: the body has one field for each argument."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of arguments in the API, where they differ."""
    is_json: bool = True

    def build(self, given: dict[str, Any]) -> "RemoteRequest":
        """Return the request for arguments; those that are None are left out."""
        path = re.sub(r"{(\w+)}", lambda found: quote_segment(found[1], given.pop(found[1])), self.path)
        body: Any = given.pop(self.body) if self.body else None
        named = {self.names.get(name, name): to_jsonable_python(value) for name, value in given.items()}
        named = {name: value for name, value in named.items() if value is not None}
        query = {name: value for name, value in named.items() if self.method in WITHOUT_BODY or name in QUERY_ARGUMENTS}
        if self.method not in WITHOUT_BODY and not self.body:
            body = {name: value for name, value in named.items() if name not in query}
        return RemoteRequest(self.method, path, query, body)


@dataclass(frozen=True, slots=True)
class RemoteRequest:
    """Request to a server."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None


def quote_segment(name: str, value: object) -> str:
    """Return an argument as a part of a path. Paths of files keep their slashes."""
    return quote(str(value).removeprefix("/"), safe="/") if name == "path" else quote(str(value), safe="")


def route(
    request: str,
    *,
    pick: str | None = None,
    body: str | None = None,
    names: Mapping[str, str] | None = None,
    is_json: bool = True,
) -> Callable[[Function], Function]:
    """Decorate an operation with the route that does the same on a server."""
    method, _, path = request.partition(" ")
    return remotely(Route(method, path, pick, body, names or {}, is_json))


def remotely(remote: Route | RemoteWork) -> Callable[[Function], Function]:
    """Decorate an operation or generator with what does the same on a server."""

    def mark(work: Function) -> Function:
        vars(work)["remote"] = remote
        return work

    return mark


@dataclass(frozen=True, slots=True)
class RemoteSession:
    """Connection of a client to a server, with the settings of its runs."""

    loop: BackgroundLoop[httpx.AsyncClient]
    agent: AgentSpec
    budget: SpendingLimit | None = None

    @property
    def http(self) -> httpx.AsyncClient:
        """HTTP client, for use inside its loop."""
        return self.loop.content

    def run(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        """Return the operation that does on the server what `work` does on a harness."""
        remote = self._find(work)
        if isinstance(remote, Route):
            bound = signature(work).bind(self, *args, **kwargs)
            bound.apply_defaults()
            given = {name: value for name, value in bound.arguments.items() if name not in ("session", "fields")}
            return self._call(remote, {**given, **bound.arguments.get("fields", {})})
        found: Coroutine[Any, Any, T] = remote(self, *args, **kwargs)
        return found

    def iterate(self, work: Generation[P, T], *args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T]:
        """Return the generator that does on the server what `work` does on a harness."""
        found: AsyncGenerator[T] = self._find(work)(self, *args, **kwargs)
        return found

    def _find(self, work: Callable[..., Any]) -> Any:
        """Return what does the same on a server; operations that consist of others are their own."""
        remote = vars(work).get("remote")
        if remote is None and get_annotations(work).get("session") is not ClientSession:
            raise InvalidRequest(f"{work.__name__!r} is not possible on a remote server")
        return remote or work

    async def list_message_ids(self, thread_id: str) -> list[str]:
        """Return the ids of the messages of a thread; none if it does not exist yet."""
        try:
            state = await self.send(RemoteRequest("GET", f"/threads/{quote_segment('', thread_id)}/state"))
        except NotFound:
            return []
        return [message["id"] for message in orjson.loads(state.content)["values"].get("messages", ())]

    async def stream_run(self, request: RunRequest) -> AsyncGenerator[RunEvent]:
        """Start a run and yield its events; the run is cancelled if they are not read to the end."""
        context = {**asdict(self.agent), "budget": request.budget and asdict(request.budget)}
        del context["owner"], context["available_skills"], context["searches_knowledge"]
        body = {
            "input": None if request.resume is not None else {"messages": request.messages},
            "command": None if request.resume is None else {"resume": request.resume.answer},
            "context": {name: to_jsonable_python(value) for name, value in context.items() if value is not None},
            "stream_mode": ["messages-tuple", "values", "custom"],
            "if_not_exists": "create" if request.create_thread else "reject",
            "on_disconnect": "cancel",
        }
        thread = f"/threads/{quote_segment('', request.thread_id)}"
        async with self.open(RemoteRequest("POST", f"{thread}/runs/stream", body=body)) as response:
            is_over, seq = False, 0
            try:
                async for each in EventSource(response).aiter_sse():
                    seq, is_over = seq + 1, each.event == "end"
                    if each.event in EVENTS:
                        yield RunEvent(seq, EVENTS[each.event], each.data.encode())
            finally:
                if not is_over and (run := response.headers.get("content-location")):
                    await self.send(
                        RemoteRequest("POST", f"{thread}/runs/{run.rpartition('/')[2]}/cancel", {"wait": 1})
                    )

    async def _call(self, called: Route, given: dict[str, Any]) -> Any:
        response = await self.send(called.build(given))
        if not called.is_json:
            return response.content
        found: Any = orjson.loads(response.content) if response.content else None
        return found if called.pick is None else found[called.pick]

    async def send(self, request: RemoteRequest, **more: Any) -> httpx.Response:
        """Send a request and return the response.

        Raises:
            DeerFlowError: The error that the server has named.
            ConnectionError: The server cannot be reached.
        """
        with named_errors(self.http):
            async with self.open(request, **more) as response:
                await response.aread()
                return response

    @asynccontextmanager
    async def open(self, request: RemoteRequest, **more: Any) -> AsyncIterator[httpx.Response]:
        """Open a response, whose body the caller reads."""
        content = {} if request.body is None else {"json": request.body}
        query = {name: value for name, value in request.query.items() if value is not None}
        with named_errors(self.http):
            async with self.http.stream(
                request.method, f"{API}{request.path}", params=query, **content, **more
            ) as response:
                if not response.is_success:
                    await response.aread()
                    raise read_error(response)
                yield response


@contextmanager
def named_errors(http: httpx.AsyncClient) -> Iterator[None]:
    """Convert errors of the connection."""
    try:
        yield
    except httpx.TransportError as problem:
        raise ConnectionError(f"{http.base_url} cannot be reached: {problem or type(problem).__name__}") from problem


def read_error(response: httpx.Response) -> Exception:
    """Return the error that a response names."""
    try:
        body = orjson.loads(response.content)
        name, detail = str(body["error"]), str(body["detail"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ConnectionError(f"{response.url} answered with status {response.status_code}")
    if name == TooManyAttempts.__name__:
        return TooManyAttempts(detail, float(response.headers.get("retry-after", 0)))
    problem: Exception = ERRORS.get(name, DeerFlowError)(detail)
    return problem


class HasSession(Protocol):
    """Client or resource, which has a session."""

    @property
    def _session(self) -> ClientSession: ...


@dataclass(frozen=True, slots=True)
class Resource:
    """Base of the resources of a client, e.g. `client.threads`."""

    _session: ClientSession


SyncMethod = Callable[Concatenate[HasSession, P], T]
AsyncMethod = Callable[Concatenate[HasSession, P], Coroutine[Any, Any, T]]


def sync_and_async(
    work: Work[P, T],
) -> tuple[SyncMethod[P, T], AsyncMethod[P, T]]:
    """Return `work` as two methods: one that blocks until it is done, and one to await in the caller's loop."""

    @wraps(work)
    def method(self: HasSession, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._session.loop.call(self._session.run(work, *args, **kwargs))

    @wraps(work)
    async def async_method(self: HasSession, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._session.loop.acall(self._session.run(work, *args, **kwargs))

    return method, async_method


def sync_and_async_iterator(
    work: Generation[P, T],
) -> tuple[SyncMethod[P, Iterator[T]], Callable[Concatenate[HasSession, P], AsyncIterator[T]]]:
    """Return the generator `work` as two methods: an iterator and an async iterator; closing either closes `work`."""

    @wraps(work)
    def method(self: HasSession, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        items, loop = self._session.iterate(work, *args, **kwargs), self._session.loop
        try:
            while found := loop.call(next_item(items)):
                yield found[0]
        finally:
            if not loop.is_closed:  # an iterator may be dropped after its client; the run has ended with that
                loop.call(items.aclose())

    @wraps(work)
    async def async_method(self: HasSession, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        items, loop = self._session.iterate(work, *args, **kwargs), self._session.loop
        try:
            while found := await loop.acall(next_item(items)):
                yield found[0]
        finally:
            await loop.acall(items.aclose())

    return method, async_method


async def next_item(items: AsyncGenerator[T]) -> tuple[T] | None:
    """Return the next item in a tuple, or None at the end."""
    async for item in items:
        return (item,)
    return None
