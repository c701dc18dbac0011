"""MCP endpoint at /mcp: the agent as an MCP server over streamable HTTP. Its library is loaded on first use."""

import asyncio
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from deerflow.domain.identity import Principal
from deerflow.gateway.dependencies import CurrentUser
from deerflow.gateway.middleware.body_limits import BodyLimitMiddleware, BodyLimits
from deerflow.harness import Harness

if TYPE_CHECKING:
    from deerflow.serving.mcp_server import McpHttpSessions

router = APIRouter(tags=["mcp"])


class McpEndpoint:
    """MCP sessions of all users; close it when the server accepts no more requests."""

    def __init__(self, harness: Harness, limits: BodyLimits) -> None:
        self.limits = limits
        self._harness = harness
        self._sessions: McpHttpSessions | None = None
        self._opening = asyncio.Lock()

    async def get_app(self, user: Principal) -> ASGIApp:
        """Return the application that handles the MCP requests of a user."""
        async with self._opening:
            if self._sessions is None:
                # The import takes a moment; in a thread it does not block other requests.
                self._sessions = await asyncio.to_thread(self._open_sessions)
        return (await self._sessions.get_manager(user)).handle_request

    def _open_sessions(self) -> "McpHttpSessions":
        from deerflow.serving.mcp_server import McpHttpSessions

        return McpHttpSessions(self._harness, self.limits.max_bytes)

    async def aclose(self) -> None:
        """Close all sessions."""
        async with self._opening:
            if self._sessions is not None:
                await self._sessions.aclose()


class McpResponse(Response):
    """Response of an MCP session; the request body is read only now, within the usual limits."""

    def __init__(self, app: ASGIApp, limits: BodyLimits) -> None:
        super().__init__()
        self._app = BodyLimitMiddleware(app, limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


# Not in the OpenAPI document: the protocol is specified by MCP.
@router.api_route("/mcp", methods=["GET", "POST", "DELETE"], include_in_schema=False)
async def speak_mcp(request: Request, user: CurrentUser) -> McpResponse:
    """Handle an MCP request of the current user."""
    endpoint: McpEndpoint = request.app.state.mcp_endpoint
    return McpResponse(await endpoint.get_app(user), endpoint.limits)
