"""MCP servers: configuration, status, accepted tools and logins."""

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from deerflow.domain.errors import McpLoginFailed, NotFound
from deerflow.gateway.dependencies import ConfigurationRoute, CurrentAdmin, CurrentUser, HarnessDep
from deerflow.gateway.errors import declared_errors
from deerflow.gateway.examples import MCP_ENTRY
from deerflow.gateway.middleware.body_limits import CALLBACK
from deerflow.gateway.schemas.mcp import (
    AcceptTools,
    Entry,
    McpConfig,
    McpConfigBody,
    McpImport,
    McpImportPreview,
    McpLogin,
    McpPaste,
    McpReset,
    McpServer,
    McpServers,
    McpSwitch,
    McpToolSwitch,
    McpToolTest,
    McpToolTestResult,
    PastedMcpServer,
    Pin,
    Pins,
    StartedLogin,
    StartLogin,
)
from deerflow.mcp.auth.tokens import LoginCallback, LoginRedirect, describe_client
from deerflow.persistence.queries.audit import AuditEvent, AuditOutcome


class McpRoute(ConfigurationRoute):
    """Route of MCP servers."""

    kind = "configuration.mcp"
    unrecorded = frozenset(
        {"preview_mcp_import", "reset_mcp_cache", "reconnect_mcp_server", "start_mcp_login", "call_mcp_tool"}
    )


router = APIRouter(prefix="/mcp", tags=["mcp"], responses=declared_errors((403, 502)), route_class=McpRoute)

CLIENT_METADATA = "/api/mcp/oauth/client-metadata.json"
PRIVATE = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
MAX_PROBLEM = 500

Returned = Annotated[str | None, Query(max_length=8000)]


@router.get("/config")
async def get_mcp_config(harness: HarnessDep, user: CurrentUser) -> McpConfig:
    """Get the entries of all servers in `extensions_config.json`, with secrets redacted."""
    return McpConfig.from_domain(await harness.resources.mcp_servers.config())


@router.put("/config")
async def update_mcp_config(body: McpConfigBody, harness: HarnessDep, user: CurrentAdmin) -> McpConfig:
    """Replace the entries of all servers, from the next run on. A secret sent as `********` keeps its stored value.

    New commands must be npx, uvx, bunx, pipx or allowed by the operator; entries with forbidden content are rejected.
    """
    return McpConfig.from_domain(await harness.resources.mcp_servers.replace(body.mcp_servers))


@router.patch("/config")
async def switch_mcp_server(body: McpSwitch, harness: HarnessDep, user: CurrentAdmin) -> McpConfig:
    """Enable or disable a server, from the next run on."""
    return McpConfig.from_domain(await harness.resources.mcp_servers.switch(body.server_name, enabled=body.enabled))


@router.post("/import")
async def import_mcp_servers(body: McpImport, harness: HarnessDep, user: CurrentAdmin) -> McpConfig:
    """Add the servers of a configuration for Claude, Cursor, VS Code or this server, pasted as text, all or none.

    Comments and trailing commas are allowed. Entries with the same names are replaced; the rules are those of the
    whole configuration.
    """
    return McpConfig.from_domain(await harness.resources.mcp_servers.import_text(body.text, body.names))


@router.post("/import/preview")
async def preview_mcp_import(body: McpPaste, harness: HarnessDep, user: CurrentAdmin) -> McpImportPreview:
    """Show which servers an import of the text would add, and why some cannot be added. Nothing is written.

    A single entry without a name gets the name of its package or host.
    """
    found = await harness.resources.mcp_servers.preview_text(body.text)
    return McpImportPreview(servers=[PastedMcpServer.model_validate(each) for each in found])


@router.post("/cache/reset")
async def reset_mcp_cache(harness: HarnessDep, user: CurrentAdmin) -> McpReset:
    """Clear the cached tool lists; each server is queried again on next use."""
    harness.resources.mcp_servers.reset()
    return McpReset(success=True, message="all MCP servers are asked again when they are next needed")


@router.get("/servers")
async def list_mcp_servers(harness: HarnessDep, user: CurrentUser) -> McpServers:
    """List all servers with status, tools, resources and prompts. Others are connected in the background."""
    return McpServers(
        servers=[McpServer.from_domain(view) for view in await harness.resources.mcp_servers.list(user.user_id)]
    )


@router.get("/servers/{server}")
async def get_mcp_server(server: str, harness: HarnessDep, user: CurrentUser) -> McpServer:
    """Get a server."""
    return McpServer.from_domain(await harness.resources.mcp_servers.get(server, user.user_id))


@router.put("/servers/{server}")
async def put_mcp_server(
    server: str, body: Annotated[Entry, Body(examples=[MCP_ENTRY])], harness: HarnessDep, user: CurrentAdmin
) -> McpServer:
    """Create a server or replace its entry; the rules are those of the whole configuration."""
    return McpServer.from_domain(await harness.resources.mcp_servers.put(server, body, user.user_id))


@router.delete("/servers/{server}", status_code=204)
async def remove_mcp_server(server: str, harness: HarnessDep, user: CurrentAdmin) -> None:
    """Delete a server with the logins of all users and its accepted tools."""
    await harness.resources.mcp_servers.remove(server)


@router.post("/servers/{server}/reconnect")
async def reconnect_mcp_server(server: str, harness: HarnessDep, user: CurrentUser) -> McpServer:
    """Reconnect to a server and wait a moment for its tools."""
    return McpServer.from_domain(await harness.resources.mcp_servers.reconnect(server, user.user_id))


