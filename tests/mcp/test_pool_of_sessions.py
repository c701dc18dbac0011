"""Which sessions are kept, and when they are closed."""

import asyncio
from collections.abc import Collection

import pytest

from deerflow.config.extensions import McpServerConfig
from deerflow.mcp.auth import NoTokens
from deerflow.mcp.calls import Address, CallOrder, PendingCall
from deerflow.mcp.problems import McpProblem
from deerflow.mcp.sessions import SessionKit, SessionPool
from deerflow.mcp.status import Listing
from deerflow.sandbox.services import Service, ServiceOrder

STDIO, HTTP = McpServerConfig(command="x"), McpServerConfig(type="http", url="http://x")


class FakeSession:
    """A session with nobody."""

    def __init__(self, world: "World", address: Address) -> None:
        self.world = world
        self.address = address
        self.is_over = False
        self.is_busy = False
        self.closed = asyncio.Event()

    async def open(self) -> Listing:
        self.world.opened.append(self)
        await self.world.may_open.wait()
        if self.world.breaks:
            raise McpProblem("broken")
        return Listing()

    def begin(self, order: CallOrder) -> PendingCall:
        raise AssertionError

    def find(self, order: CallOrder) -> PendingCall | None:
        return None

    async def aclose(self) -> None:
        self.is_over = True
        self.closed.set()


class World:
    """Makes sessions."""

    def __init__(self, **limits: float) -> None:
        self.opened: list[FakeSession] = []
        self.may_open = asyncio.Event()
        self.may_open.set()
        self.breaks = False
        self.kept: list[Collection[str]] = []
        kit = SessionKit(self.start, NoTokens(), self.keep)
        self.pool = SessionPool(kit, make=lambda address, kit, tell: FakeSession(self, address), **limits)  # type: ignore[arg-type]

    async def start(self, order: ServiceOrder) -> Service:
        raise AssertionError

    async def keep(self, seeds: Collection[str]) -> None:
        self.kept.append(seeds)


def address(config: McpServerConfig = STDIO, user: str = "ada", thread: str = "t1", key: str = "k") -> Address:
    return Address("s", config, key, user, thread)


async def test_a_process_is_for_one_thread_and_a_remote_session_for_one_user() -> None:
    world = World()
    for config, user, thread in [
        (STDIO, "ada", "t1"),
        (STDIO, "ada", "t1"),
        (STDIO, "ada", "t2"),
        (STDIO, "bob", "t1"),
    ]:
        await world.pool.acquire(address(config, user, thread))
    assert len(world.opened) == 3
    for user, thread in [("ada", "t1"), ("ada", "t2"), ("bob", "t1")]:
        await world.pool.acquire(address(HTTP, user, thread))
    assert len(world.opened) == 5
    await world.pool.aclose()
    assert all(session.closed.is_set() for session in world.opened)


async def test_a_session_that_nobody_uses_is_closed_and_a_busy_one_is_not() -> None:
    world = World(idle_s=0.05)
    idle, busy = await world.pool.acquire(address()), await world.pool.acquire(address(thread="t2"))
    assert isinstance(idle, FakeSession) and isinstance(busy, FakeSession)
    busy.is_busy = True
    async with asyncio.timeout(5):
        await idle.closed.wait()
    assert not busy.closed.is_set()
    busy.is_busy = False
    async with asyncio.timeout(5):
        await busy.closed.wait()


async def test_the_session_that_was_used_longest_ago_makes_room() -> None:
    world = World(most=2)
    first, second = await world.pool.acquire(address(thread="t1")), await world.pool.acquire(address(thread="t2"))
    await world.pool.acquire(address(thread="t1"))
    await world.pool.acquire(address(thread="t3"))
    assert isinstance(first, FakeSession) and isinstance(second, FakeSession)
    async with asyncio.timeout(5):
        await second.closed.wait()
    assert not first.closed.is_set()


async def test_several_calls_wait_for_one_opening_and_one_that_gives_up_leaves_the_others() -> None:
    world = World()
    world.may_open.clear()
    waiting = [asyncio.create_task(world.pool.acquire(address())) for _ in range(3)]
    await asyncio.wait(waiting, timeout=0)
    waiting[0].cancel()
    world.may_open.set()
    sessions = await asyncio.gather(*waiting[1:])
    assert len(world.opened) == 1 and sessions[0] is sessions[1]


async def test_one_that_could_not_be_opened_or_has_ended_is_opened_again() -> None:
    world = World()
    world.breaks = True
    with pytest.raises(McpProblem):
        await world.pool.acquire(address())
    assert world.opened[0].closed.is_set()
    world.breaks = False
    session = await world.pool.acquire(address())
    assert isinstance(session, FakeSession)
    session.is_over = True
    assert await world.pool.acquire(address()) is not session


async def test_sessions_of_a_deleted_thread_and_of_a_former_configuration_are_closed() -> None:
    world = World()
    gone, former, kept = [
        await world.pool.acquire(each)
        for each in (address(thread="gone"), address(thread="t2", key="former"), address(thread="t2"))
    ]
    await world.pool.forget("gone", "ada")
    await world.pool.keep_only({"k"})
    await world.pool.forget("none", "ada")
    assert isinstance(gone, FakeSession) and isinstance(former, FakeSession) and isinstance(kept, FakeSession)
    assert (gone.is_over, former.is_over, kept.is_over) == (True, True, False)
    for keys in ({"k"}, {"k", "new"}, {"k", "new"}):
        await world.pool.keep_only(keys)
    assert world.kept == [{"k"}, {"k", "new"}]  # homes are looked through when something was configured
