"""MCP servers: their configuration, tools and logins."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic_core import to_jsonable_python

from deerflow.client.session import HarnessSession, Resource, route, sync_and_async
from deerflow.domain.identity import LOCAL_USER
from deerflow.mcp.auth.tokens import LoginCallback, LoginRedirect, LoginStatus
from deerflow.mcp.queries import PinnedVersion, ToolPin
from deerflow.mcp.servers import MaskedConfig, McpServerManager, ServerView, is_declared_read_only

USER = LOCAL_USER.user_id


@route("GET /mcp/config")
async def get_mcp_config(session: HarnessSession) -> dict[str, Any]:
    """Return the configured entries of all servers, with secrets redacted."""
    return serialize_config(await get_servers(session).config())


@route("PUT /mcp/config", names={"servers": "mcp_servers"})
async def update_mcp_config(session: HarnessSession, servers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Replace the entries of all servers, from the next run on. A secret sent as `********` keeps its stored value.

    Raises:
        InvalidRequest: an entry is invalid, or can only be edited in the file.
    """
    return serialize_config(await get_servers(session).replace(servers))


@route("PATCH /mcp/config", names={"name": "server_name"})
async def switch_mcp_server(session: HarnessSession, name: str, *, enabled: bool) -> dict[str, Any]:
    """Enable or disable a server, from the next run on, and return the entries.

    Raises:
        NotFound: the server does not exist.
    """
    return serialize_config(await get_servers(session).switch(name, enabled=enabled))


@route("GET /mcp/servers")
async def list_mcp_servers(session: HarnessSession) -> dict[str, Any]:
    """Return all servers with their status, tools, resources and prompts."""
    return {"servers": [serialize_server(view) for view in await get_servers(session).list(USER)]}


@route("GET /mcp/servers/{name}")
async def get_mcp_server(session: HarnessSession, name: str) -> dict[str, Any]:
    """Return a server.

    Raises:
        NotFound: the server does not exist.
    """
    return serialize_server(await get_servers(session).get(name, USER))


