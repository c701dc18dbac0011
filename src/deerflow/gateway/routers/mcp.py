"""/mcp: servers that offer tools to agents, what is accepted of them, and logins there"""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import PlainTextResponse, RedirectResponse, Response

from deerflow.domain.errors import McpLoginFailed
from deerflow.gateway.dependencies import Admin, TheHarness, Who
from deerflow.gateway.errors import declared_errors
from deerflow.gateway.examples import MCP_ENTRY
from deerflow.gateway.guard import CALLBACK
from deerflow.gateway.mcp_bodies import (
    AcceptTools,
    Entry,
    McpConfig,
    McpConfigBody,
    McpLogin,
    McpReset,
    McpServer,
    McpServers,
    McpSwitch,
    Pin,
    Pins,
    StartedLogin,
    StartLogin,
)
from deerflow.mcp.login_words import CameBack

router = APIRouter(prefix="/mcp", tags=["mcp"], responses=declared_errors((403, 502)))

PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
MAX_PROBLEM = 500

Returned = Annotated[str | None, Query(max_length=8000)]


@router.get("/config")
async def get_mcp_config(harness: TheHarness, who: Who) -> McpConfig:
    """The entries of all servers, as they are written in `extensions_config.json`, without secrets."""
    return McpConfig.of(await harness.resources.mcp_servers.config())


@router.put("/config")
async def update_mcp_config(body: McpConfigBody, harness: TheHarness, who: Admin) -> McpConfig:
    """Have these servers and no others, from the next run on. A secret that reads `********` stays as it is stored.

    New commands are npx and uvx, and those the operator allows; what an entry must not contain is refused.
    """
    return McpConfig.of(await harness.resources.mcp_servers.replace(body.mcp_servers))


@router.patch("/config")
async def switch_mcp_server(body: McpSwitch, harness: TheHarness, who: Admin) -> McpConfig:
    """Switch a server on or off, from the next run on."""
    return McpConfig.of(await harness.resources.mcp_servers.switch(body.server_name, enabled=body.enabled))


@router.post("/cache/reset")
async def reset_mcp_cache(harness: TheHarness, who: Admin) -> McpReset:
    """Forget what servers offered; each is asked again when it is next needed."""
    harness.resources.mcp_servers.reset()
    return McpReset(success=True, message="all MCP servers are asked again when they are next needed")


@router.get("/servers")
async def list_mcp_servers(harness: TheHarness, who: Who) -> McpServers:
    """All servers: how things stand with each, and what it offers. Those not asked yet are asked in the background."""
    return McpServers(servers=[McpServer.of(view) for view in await harness.resources.mcp_servers.list(who.user_id)])


@router.get("/servers/{server}")
async def get_mcp_server(server: str, harness: TheHarness, who: Who) -> McpServer:
    """One server."""
    return McpServer.of(await harness.resources.mcp_servers.get(server, who.user_id))


@router.put("/servers/{server}")
async def put_mcp_server(
    server: str, body: Annotated[Entry, Body(examples=[MCP_ENTRY])], harness: TheHarness, who: Admin
) -> McpServer:
    """Add a server, or replace its entry; the same rules as for the whole configuration."""
    return McpServer.of(await harness.resources.mcp_servers.put(server, body, who.user_id))


@router.delete("/servers/{server}", status_code=204)
async def remove_mcp_server(server: str, harness: TheHarness, who: Admin) -> None:
    """Remove a server, with everybody's logins there and what was accepted of its tools."""
    await harness.resources.mcp_servers.remove(server)


@router.post("/servers/{server}/reconnect")
async def reconnect_mcp_server(server: str, harness: TheHarness, who: Who) -> McpServer:
    """Ask a server again what it offers, and wait a moment for the answer."""
    return McpServer.of(await harness.resources.mcp_servers.reconnect(server, who.user_id))


@router.get("/servers/{server}/pins")
async def get_mcp_pins(server: str, harness: TheHarness, who: Who) -> Pins:
    """The tools of a server as they were accepted, and as they are now. One that differs is not offered to agents."""
    return shown_pins(server, [Pin.of(pin) for pin in await harness.resources.mcp_servers.pinned(server)])


@router.post("/servers/{server}/pins/accept")
async def accept_mcp_tools(server: str, body: AcceptTools, harness: TheHarness, who: Admin) -> Pins:
    """Accept tools as they are offered now, all or none; who did so and when is kept."""
    accepted = await harness.resources.mcp_servers.accept(server, body.tools, who.user_id)
    return shown_pins(server, [Pin.of(pin) for pin in accepted])


@router.post("/servers/{server}/oauth/start")
async def start_mcp_login(
    server: str, body: StartLogin, request: Request, harness: TheHarness, who: Who
) -> StartedLogin:
    """Begin the caller's login at a server: send the browser to the address that comes back."""
    here = harness.source.current.config.gateway.public_url or str(request.base_url).rstrip("/")
    back = f"{here}{CALLBACK}"
    started = await harness.resources.mcp_servers.start_login(server, who.user_id, back, body.return_to)
    return StartedLogin.model_validate(started, from_attributes=True)


@router.get("/servers/{server}/oauth")
async def get_mcp_login(server: str, harness: TheHarness, who: Who) -> McpLogin:
    """How things stand with the caller's login at a server."""
    status = await harness.resources.mcp_servers.login(server, who.user_id)
    return McpLogin.model_validate(status, from_attributes=True)


@router.delete("/servers/{server}/oauth", status_code=204)
async def forget_mcp_login(server: str, harness: TheHarness, who: Who) -> None:
    """Forget the caller's login at a server."""
    await harness.resources.mcp_servers.forget_login(server, who.user_id)


# No part of the API: this is where other sites send a person's browser, and what it gets is for a person.
@router.get("/oauth/callback", include_in_schema=False)
async def finish_mcp_login(
    harness: TheHarness,
    who: Who,
    state: Returned = None,
    code: Returned = None,
    error: Returned = None,
    iss: Returned = None,
) -> Response:
    """Take in what a browser brings back from a login, and send it on."""
    try:
        back = CameBack(state or "", code, error, iss)
        finished = await harness.resources.mcp_servers.finish_login(who.user_id, back)
    except McpLoginFailed as problem:
        return PlainTextResponse(f"{problem}\n", 400, headers=PRIVATE)
    if finished.return_to is None:
        told = finished.problem or f"You are logged in at {finished.server!r}. You can close this window."
        return PlainTextResponse(f"{told}\n", 400 if finished.problem else 200, headers=PRIVATE)
    outcome = {"mcp_server": finished.server, "mcp_login": "failed" if finished.problem else "done"}
    if finished.problem:
        outcome["mcp_problem"] = finished.problem[:MAX_PROBLEM]
    separator = "&" if "?" in finished.return_to else "?"
    return RedirectResponse(f"{finished.return_to}{separator}{urlencode(outcome)}", 303, headers=PRIVATE)


def shown_pins(server: str, pins: list[Pin]) -> Pins:
    """The tools of a server as the API has them."""
    return Pins(server=server, tools=pins)
