"""Session of a client: the event loop of its harness, and methods in a sync and an async form."""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from deerflow.domain.runs import AgentSpec
from deerflow.domain.usage import SpendingLimit
from deerflow.harness import Harness

P = ParamSpec("P")
T = TypeVar("T")
CANCEL_LIMIT_S = 5.0


class HarnessLoop:
    """Thread with an event loop of its own that runs the harness, independent of the caller's event loop."""

    def __init__(self, open_harness: Callable[[], AbstractAsyncContextManager[Harness]]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="deerflow", daemon=True)
        self._thread.start()
        self._resources = AsyncExitStack()
        try:
            self.harness = self.call(self._resources.enter_async_context(open_harness()))
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
        """Close the harness and end the thread."""
        if self.is_closed:
            return
        self.call(self._resources.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@dataclass(frozen=True, slots=True)
class HarnessSession:
    """Harness of a client with the settings of its runs."""

    loop: HarnessLoop
    agent: AgentSpec
    """Agent that answers."""
    budget: SpendingLimit | None = None
    """Spending limit of each run; the configured limit applies as well."""

    @property
    def harness(self) -> Harness:
        """Harness, for use inside its loop."""
        return self.loop.harness


class HasSession(Protocol):
    """Client or resource, which has a session."""

    @property
    def _session(self) -> HarnessSession: ...


@dataclass(frozen=True, slots=True)
class Resource:
    """Base of the resources of a client, e.g. `client.threads`."""

    _session: HarnessSession


SyncMethod = Callable[Concatenate[HasSession, P], T]
AsyncMethod = Callable[Concatenate[HasSession, P], Coroutine[Any, Any, T]]


def sync_and_async(
    work: Callable[Concatenate[HarnessSession, P], Coroutine[Any, Any, T]],
) -> tuple[SyncMethod[P, T], AsyncMethod[P, T]]:
    """Return `work` as two methods: one that blocks until it is done, and one to await in the caller's loop."""

    @wraps(work)
    def method(self: HasSession, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._session.loop.call(work(self._session, *args, **kwargs))

    @wraps(work)
    async def async_method(self: HasSession, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._session.loop.acall(work(self._session, *args, **kwargs))

    return method, async_method


def sync_and_async_iterator(
    work: Callable[Concatenate[HarnessSession, P], AsyncGenerator[T]],
) -> tuple[SyncMethod[P, Iterator[T]], Callable[Concatenate[HasSession, P], AsyncIterator[T]]]:
    """Return the generator `work` as two methods: an iterator and an async iterator; closing either closes `work`."""

    @wraps(work)
    def method(self: HasSession, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        items, loop = work(self._session, *args, **kwargs), self._session.loop
        try:
            while found := loop.call(next_item(items)):
                yield found[0]
        finally:
            if not loop.is_closed:  # an iterator may be dropped after its client; the run has ended with that
                loop.call(items.aclose())

    @wraps(work)
    async def async_method(self: HasSession, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        items, loop = work(self._session, *args, **kwargs), self._session.loop
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