@route("PUT /mcp/servers/{name}", body="entry")
async def put_mcp_server(session: HarnessSession, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Create a server or replace its entry, and return it.

    Raises:
        InvalidRequest: the entry is invalid, or can only be edited in the file.
    """
    return serialize_server(await get_servers(session).put(name, entry, USER))


@route("POST /mcp/import")
async def import_mcp_servers(session: HarnessSession, text: str) -> dict[str, Any]:
    """Add the servers of a configuration for Claude, Cursor, VS Code or this server, and return all entries.

    Raises:
        InvalidRequest: the text has no servers, or one of them is not allowed.
    """
    return serialize_config(await get_servers(session).import_text(text))


@route("DELETE /mcp/servers/{name}")
async def remove_mcp_server(session: HarnessSession, name: str) -> None:
    """Delete a server with all its logins and accepted tools.

    Raises:
        NotFound: the server does not exist.
    """
    await get_servers(session).remove(name)


@route("POST /mcp/servers/{name}/reconnect")
async def reconnect_mcp_server(session: HarnessSession, name: str) -> dict[str, Any]:
    """Reconnect to a server, wait a moment for its tools and return it.

    Raises:
        NotFound: the server does not exist.
    """
    return serialize_server(await get_servers(session).reconnect(name, USER))


@route("POST /mcp/cache/reset")
async def reset_mcp_cache(session: HarnessSession) -> dict[str, Any]:
    """Clear the cached tool lists; each server is queried again on next use."""
    get_servers(session).reset()
    return {"success": True, "message": "all MCP servers are asked again when they are next needed"}


@route("GET /mcp/servers/{name}/pins")
async def get_mcp_pins(session: HarnessSession, name: str) -> dict[str, Any]:
    """Return the accepted and the currently offered tools of a server.

    Raises:
        NotFound: the server does not exist.
    """
    return serialize_pins(name, await get_servers(session).list_pins(name))


@route("POST /mcp/servers/{name}/pins/accept")
async def accept_mcp_tools(session: HarnessSession, name: str, tools: Mapping[str, str]) -> dict[str, Any]:
    """Accept the offered tools, all or none, and return the pins.

    Args:
        name: The server.
        tools: Hash of each tool to accept, as returned by `get_pins`.

    Raises:
        NotFound: no change is pending.
        Conflict: a tool has changed again.
    """
    return serialize_pins(name, await get_servers(session).accept(name, tools, USER))


async def start_mcp_login(session: HarnessSession, name: str, redirect_uri: str) -> dict[str, Any]:
    """Start a login: open the returned URL in a browser and pass the parameters of `redirect_uri` to `finish_login`.

    Raises:
        NotFound: the server does not exist.
        InvalidRequest: the server needs no login.
        McpLoginFailed: the authorization server was not found.
    """
    started = await get_servers(session).start_login(name, USER, LoginRedirect(redirect_uri))
    return {"authorization_url": started.authorization_url, "expires_at": to_jsonable_python(started.expires_at)}


async def finish_mcp_login(session: HarnessSession, state: str, code: str) -> dict[str, Any]:
    """Store the tokens of a login and return its status.

    Raises:
        McpLoginFailed: the login failed.
    """
    servers = get_servers(session)
    return serialize_login(await servers.login(await servers.complete_login(USER, LoginCallback(state, code)), USER))


@route("GET /mcp/servers/{name}/oauth")
async def get_mcp_login(session: HarnessSession, name: str) -> dict[str, Any]:
    """Return the login status at a server.

    Raises:
        NotFound: the server does not exist.
    """
    return serialize_login(await get_servers(session).login(name, USER))


@route("DELETE /mcp/servers/{name}/oauth")
async def forget_mcp_login(session: HarnessSession, name: str) -> None:
    """Delete the login at a server.

    Raises:
        NotFound: the server does not exist.
    """
    await get_servers(session).forget_login(name, USER)


class McpClient(Resource):
    """MCP servers, their tools and logins."""

    get_config, aget_config = sync_and_async(get_mcp_config)
    update_config, aupdate_config = sync_and_async(update_mcp_config)
    import_text, aimport_text = sync_and_async(import_mcp_servers)
    list, alist = sync_and_async(list_mcp_servers)
    get, aget = sync_and_async(get_mcp_server)
    put, aput = sync_and_async(put_mcp_server)
    delete, adelete = sync_and_async(remove_mcp_server)
    set_enabled, aset_enabled = sync_and_async(switch_mcp_server)
    reconnect, areconnect = sync_and_async(reconnect_mcp_server)
    reset_cache, areset_cache = sync_and_async(reset_mcp_cache)
    get_pins, aget_pins = sync_and_async(get_mcp_pins)
    accept_tools, aaccept_tools = sync_and_async(accept_mcp_tools)
    start_login, astart_login = sync_and_async(start_mcp_login)
    finish_login, afinish_login = sync_and_async(finish_mcp_login)
    get_login, aget_login = sync_and_async(get_mcp_login)
    delete_login, adelete_login = sync_and_async(forget_mcp_login)


def get_servers(session: HarnessSession) -> McpServerManager:
    """Return the service that manages MCP servers."""
    return session.harness.resources.mcp_servers


def serialize_config(shown: MaskedConfig) -> dict[str, Any]:
    """Return the configured entries in the shape of the HTTP API."""
    return {"mcp_servers": dict(shown.servers), "problem": shown.problem}


def serialize_server(view: ServerView) -> dict[str, Any]:
    """Return a server in the shape of the HTTP API."""
    status = view.status
    return {
        "name": view.name,
        "type": view.config.type,
        "description": view.config.description,
        "enabled": view.config.enabled,
        "state": status.state,
        "error": status.error,
        "log": status.log,
        "notes": view.notes,
        "since": to_jsonable_python(status.since),
        "tools": [
            {
                "name": card.name,
                "title": card.title,
                "description": card.description,
                "input_schema": dict(card.input_schema),
                "read_only": is_declared_read_only(card),
            }
            for card in status.tools
        ],
        "changed_tools": list(status.changed_tools),
        "resources": [asdict(each) for each in status.resources],
        "prompts": [{**asdict(each), "arguments": list(each.arguments)} for each in status.prompts],
        "login": serialize_login(view.login),
    }


def serialize_login(login: LoginStatus) -> dict[str, Any]:
    """Return a login status in the shape of the HTTP API."""
    return {
        **asdict(login),
        "expires_at": to_jsonable_python(login.expires_at),
        "since": to_jsonable_python(login.since),
    }


def serialize_pins(server: str, pins: Sequence[ToolPin]) -> dict[str, Any]:
    """Return accepted and offered tools in the shape of the HTTP API."""
    shown = [
        {
            "tool": pin.tool,
            "state": pin.state,
            "accepted": serialize_version(pin.accepted),
            "offered": serialize_version(pin.offered),
            "accepted_at": to_jsonable_python(pin.accepted_at),
            "accepted_by": pin.accepted_by,
            "offered_at": to_jsonable_python(pin.offered_at),
        }
        for pin in pins
    ]
    return {"server": server, "tools": shown}


def serialize_version(version: PinnedVersion | None) -> dict[str, Any] | None:
    """Return one version of a tool."""
    return {"hash": version.hash, **version.shown} if version is not None else None