@router.patch("/servers/{server}/tools")
async def switch_mcp_tool(server: str, body: McpToolSwitch, harness: HarnessDep, user: CurrentAdmin) -> McpServer:
    """Offer a tool of a server to agents or not, from the next run on."""
    servers = harness.resources.mcp_servers
    return McpServer.from_domain(await servers.switch_tool(server, body.tool, user.user_id, enabled=body.enabled))


@router.post("/servers/{server}/tools/call")
async def call_mcp_tool(server: str, body: McpToolTest, harness: HarnessDep, user: CurrentUser) -> McpToolTestResult:
    """Call a tool once for the current user, outside of any thread. The policy applies as for agents."""
    tester = await harness.resources.load_tool_tests()
    result = await tester.run(user.user_id, server, body.tool, body.arguments, approved=body.approved)
    if result.outcome in ("done", "failed"):
        outcome: AuditOutcome = "success" if result.outcome == "done" else "failure"
        details = {"tool": body.tool, "server": server}
        call = AuditEvent("run.tool_call", user.user_id, user.user_id, outcome, details)
        await harness.resources.audit.record(call)
    return McpToolTestResult.model_validate(result)


@router.get("/servers/{server}/pins")
async def get_mcp_pins(server: str, harness: HarnessDep, user: CurrentUser) -> Pins:
    """Get the accepted and the offered tools of a server. A tool that differs is not available to agents."""
    return build_pins(server, [Pin.from_domain(pin) for pin in await harness.resources.mcp_servers.list_pins(server)])


@router.post("/servers/{server}/pins/accept")
async def accept_mcp_tools(server: str, body: AcceptTools, harness: HarnessDep, user: CurrentAdmin) -> Pins:
    """Accept the offered tools, all or none; the user and the time are stored."""
    accepted = await harness.resources.mcp_servers.accept(server, body.tools, user.user_id)
    return build_pins(server, [Pin.from_domain(pin) for pin in accepted])


@router.post("/servers/{server}/oauth/start")
async def start_mcp_login(
    server: str, body: StartLogin, request: Request, harness: HarnessDep, user: CurrentUser
) -> StartedLogin:
    """Start the login of the current user at a server; open the returned URL in the browser."""
    public_url = harness.core.source.current.config.gateway.public_url
    here = public_url or str(request.base_url).rstrip("/")
    client_url = f"{public_url}{CLIENT_METADATA}" if public_url and public_url.startswith("https:") else None
    redirect = LoginRedirect(f"{here}{CALLBACK}", body.return_to, client_url)
    started = await harness.resources.mcp_servers.start_login(server, user.user_id, redirect)
    return StartedLogin.model_validate(started, from_attributes=True)


@router.get("/servers/{server}/oauth")
async def get_mcp_login(server: str, harness: HarnessDep, user: CurrentUser) -> McpLogin:
    """Get the login status of the current user at a server."""
    status = await harness.resources.mcp_servers.login(server, user.user_id)
    return McpLogin.model_validate(status, from_attributes=True)


@router.delete("/servers/{server}/oauth", status_code=204)
async def forget_mcp_login(server: str, harness: HarnessDep, user: CurrentUser) -> None:
    """Delete the login of the current user at a server."""
    await harness.resources.mcp_servers.forget_login(server, user.user_id)


# Not part of the API: authorization servers fetch it when its URL is used as the client id.
@router.get("/oauth/client-metadata.json", include_in_schema=False)
async def get_client_metadata(harness: HarnessDep) -> JSONResponse:
    """Get the client ID metadata document."""
    public_url = harness.core.source.current.config.gateway.public_url
    if public_url is None:
        raise NotFound("there is no client metadata without gateway.public_url")
    client = describe_client(f"{public_url}{CALLBACK}")
    document = {"client_id": f"{public_url}{CLIENT_METADATA}", "client_uri": public_url, **client}
    return JSONResponse({**document, "token_endpoint_auth_method": "none"})


# Not part of the API: authorization servers redirect the browser to it, and the response is for a person.
@router.get("/oauth/callback", include_in_schema=False)
async def finish_mcp_login(
    harness: HarnessDep,
    user: CurrentUser,
    state: Returned = None,
    code: Returned = None,
    error: Returned = None,
    iss: Returned = None,
) -> Response:
    """Finish a login with the parameters of the redirect, and redirect the browser back to the page."""
    try:
        back = LoginCallback(state or "", code, error, iss)
        finished = await harness.resources.mcp_servers.finish_login(user.user_id, back)
    except McpLoginFailed as problem:
        return PlainTextResponse(f"{problem}\n", 400, headers=PRIVATE)
    if finished.return_to is None:
        text = finished.problem or f"You are logged in at {finished.server!r}. You can close this window."
        return PlainTextResponse(f"{text}\n", 400 if finished.problem else 200, headers=PRIVATE)
    outcome = {"mcp_server": finished.server, "mcp_login": "failed" if finished.problem else "done"}
    if finished.problem:
        outcome["mcp_problem"] = finished.problem[:MAX_PROBLEM]
    separator = "&" if "?" in finished.return_to else "?"
    return RedirectResponse(f"{finished.return_to}{separator}{urlencode(outcome)}", 303, headers=PRIVATE)


def build_pins(server: str, pins: list[Pin]) -> Pins:
    """Return the tools of a server as a response."""
    return Pins(server=server, tools=pins)
