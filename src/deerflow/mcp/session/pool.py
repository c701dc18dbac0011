"""Pool of MCP sessions: one per thread for processes, one per user for remote servers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Protocol

from deerflow.mcp.session.calls import McpSession, ServerAddress, SessionDependencies, retrieve_exception
from deerflow.mcp.status import ServerListing

logger = logging.getLogger(__name__)

IDLE_S = 600.0
MAX_SESSIONS = 64

SessionKey = tuple[str, str, str, str]
ListingHandler = Callable[[ServerAddress, ServerListing], Awaitable[None]]


class SessionFactory(Protocol):
    """Creates a session that is not open yet."""

    def __call__(
        self,
        address: ServerAddress,
        dependencies: SessionDependencies,
        on_listing: Callable[[ServerListing], Awaitable[None]],
    ) -> McpSession: ...


class PooledSession:
    """Session that is open or being opened."""

    def __init__(self, address: ServerAddress, opening: asyncio.Task[McpSession]) -> None:
        self.address = address
        self.opening = opening
        self.timer: asyncio.TimerHandle | None = None

    @property
    def session(self) -> McpSession | None:
        done = self.opening.done() and not self.opening.cancelled() and self.opening.exception() is None
        return self.opening.result() if done else None

    @property
    def is_usable(self) -> bool:
        """Return whether it is open or may be soon."""
        return not self.opening.done() or (self.session is not None and not self.session.is_over)


class SessionPool:
    """Opens sessions on first use and closes idle ones."""

    def __init__(
        self,
        dependencies: SessionDependencies,
        *,
        idle_s: float = IDLE_S,
        max_sessions: int = MAX_SESSIONS,
        factory: SessionFactory | None = None,
    ) -> None:
        """Create a pool. Without `factory`, sessions are `ServerSession`s, imported on first use."""
        self._dependencies = dependencies
        self._idle_s = idle_s
        self._max_sessions = max_sessions
        self._sessions: dict[SessionKey, PooledSession] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._handler: ListingHandler | None = None
        self._factory = factory
        self._kept_keys: frozenset[str] | None = None

    def on_listing(self, handler: ListingHandler) -> None:
        """Set the handler of listings that servers return."""
        self._handler = handler

    async def fetch_listing(
        self, address: ServerAddress, on_session: Callable[[McpSession], None] = lambda session: None
    ) -> ServerListing:
        """List a server in a session of its own. `on_session` gets the session before it is opened.

        Raises:
            McpServerError: The server did not answer; the text says why.
            LoginRequired: The user has to log in first.
        """
        session = await self._create(address)
        on_session(session)
        try:
            return await session.open()
        finally:
            await self._close_session(session)

    async def acquire(self, address: ServerAddress) -> McpSession:
        """Return an open session; one that has ended is replaced.

        Raises:
            McpServerError: No session can be opened; the text says why.
            LoginRequired: The user has to log in first.
        """
        key = session_key(address)
        pooled = self._sessions.get(key)
        if pooled is not None and not pooled.is_usable:
            self._drop(key)  # its process may not have ended yet
            pooled = None
        if pooled is None:
            opening = asyncio.create_task(self._open(address), name=f"opening the MCP server {address.server!r}")
            opening.add_done_callback(retrieve_exception)
            pooled = self._sessions[key] = PooledSession(address, opening)
        self._sessions[key] = self._sessions.pop(key)  # most recently used last
        self._schedule_idle_close(key, pooled)
        self._close_excess()
        # The caller may be cancelled while others wait for the same session.
        return await asyncio.shield(pooled.opening)

    def find_open(self, address: ServerAddress) -> McpSession | None:
        """Return the session if it is open."""
        pooled = self._sessions.get(session_key(address))
        return pooled.session if pooled and pooled.session and not pooled.session.is_over else None

    async def close_removed(self, config_keys: Collection[str]) -> None:
        """Close idle sessions of servers that were reconfigured or removed.

        The files of their processes are removed the first time and whenever the configuration has changed.
        """
        for key, pooled in list(self._sessions.items()):
            if pooled.address.config_key not in config_keys and not (pooled.session and pooled.session.is_busy):
                self._drop(key)
        if self._dependencies.prune_homes is not None and self._kept_keys != config_keys:
            self._kept_keys = frozenset(config_keys)
            await self._dependencies.prune_homes(self._kept_keys)

    async def close_thread(self, thread_id: str, user_id: str) -> None:
        """End the sessions of a thread."""
        for key, pooled in list(self._sessions.items()):
            if (pooled.address.thread_id, pooled.address.user_id) == (thread_id, user_id):
                self._drop(key)
        if self._ending:
            await asyncio.wait(self._ending)

    async def aclose(self) -> None:
        """End all sessions."""
        for key in list(self._sessions):
            self._drop(key)
        if self._ending:
            await asyncio.wait(self._ending)

    async def _create(self, address: ServerAddress) -> McpSession:
        if self._factory is None:
            await asyncio.to_thread(preload_session)
            from deerflow.mcp.session.connection import ServerSession

            self._factory = ServerSession

        async def notify(listing: ServerListing) -> None:
            if self._handler is not None:
                await self._handler(address, listing)

        return self._factory(address, self._dependencies, notify)

    async def _open(self, address: ServerAddress) -> McpSession:
        session = await self._create(address)
        try:
            listing = await session.open()
        except BaseException:
            await self._close_session(session)
            raise
        if self._handler is not None:
            await self._handler(address, listing)
        return session

    def _schedule_idle_close(self, key: SessionKey, pooled: PooledSession) -> None:
        if pooled.timer is not None:
            pooled.timer.cancel()
        pooled.timer = asyncio.get_running_loop().call_later(self._idle_s, self._close_if_idle, key, pooled)

    def _close_if_idle(self, key: SessionKey, pooled: PooledSession) -> None:
        if self._sessions.get(key) is not pooled:
            return
        if not pooled.opening.done() or (pooled.session and pooled.session.is_busy):
            self._schedule_idle_close(key, pooled)
        else:
            self._drop(key)

    def _close_excess(self) -> None:
        idle = [key for key, pooled in self._sessions.items() if pooled.session and not pooled.session.is_busy]
        for key in idle[: max(0, len(self._sessions) - self._max_sessions)]:
            self._drop(key)

    def _drop(self, key: SessionKey) -> None:
        pooled = self._sessions.pop(key)
        if pooled.timer is not None:
            pooled.timer.cancel()
        ending = asyncio.create_task(self._close_pooled(pooled))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _close_pooled(self, pooled: PooledSession) -> None:
        pooled.opening.cancel()
        await asyncio.wait({pooled.opening})
        if pooled.session is not None:
            await pooled.session.aclose()

    async def _close_session(self, session: McpSession) -> None:
        """Close a session, also when the caller is cancelled meanwhile."""
        ending = asyncio.create_task(session.aclose())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        await asyncio.shield(ending)


def preload_session() -> None:
    """Import the session. The `mcp` library takes long to import, and most servers never need it."""
    import deerflow.mcp.session.connection  # noqa: F401


def session_key(address: ServerAddress) -> SessionKey:
    """Return the key of users that share a session."""
    thread = (address.thread_id or "") if address.config.type == "stdio" else ""
    return address.server, address.config_key, address.user_id, thread
