"""What is opened at `/mcp` when somebody first comes there: most servers never need it."""

import asyncio
from typing import Protocol

from starlette.types import Receive, Scope, Send

from deerflow.config.imports import load_object
from deerflow.domain.principal import Principal
from deerflow.gateway.bodies import BodyLimits
from deerflow.harness import Harness

SESSIONS = "deerflow.serving.mcp_sessions:McpSessions"


class Manager(Protocol):
    """Takes the requests of one person."""

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class Sessions(Protocol):
    """The sessions of everybody."""

    async def of(self, who: Principal) -> Manager: ...
    async def aclose(self) -> None: ...


class McpDoor:
    """Leads to the sessions of each person; close it when the server takes no more requests."""

    def __init__(self, harness: Harness, limits: BodyLimits) -> None:
        self.limits = limits
        self._harness = harness
        self._sessions: Sessions | None = None
        self._opening = asyncio.Lock()

    async def for_person(self, who: Principal) -> Manager:
        """What takes the requests of `who`."""
        async with self._opening:
            if self._sessions is None:
                # It takes a moment to import, in which others are to be served.
                make = await asyncio.to_thread(load_object, SESSIONS)
                assert callable(make)
                self._sessions = make(self._harness, self.limits.most_bytes)
        return await self._sessions.of(who)

    async def aclose(self) -> None:
        """End all sessions."""
        async with self._opening:
            if self._sessions is not None:
                await self._sessions.aclose()
