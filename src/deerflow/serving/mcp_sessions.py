"""MCP over streamable HTTP: each person has sessions of their own, which nobody else can name."""

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass

from anyio import ClosedResourceError
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from deerflow.domain.errors import Conflict
from deerflow.domain.principal import Principal
from deerflow.harness import Harness
from deerflow.serving.mcp_server import mcp_server

IDLE_S = 30 * 60.0
MOST_SESSIONS = 100
"""So many may one person have."""
MOST_PEOPLE = 1000
END_S = 10.0
TRANSPORT = "mcp.server.streamable_http"


@dataclass(frozen=True, slots=True)
class Sessions:
    """The sessions of one person, and the task that holds them open."""

    manager: StreamableHTTPSessionManager
    holding: "asyncio.Task[None]"
    over: asyncio.Event


class McpSessions:
    """Opens sessions when somebody first asks for them; close it in the end."""

    def __init__(self, harness: Harness, max_body: int) -> None:
        self._harness = harness
        self._max_body = max_body
        self._people: OrderedDict[str, Sessions] = OrderedDict()
        self._opening = asyncio.Lock()
        self._is_closed = False
        logging.getLogger(TRANSPORT).addFilter(is_worth_telling)

    async def of(self, who: Principal) -> StreamableHTTPSessionManager:
        """What takes the requests of `who`.

        Raises:
            Conflict: The server is going down.
        """
        async with self._opening:
            if self._is_closed:
                raise Conflict("the server is going down")
            if who.user_id not in self._people:
                self._people[who.user_id] = await self._open(who)
            self._people.move_to_end(who.user_id)
            while len(self._people) > MOST_PEOPLE:
                _, oldest = self._people.popitem(last=False)
                await end(oldest)
            return self._people[who.user_id].manager

    async def aclose(self) -> None:
        """End all sessions, and the runs somebody waits for in them."""
        async with self._opening:
            self._is_closed = True
            people, self._people = list(self._people.values()), OrderedDict()
        for sessions in people:
            await end(sessions)

    async def _open(self, who: Principal) -> Sessions:
        manager = StreamableHTTPSessionManager(
            mcp_server(self._harness, who),
            session_idle_timeout=IDLE_S,
            max_request_body_size=self._max_body,
            max_sessions=MOST_SESSIONS,
        )
        ready, over = asyncio.Event(), asyncio.Event()
        holding = asyncio.create_task(hold(manager, ready, over), name=f"MCP sessions of {who.user_id}")
        await ready.wait()
        return Sessions(manager, holding, over)


def is_worth_telling(record: logging.LogRecord) -> bool:
    """Whether a line of the library's is about more than a session that was closed, which it takes for an error."""
    return record.exc_info is None or not isinstance(record.exc_info[1], ClosedResourceError)


async def hold(manager: StreamableHTTPSessionManager, ready: asyncio.Event, over: asyncio.Event) -> None:
    """Hold sessions open: what opens them has to close them, in the same task."""
    async with manager.run():
        ready.set()
        await over.wait()


async def end(sessions: Sessions) -> None:
    """End sessions and wait for it."""
    sessions.over.set()
    await asyncio.wait({sessions.holding}, timeout=END_S)
