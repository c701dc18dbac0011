"""Tests of the session pool."""

import asyncio
from collections.abc import Collection

import pytest

from deerflow.config.sections.extensions import McpServerConfig
from deerflow.mcp.session.calls import McpToolCall, PendingCall, ServerAddress, SessionDependencies
from deerflow.mcp.session.pool import SessionPool
from deerflow.mcp.status import McpServerError, ServerListing
from deerflow.sandbox.jobs.services import Service, ServiceSpec

STDIO, HTTP = McpServerConfig(command="x"), McpServerConfig(type="http", url="http://x")


class NoTokens:
    """Token provider for servers without logins."""

    def is_personal(self, server: str) -> bool:
        return False

    async def header(self, server: str, user_id: str) -> str | None:
        return None

    async def rejected(self, server: str, user_id: str, header: str | None, challenge: str | None) -> bool:
        return False

    async def lacks_scope(self, server: str, user_id: str, challenge: str, scope: str | None) -> None:
        pass


class FakeSession:
    """Session without a server."""

    def __init__(self, world: "PoolFixture", address: ServerAddress) -> None:
        self.world = world
        self.address = address
        self.is_over = False
        self.is_busy = False
        self.closed = asyncio.Event()

    async def open(self) -> ServerListing:
        self.world.opened.append(self)
        await self.world.may_open.wait()
        if self.world.breaks:
            raise McpServerError("broken")
        return ServerListing()

    def begin(self, request: McpToolCall) -> PendingCall:
        raise AssertionError

    def find(self, request: McpToolCall) -> PendingCall | None:
        return None

    async def aclose(self) -> None:
        self.is_over = True
        self.closed.set()


class PoolFixture:
    """Pool with fake sessions."""

    def __init__(self, **limits: float) -> None:
        self.opened: list[FakeSession] = []
        self.may_open = asyncio.Event()
        self.may_open.set()
        self.breaks = False
        self.kept: list[Collection[str]] = []
        dependencies = SessionDependencies(self.start, NoTokens(), self.keep)
        self.pool = SessionPool(dependencies, factory=lambda address, *_: FakeSession(self, address), **limits)  # type: ignore[arg-type]

    async def start(self, spec: ServiceSpec) -> Service:
        raise AssertionError

    async def keep(self, seeds: Collection[str]) -> None:
        self.kept.append(seeds)


def build_address(
    config: McpServerConfig = STDIO, user: str = "ada", thread: str = "t1", key: str = "k"
) -> ServerAddress:
    return ServerAddress("s", config, key, user, thread)


async def test_processes_are_per_thread_and_remote_sessions_per_user() -> None:
    world = PoolFixture()
    for config, user, thread in [
        (STDIO, "ada", "t1"),
        (STDIO, "ada", "t1"),
        (STDIO, "ada", "t2"),
        (STDIO, "bob", "t1"),
    ]:
        await world.pool.acquire(build_address(config, user, thread))
    assert len(world.opened) == 3
    for user, thread in [("ada", "t1"), ("ada", "t2"), ("bob", "t1")]:
        await world.pool.acquire(build_address(HTTP, user, thread))
    assert len(world.opened) == 5
    await world.pool.aclose()
    assert all(session.closed.is_set() for session in world.opened)


async def test_closes_idle_sessions_but_not_busy_ones() -> None:
    world = PoolFixture(idle_s=0.05)
    idle, busy = await world.pool.acquire(build_address()), await world.pool.acquire(build_address(thread="t2"))
    assert isinstance(idle, FakeSession) and isinstance(busy, FakeSession)
    busy.is_busy = True
    async with asyncio.timeout(5):
        await idle.closed.wait()
    assert not busy.closed.is_set()
    busy.is_busy = False
    async with asyncio.timeout(5):
        await busy.closed.wait()


async def test_closes_the_least_recently_used_session() -> None:
    world = PoolFixture(max_sessions=2)
    first, second = (
        await world.pool.acquire(build_address(thread="t1")),
        await world.pool.acquire(build_address(thread="t2")),
    )
    await world.pool.acquire(build_address(thread="t1"))
    await world.pool.acquire(build_address(thread="t3"))
    assert isinstance(first, FakeSession) and isinstance(second, FakeSession)
    async with asyncio.timeout(5):
        await second.closed.wait()
    assert not first.closed.is_set()


async def test_concurrent_callers_share_one_opening() -> None:
    world = PoolFixture()
    world.may_open.clear()
    waiting = [asyncio.create_task(world.pool.acquire(build_address())) for _ in range(3)]
    await asyncio.wait(waiting, timeout=0)
    waiting[0].cancel()
    world.may_open.set()
    sessions = await asyncio.gather(*waiting[1:])
    assert len(world.opened) == 1 and sessions[0] is sessions[1]


async def test_reopens_failed_and_ended_sessions() -> None:
    world = PoolFixture()
    world.breaks = True
    with pytest.raises(McpServerError):
        await world.pool.acquire(build_address())
    assert world.opened[0].closed.is_set()
    world.breaks = False
    session = await world.pool.acquire(build_address())
    assert isinstance(session, FakeSession)
    session.is_over = True
    assert await world.pool.acquire(build_address()) is not session


async def test_closes_sessions_of_deleted_threads_and_removed_servers() -> None:
    world = PoolFixture()
    gone, former, kept = [
        await world.pool.acquire(each)
        for each in (build_address(thread="gone"), build_address(thread="t2", key="former"), build_address(thread="t2"))
    ]
    await world.pool.close_thread("gone", "ada")
    await world.pool.close_removed({"k"})
    await world.pool.close_thread("none", "ada")
    assert isinstance(gone, FakeSession) and isinstance(former, FakeSession) and isinstance(kept, FakeSession)
    assert (gone.is_over, former.is_over, kept.is_over) == (True, True, False)
    for keys in ({"k"}, {"k", "new"}, {"k", "new"}):
        await world.pool.close_removed(keys)
    assert world.kept == [{"k"}, {"k", "new"}]  # homes are pruned when the configuration changes
