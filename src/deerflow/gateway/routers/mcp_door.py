"""/mcp: the agent for programs that speak MCP"""

from fastapi import APIRouter, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from deerflow.gateway.bodies import BodyGuard, BodyLimits
from deerflow.gateway.dependencies import Who
from deerflow.gateway.mcp_door import Manager, McpDoor

router = APIRouter(tags=["mcp"])


class HandedOn(Response):
    """An answer that somebody else gives, to a body like any other, which is read only now."""

    def __init__(self, manager: Manager, limits: BodyLimits) -> None:
        super().__init__()
        self._guarded = BodyGuard(manager.handle_request, limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guarded(scope, receive, send)


# Not in the description of the API: what is said here is described by MCP.
@router.api_route("/mcp", methods=["GET", "POST", "DELETE"], include_in_schema=False)
async def speak_mcp(request: Request, who: Who) -> HandedOn:
    """The agent as an MCP server over streamable HTTP, for whoever is logged in."""
    door: McpDoor = request.app.state.mcp_door
    return HandedOn(await door.for_person(who), door.limits)
