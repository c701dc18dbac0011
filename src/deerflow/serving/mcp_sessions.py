"""MCP over streamable HTTP: each user has separate sessions that no other user can access."""

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass

from anyio import ClosedResourceError
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from deerflow.domain.errors import Conflict
from deerflow.domain.identity import Principal
from deerflow.harness import Harness
from deerflow.serving.mcp_server import create_mcp_server

IDLE_S = 30 * 60.0
MAX_SESSIONS = 100
"""Maximum number of sessions per user."""
MAX_USERS = 1000
CLOSE_S = 10.0
TRANSPORT_LOGGER = "mcp.server.streamable_http"


@dataclass(frozen=True, slots=True)
class UserSessions:
    """Sessions of one user, and the task that keeps them open."""

    manager: StreamableHTTPSessionManager
    task: "asyncio.Task[None]"
    over: asyncio.Event


class McpHttpSessions:
    """Opens sessions on the first request of a user. Must be closed."""

    def __init__(self, harness: Harness, max_body: int) -> None:
        self._harness = harness
        self._max_body = max_body
        self._users: OrderedDict[str, UserSessions] = OrderedDict()
        self._opening = asyncio.Lock()
        self._is_closed = False
        logging.getLogger(TRANSPORT_LOGGER).addFilter(is_relevant_record)

    async def get_manager(self, user: Principal) -> StreamableHTTPSessionManager:
        """Return the session manager of a user.

        Raises:
            Conflict: The server is shutting down.
        """
        async with self._opening:
            if self._is_closed:
                raise Conflict("the server is shutting down")
            if user.user_id not in self._users:
                self._users[user.user_id] = await self._open(user)
            self._users.move_to_end(user.user_id)
            while len(self._users) > MAX_USERS:
                _, oldest = self._users.popitem(last=False)
                await close_sessions(oldest)
            return self._users[user.user_id].manager

    async def aclose(self) -> None:
        """End all sessions and the runs that clients wait for."""
        async with self._opening:
            self._is_closed = True
            users, self._users = list(self._users.values()), OrderedDict()
        for sessions in users:
            await close_sessions(sessions)

    async def _open(self, user: Principal) -> UserSessions:
        manager = StreamableHTTPSessionManager(
            create_mcp_server(self._harness, user),
            session_idle_timeout=IDLE_S,
            max_request_body_size=self._max_body,
            max_sessions=MAX_SESSIONS,
        )
        ready, over = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(keep_open(manager, ready, over), name=f"MCP sessions of {user.user_id}")
        await ready.wait()
        return UserSessions(manager, task, over)


def is_relevant_record(record: logging.LogRecord) -> bool:
    """Return whether a log record is about more than a closed session, which the library logs as an error."""
    return record.exc_info is None or not isinstance(record.exc_info[1], ClosedResourceError)


async def keep_open(manager: StreamableHTTPSessionManager, ready: asyncio.Event, over: asyncio.Event) -> None:
    """Keep the sessions open: they must be opened and closed in the same task."""
    async with manager.run():
        ready.set()
        await over.wait()


async def close_sessions(sessions: UserSessions) -> None:
    """End sessions and wait for them."""
    sessions.over.set()
    await asyncio.wait({sessions.task}, timeout=CLOSE_S)
