"""Every method of the client twice: plain for scripts, async for programs with a loop of their own."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from deerflow.client.loop import HarnessLoop
from deerflow.domain.budget import SpendingLimit
from deerflow.domain.runs import AgentSpec
from deerflow.harness import Harness

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Session:
    """What the methods of a client work with."""

    loop: HarnessLoop
    agent: AgentSpec
    """Who answers."""
    budget: SpendingLimit | None = None
    """What each run may take, if less than the configuration allows."""

    @property
    def harness(self) -> Harness:
        """The harness, for use inside the loop."""
        return self.loop.harness


class HasSession(Protocol):
    """The client, as its methods see it."""

    _session: Session


Waiting = Callable[Concatenate[HasSession, P], T]
Awaited = Callable[Concatenate[HasSession, P], Coroutine[Any, Any, T]]


def faces(work: Callable[Concatenate[Session, P], Coroutine[Any, Any, T]]) -> tuple[Waiting[P, T], Awaited[P, T]]:
    """`work` as two methods: one that waits for its result, and one that is awaited in the caller's loop."""

    @wraps(work)
    def plain(self: HasSession, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._session.loop.call(work(self._session, *args, **kwargs))

    @wraps(work)
    async def awaited(self: HasSession, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._session.loop.acall(work(self._session, *args, **kwargs))

    return plain, awaited


def streams(
    work: Callable[Concatenate[Session, P], AsyncGenerator[T]],
) -> tuple[Waiting[P, Iterator[T]], Callable[Concatenate[HasSession, P], AsyncIterator[T]]]:
    """The same for what comes piece by piece; leaving the loop over it early ends `work`."""

    @wraps(work)
    def plain(self: HasSession, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        pieces, loop = work(self._session, *args, **kwargs), self._session.loop
        try:
            while found := loop.call(following(pieces)):
                yield found[0]
        finally:
            loop.call(pieces.aclose())

    @wraps(work)
    async def awaited(self: HasSession, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        pieces, loop = work(self._session, *args, **kwargs), self._session.loop
        try:
            while found := await loop.acall(following(pieces)):
                yield found[0]
        finally:
            await loop.acall(pieces.aclose())

    return plain, awaited


async def following(pieces: AsyncGenerator[T]) -> tuple[T] | None:
    """The next piece, None when there is none."""
    async for piece in pieces:
        return (piece,)
    return None
